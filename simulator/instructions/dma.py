"""DMA instructions, which use sixteen queues to move data between HBM and SBUF, or within one of them."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from ..machine.chip import PARTITIONS
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, Transfer, engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from ..timing.transfers import Generation, copying, left_to_compiler
from .checks import copy_values, member
from .core import NeuronCore, active
from .declaration import declared
from .indirect_moves import move
from .operands import Call, Member
from .reported import check_skipped_transpose, check_transposed_rows
from .tensor_operands import DmaTensor


class dge_mode(Enum):  # noqa: N801 (name and values of nki.isa)
    """The unit that generates the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class oob_mode(Enum):  # noqa: N801 (name and values of nki.isa)
    """The effect of a dynamic access that is out of bounds."""

    error = 0
    skip = 1


class dma_engine(Enum):  # noqa: N801 (name and values of nki.isa)
    """The DMA engine that moves data between cores."""

    dma = 1
    gpsimd_dma = 2


_TRANSPOSE_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
_DMA, _SCALAR, _ANY = engine.dma, engine.scalar, engine.unknown
_UNKNOWN, _NO_DGE, _HARDWARE, _SOFTWARE = dge_mode.unknown, dge_mode.none, dge_mode.hwdge, dge_mode.swdge
_SKIP = oob_mode.skip


def _copied(call: Call) -> None:
    """src and dst must have the same number of elements. int64 can only be copied to int64."""
    dst, src = call.dst, call.src
    if dst.shape != src.shape and dst.size != src.size:
        raise NkiValidationError(
            f"dma_copy: src {src.label} has {src.size} elements, but dst {dst.label} has {dst.size}; they must match"
        )
    if dst.dtype != src.dtype and "int64" in (dst.dtype, src.dtype):
        raise NkiValidationError(f"dma_copy: src {src.label} and dst {dst.label}: int64 can only be copied to int64")


def _queue(call: Call) -> None:
    """dge_mode hwdge requires trn2, and priority requires trn3. engine can only be specified with dge_mode hwdge, and
    must be sync or scalar."""
    op, mode, generation = call.instruction, call.dge_mode, call.core.target.generation
    if mode is _HARDWARE and generation < 3:
        raise NkiValidationError(f"{op}: dge_mode hwdge requires NeuronCore-v3 (trn2) or newer")
    call.queue = getattr(call, "engine", _ANY)
    if call.queue is not _ANY:
        call.queue = member(op, "engine", engine, call.queue)
    if call.queue is not _ANY and (mode is not _HARDWARE or call.queue not in (engine.sync, engine.scalar)):
        raise NkiValidationError(f"{op}: engine may only be sync or scalar, and only with dge_mode hwdge")
    if call.priority is not None and (generation < 4 or call.priority not in (0, 1, 2, 3)):
        raise NkiValidationError(f"{op}: priority must be 0 to 3, and requires NeuronCore-v4 (trn3)")


def gathers(call: Call) -> None:
    """A vector of indices must be a column, and requires trn2 and dge_mode swdge or unknown. For a transpose, the
    indices must be uint32, and src must have a multiple of 16 rows, up to 128 columns and 2-byte elements."""
    for operand in ("dst", "src"):
        gathers_rows(call.core, call.instruction, call.dge_mode, getattr(call, operand))


def _moves(call: Call) -> None:
    turns = call.instruction == "dma_transpose"
    call.moved = hbm_bytes(call.dst, call.src)
    call.transfer = _transfer(call.core, call.dge_mode, call.dst, call.src, turns)
    if call.queue is _SCALAR:
        call.transfer = call.transfer._replace(second=True)


