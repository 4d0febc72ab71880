"""Instructions that involve both cores of a logical core: a barrier, and exchanges of tiles."""

from __future__ import annotations

from typing import Annotated, Any

from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import SBUF, MemoryRegion
from ..machine.pair import CORES, Meeting, Pair
from ..tensors.tensor import NkiTensor
from ..timing import transfers
from .checks import float_values
from .core import NeuronCore, active
from .declaration import Engine, declared
from .dma import dma_engine
from .operands import Call, Member, Operator, Unchecked
from .tensor_operands import DmaTensor

_GPSIMD, _DMA = engine.gpsimd, engine.dma
_GPSIMD_BYTES = 256  # bytes per partition that GpSimd's DMA can move, per byte of the element size


def _shared(call: Call) -> None:
    """data must be in nl.shared_hbm, and cores must be (0, 1)."""
    data, cores = call.data, call.cores
    if data.storage.region not in (MemoryRegion.shared_hbm, SBUF):
        raise NkiValidationError(f"core_barrier: data {data.label} must be a tensor in nl.shared_hbm")
    if data.storage.region is SBUF:  # nki-library's bwmm_shard_on_I uses a barrier on a tile
        call.core.warn(
            f"core_barrier: data {data.label} is private to each core; the documentation requires nl.shared_hbm"
        )
    if tuple(cores) != tuple(range(CORES)):
        raise NkiValidationError(f"core_barrier: cores must be (0, 1), got {cores}")


@declared(
    _GPSIMD, engine.tensor, engine.vector, engine.scalar, engine.sync, cost=("barrier",), generation=3, rules=(_shared,)
)
def core_barrier(
    data: Annotated[NkiTensor, DmaTensor(written=True, kept=True)],
    cores: Any,
    engine: Annotated[engine, Engine()] = engine.gpsimd,
    name: str | None = None,
) -> Instruction:
    """Make both cores wait for each other, so that each can read what the other wrote to `data` in shared HBM.

    The barrier waits for all earlier writes to `data`, and later reads and writes wait for the barrier.
    """
    core = active("core_barrier")
    unit, cost, _, _ = core.settle("core_barrier", data, cores, engine)
    pair = _pair("core_barrier", core)
    instruction = core.issue("core_barrier", unit, (data,), (data,), cost, name)
    terms = ("core_barrier", 0 if data.storage.region is SBUF else id(data.storage))
    pair.meet(core.rank, Meeting(terms, _shown(instruction, f"data {data.label}"), instruction.index, None))
    return instruction


def _alike(call: Call) -> None:
    """src and dst must have the same dtype and the same number of partitions and elements."""
    src, dst = call.src, call.dst
    if src.dtype != dst.dtype or src.shape[0] != dst.shape[0] or src.free_size != dst.free_size:
        raise NkiValidationError(
            f"{call.instruction}: src {src.label} and dst {dst.label} must have the same dtype, partitions and elements"
        )


def _exchanged(call: Call) -> None:
    """gpsimd_dma moves up to 256 elements per partition."""
    src, dst = call.src, call.dst
    by_gpsimd, size = call.dma_engine is dma_engine.gpsimd_dma, src._dtype.itemsize
    if by_gpsimd and src.free_size * size > _GPSIMD_BYTES * size:
        raise NkiValidationError(
            f"sendrecv: src {src.label} has {src.free_size * size} bytes per partition, but dma_engine gpsimd_dma "
            f"moves at most {_GPSIMD_BYTES * size} of {src.dtype}"
        )
    generation = transfers.Generation(call.core.dge, by_gpsimd)
    call.transfer = transfers.copying(call.core.target, dst, src, generation)._replace(beside=by_gpsimd)


