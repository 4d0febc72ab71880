"""Instructions between the two cores of a logical core: a barrier, and an exchange of tiles."""

from __future__ import annotations

from typing import Any

from ..checks import active_since, engine_of, member
from ..core import NeuronCore
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..memory import SBUF, MemoryRegion
from ..pair import CORES, Meeting, Pair
from ..tensor import NkiTensor
from ..timing import transfers
from .dma import dma_engine

_ENGINES = (engine.tensor, engine.vector, engine.scalar, engine.gpsimd, engine.sync)
_DMA_ENGINE = dma_engine
_GPSIMD_BYTES = 256  # of a partition, for each byte of an element, that GpSimd's own DMA moves at most


def core_barrier(data: NkiTensor, cores: Any, engine: engine = engine.gpsimd, name: str | None = None) -> Instruction:
    """Both cores wait for each other; what either has written to `data`, in shared HBM, the other can then read.

    The writes to `data` that come before are awaited, those and the reads that come after wait.
    """
    core, pair = _pair("core_barrier")
    if not isinstance(data, NkiTensor) or data.storage.region not in (MemoryRegion.shared_hbm, SBUF):
        shown = data.label if isinstance(data, NkiTensor) else type(data).__name__
        raise NkiValidationError(f"core_barrier: data {shown} must be a tensor in nl.shared_hbm")
    private = data.storage.region is SBUF  # nki-library's bwmm_shard_on_I has a barrier on a tile
    if private:
        core.warn(f"core_barrier: data {data.label} is each core's own; the documentation has data in nl.shared_hbm")
    if tuple(cores) != tuple(range(CORES)):
        raise NkiValidationError(f"core_barrier: cores {cores}; allowed: (0, 1)")
    unit = engine_of("core_barrier", engine, _GPSIMD, _ENGINES)
    instruction = core.issue("core_barrier", unit, (data,), (data,), core.costs.barrier(), name)
    terms = ("core_barrier", 0 if private else id(data.storage))
    pair.meet(core.rank, Meeting(terms, _shown(instruction, f"data {data.label}"), instruction.index, None))
    return instruction


def sendrecv(
    src: NkiTensor,
    dst: NkiTensor,
    send_to_rank: int,
    recv_from_rank: int,
    pipe_id: int,
    dma_engine: dma_engine = dma_engine.dma,
    name: str | None = None,
) -> Instruction:
    """Send `src` to the other core and put what that one sends into `dst`, both in SBUF; they wait for each other."""
    core, pair = _pair("sendrecv")
    for operand, tensor in (("src", src), ("dst", dst)):
        if not isinstance(tensor, NkiTensor) or tensor.storage.region is not SBUF:
            shown = tensor.label if isinstance(tensor, NkiTensor) else type(tensor).__name__
            raise NkiValidationError(f"sendrecv: {operand} {shown} must be in SBUF")
    if src.dtype != dst.dtype or src.shape[0] != dst.shape[0] or src.free_size != dst.free_size:
        raise NkiValidationError(
            f"sendrecv: src {src.label} and dst {dst.label} must have one dtype, the same partitions and elements"
        )
    other = 1 - core.rank
    if (send_to_rank, recv_from_rank) != (other, other):
        raise NkiValidationError(
            f"sendrecv on core {core.rank}: sends to {send_to_rank} and receives from {recv_from_rank}; of two cores "
            f"that exchange tiles each sends to the other and receives from it, here {other}"
        )
    by_gpsimd = member("sendrecv", "dma_engine", _DMA_ENGINE, dma_engine) is _DMA_ENGINE.gpsimd_dma
    size = src._dtype.itemsize
    if by_gpsimd and src.free_size * size > _GPSIMD_BYTES * size:
        raise NkiValidationError(
            f"sendrecv: src {src.label} has {src.free_size * size} bytes in a partition, dma_engine gpsimd_dma moves "
            f"at most {_GPSIMD_BYTES * size} of {src.dtype}"
        )
    transfer = transfers.copying(core.target, dst, src, core.dge, software=by_gpsimd)
    instruction = core.issue("sendrecv", _DMA, (dst,), (src,), name=name, dma=transfer)
    core.share("sendrecv", instruction)  # one after the other: 13 of them took 24.4 us (row o41)
    terms = ("sendrecv", pipe_id, src.dtype, src.shape[0], src.free_size, by_gpsimd)
    shown = _shown(instruction, f"pipe_id {pipe_id}, src {src.label}")
    sent = src.values.copy() if core.functional else None
    received = pair.meet(core.rank, Meeting(terms, shown, instruction.index, sent)).values

    if core.functional:
        dst.write(received.reshape(dst.shape))
    return instruction


_GPSIMD, _DMA = engine.gpsimd, engine.dma


def _pair(op: str) -> tuple[NeuronCore, Pair]:
    core = active_since(op, 3)
    if core.pair is None:
        raise NkiValidationError(f"{op}: the kernel runs on one core; launch it on two, kernel[2](...)")
    return core, core.pair


def _shown(instruction: Instruction, operands: str) -> str:
    return f"{instruction.op} ({operands}) of {instruction.line[0]}:{instruction.line[1]}"