@declared(
    _DMA,
    rules=(_copied, _queue, gathers, _moves),
    finds=("transfer", "moved"),
    packed=4,
    source="nki/deep-dives/nki-dge.rst",
)
def dma_copy(
    dst: Annotated[NkiTensor, DmaTensor(written=True)],
    src: Annotated[NkiTensor, DmaTensor()],
    priority: int | None = None,
    oob_mode: Annotated[oob_mode, Member(oob_mode)] = oob_mode.error,
    dge_mode: Annotated[dge_mode, Member(dge_mode)] = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> Instruction:
    """Copy src to dst, each in HBM or SBUF. If the dtypes differ, values are converted through float32."""
    core = active("dma_copy")
    _, _, _, (outside, _, transfer, moved) = core.settle("dma_copy", dst, src, (priority, oob_mode, dge_mode, engine))
    instruction = core.issue("dma_copy", _DMA, (dst,), (src,), name=name, hbm_bytes=moved, dma=transfer)

    if dst.is_indirect() or src.is_indirect():
        core.perform(move, dst, src, outside is _SKIP)
    else:
        core.perform(copy_values, dst, src)
    return instruction


def _turned(call: Call) -> None:
    """The axes must be (1, 0), (2, 1, 0) or (3, 1, 2, 0), and elements must have 2 or 4 bytes."""
    dst, src, axes = call.dst, call.src, call.axes
    order = _TRANSPOSE_AXES.get(len(src.shape))
    if order is None or (axes is not None and axes != order and axes != list(order)):
        raise NkiValidationError(
            f"dma_transpose: axes {axes} of src {src.label} must be (1, 0), (2, 1, 0) or (3, 1, 2, 0), "
            "depending on the number of dimensions"
        )
    if src._dtype.itemsize not in (2, 4):
        raise call.refuse("src", src, "must have elements of 2 or 4 bytes")
    shape = tuple(src.shape[axis] for axis in order)
    if dst.shape != shape:
        raise call.refuse("dst", dst, f"must have the shape {list(shape)}")
    call.order = order


def _hardware_transpose(call: Call) -> None:
    """With hwdge, src must have 16 rows (in 3 or 4 dimensions: 1, 2, 4, 8 or 16 rows whose product with shape[-2] is a
    multiple of 16), up to 128 columns and 2-byte elements. swdge and skip require a vector of indices."""
    mode, src, rows = call.dge_mode, call.src, call.src.shape[0]
    if mode is _SOFTWARE and not src.gathers:
        raise NkiValidationError(
            "dma_transpose: dge_mode must be unknown or hwdge, or swdge if src is indexed by a vector, got swdge"
        )
    if call.oob_mode is _SKIP:
        if not src.gathers:
            raise NkiValidationError("dma_transpose: oob_mode skip requires a src that is indexed by a vector")
        check_skipped_transpose(call.core)
    if mode is _NO_DGE:  # used by norm_tkg_utils of nki-library
        call.core.warn("dma_transpose: dge_mode none is not documented; the documentation lists only unknown and hwdge")
    if mode is not _HARDWARE:
        return
    first = rows == 16 if len(src.shape) == 2 else rows in (1, 2, 4, 8, 16) and rows * src.shape[-2] % 16 == 0
    if not first or src.shape[-1] > PARTITIONS or src._dtype.itemsize != 2:
        raise NkiValidationError(
            f"dma_transpose: dge_mode hwdge requires a src of 2-byte elements with at most 128 columns and 16 rows "
            f"(in 3-D and 4-D: 1, 2, 4, 8 or 16 rows whose product with shape[-2] is a multiple of 16), got {src.label}"
        )


@declared(
    _DMA,
    rules=(_turned, _hardware_transpose, _queue, gathers, _moves),
    finds=("order", "transfer", "moved"),
    source="nki/deep-dives/nki-dge.rst",
)
def dma_transpose(
    dst: Annotated[NkiTensor, DmaTensor(written=True, buffers=(SBUF,), dtype_of="src")],
    src: Annotated[NkiTensor, DmaTensor()],
    axes: Any = None,
    priority: int | None = None,
    dge_mode: Annotated[dge_mode, Member(dge_mode)] = dge_mode.unknown,
    oob_mode: Annotated[oob_mode, Member(oob_mode)] = oob_mode.error,
    name: str | None = None,
) -> Instruction:
    """Transpose src into dst in SBUF, with the axes permuted by (1, 0), (2, 1, 0) or (3, 1, 2, 0)."""
    core = active("dma_transpose")
    settled = core.settle("dma_transpose", dst, src, axes, priority, dge_mode, oob_mode)
    check_transposed_rows(core, dst)
    *_, order, transfer, moved = settled[-1]
    instruction = core.issue("dma_transpose", _DMA, (dst,), (src,), name=name, hbm_bytes=moved, dma=transfer)

    core.perform(_transpose_values, dst, src, order)
    return instruction


def _transpose_values(dst: NkiTensor, src: NkiTensor, order: tuple[int, ...]) -> None:
    dst.write(src.values.transpose(order))


def gathers_rows(core: NeuronCore, op: str, mode: dge_mode, tensor: NkiTensor) -> None:
    """Check the constraints on DMAs with a separate address per row, whose descriptors GpSimd generates
    (nki/deep-dives/nki-dge.rst)."""
    if not tensor.gathers:
        return
    if core.target.generation < 3:
        raise NkiValidationError(f"{op}: {tensor.label} is indexed by a vector, which requires NeuronCore-v3 (trn2)")
    if mode in (_NO_DGE, _HARDWARE):
        raise NkiValidationError(
            f"{op}: {tensor.label} is indexed by a vector, which requires dge_mode swdge or unknown, got {mode.name}"
        )
    index: NkiTensor = getattr(tensor, "index")  # noqa: B009 (of an indirect view)
    if op != "dma_transpose":
        if index.free_size != 1:
            raise NkiValidationError(f"{op}: the indices {index.label} must be a column, [rows, 1]")
    elif (
        tensor.shape[0] % 16 or tensor.shape[-1] > PARTITIONS or tensor._dtype.itemsize != 2 or index.dtype != "uint32"
    ):
        raise NkiValidationError(
            f"{op}: a src with a vector of indices must have a multiple of 16 rows, up to 128 columns, elements of 2 "
            f"bytes and uint32 indices, got {tensor.label} with {index.label}"
        )


def hbm_bytes(dst: NkiTensor, src: NkiTensor) -> int:
    total = 0
    for tensor in (dst, src):
        if not tensor.storage.on_chip:
            total += tensor.size * tensor._dtype.itemsize
    return total


def _transfer(core: NeuronCore, mode: dge_mode, dst: NkiTensor, src: NkiTensor, transpose: bool = False) -> Transfer:
    """Describe the transfer by the DMA queues, including its descriptor generator.

    If an address is known only at run time, GpSimd generates the descriptors, unless the kernel requests hwdge
    (nki/deep-dives/nki-dge.rst; profiles confirm it for `scalar_offset`).
    """
    dynamic = dst.is_indirect() or src.is_indirect()
    software = mode is _SOFTWARE or (dynamic and mode is not _HARDWARE)
    dge = software or mode is _HARDWARE or (core.dge and mode is not _NO_DGE)
    transfer = copying(core.target, dst, src, Generation(dge, software, dynamic), transpose)
    left_open = mode is _UNKNOWN and core.dge and not dynamic and not transpose
    return left_to_compiler(core.target, transfer, dst, src) if left_open else transfer