@declared(_DMA, generation=3, rules=(_alike, _exchanged), finds=("transfer",))
def sendrecv(
    src: Annotated[NkiTensor, DmaTensor(buffers=(SBUF,))],
    dst: Annotated[NkiTensor, DmaTensor(written=True, buffers=(SBUF,))],
    send_to_rank: Annotated[int, Unchecked()],
    recv_from_rank: Annotated[int, Unchecked()],
    pipe_id: Annotated[int, Unchecked()],
    dma_engine: Annotated[dma_engine, Member(dma_engine)] = dma_engine.dma,
    name: str | None = None,
) -> Instruction:
    """Send `src` to the other core and receive its `src` in `dst`, both in SBUF. The cores wait for each other."""
    core = active("sendrecv")
    _, cost, _, (by, transfer) = core.settle("sendrecv", src, dst, dma_engine)
    pair = _exchanging("sendrecv", core, send_to_rank, recv_from_rank)
    instruction = core.issue("sendrecv", _DMA, (dst,), (src,), cost, name, dma=transfer)
    core.share("sendrecv", instruction)  # executed one after the other, since 13 of them took 24.4 us (row o41)
    terms = ("sendrecv", pipe_id, src.dtype, src.shape[0], src.free_size, by)
    description = _shown(instruction, f"pipe_id {pipe_id}, src {src.label}")
    values = src.values.copy() if core.functional else None
    received = pair.meet(core.rank, Meeting(terms, description, instruction.index, values)).values

    if core.functional:
        dst.write(received.reshape(dst.shape))
    return instruction


def _exchanging(op: str, core: NeuronCore, send_to_rank: int, recv_from_rank: int) -> Pair:
    """Return the pair of cores that exchange tiles.

    Raises NkiValidationError unless both ranks are the rank of the other core.
    """
    pair, other = _pair(op, core), 1 - core.rank
    if (send_to_rank, recv_from_rank) != (other, other):
        raise NkiValidationError(
            f"{op} on core {core.rank}: sends to {send_to_rank} and receives from {recv_from_rank}; two cores must "
            f"send to and receive from each other, here core {other}"
        )
    return pair


def _one_memory(call: Call) -> None:
    """src and dst must both be in SBUF or both in private HBM."""
    src, dst = call.src, call.dst
    if src.storage.region is not dst.storage.region:
        raise NkiValidationError(
            f"sendrecv_compute: src {src.label} and dst {dst.label} must both be in SBUF or both in nl.private_hbm"
        )
    call.transfer = transfers.copying(call.core.target, dst, src, transfers.Generation(call.core.dge, False))


_OWN_MEMORY = (SBUF, MemoryRegion.private_hbm)


@declared(_DMA, generation=3, rules=(_alike, _one_memory), finds=("transfer",))
def sendrecv_compute(
    src: Annotated[NkiTensor, DmaTensor(buffers=_OWN_MEMORY)],
    dst: Annotated[NkiTensor, DmaTensor(written=True, buffers=_OWN_MEMORY)],
    send_to_rank: Annotated[int, Unchecked()],
    recv_from_rank: Annotated[int, Unchecked()],
    reduce_op: Annotated[Any, Operator(("add", "maximum", "minimum"))],
    name: str | None = None,
) -> Instruction:
    """Compute dst = src <reduce_op> the src of the other core. The two cores wait for each other.

    The time of this instruction is not published; it is modelled as a `sendrecv` by the DMA engines.
    """
    core = active("sendrecv_compute")
    _, cost, _, (operator, transfer) = core.settle("sendrecv_compute", src, dst, reduce_op)
    pair = _exchanging("sendrecv_compute", core, send_to_rank, recv_from_rank)
    instruction = core.issue("sendrecv_compute", _DMA, (dst,), (src,), cost, name, dma=transfer)
    core.share("sendrecv", instruction)
    terms = ("sendrecv_compute", operator.name, src.dtype, src.shape[0], src.free_size)
    description = _shown(instruction, f"src {src.label}")
    values = float_values(src).copy() if core.functional else None
    received = pair.meet(core.rank, Meeting(terms, description, instruction.index, values)).values

    if core.functional:
        total = operator.compute(float_values(src), received.reshape(src.shape))
        dst.write(total.reshape(dst.shape))
    return instruction


def _pair(op: str, core: NeuronCore) -> Pair:
    if core.pair is None:
        raise NkiValidationError(f"{op}: the kernel runs on one core; launch it on two with kernel[2](...)")
    return core.pair


def _shown(instruction: Instruction, operands: str) -> str:
    return f"{instruction.op} ({operands}) of {instruction.line[0]}:{instruction.line[1]}"
