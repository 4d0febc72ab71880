"""DMA: sixteen queues that move data between HBM and SBUF, or within either."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..checks import copy_values, member
from ..chip import PARTITIONS
from ..core import NeuronCore, active
from ..errors import NkiValidationError
from ..instruction import Instruction, Transfer, engine
from ..memory import PSUM, SBUF
from ..tensor import MAX_DIMENSIONS, NkiTensor
from ..timing.transfers import copying, left_to_compiler
from ..views import dimensions
from .indirect_moves import move


class dge_mode(Enum):  # noqa: N801 (name and values of nki.isa)
    """Who generates the descriptors of a DMA."""

    unknown = 0
    swdge = 1
    hwdge = 2
    none = 3

    __hash__ = object.__hash__


class oob_mode(Enum):  # noqa: N801 (name and values of nki.isa)
    """What a dynamic access out of bounds does."""

    error = 0
    skip = 1


class dma_engine(Enum):  # noqa: N801 (name and values of nki.isa)
    """Which DMA engine moves data between cores."""

    dma = 1
    gpsimd_dma = 2


_TRANSPOSE_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_copy(
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: oob_mode = oob_mode.error,
    dge_mode: dge_mode = dge_mode.unknown,
    engine: engine = engine.unknown,
    name: str | None = None,
) -> Instruction:
    """dst = src between HBM and SBUF, cast through float32 where the dtypes differ."""
    core = active("dma_copy")
    transfer, moved = core.settle(_copy_rules, dst, src, priority, dge_mode, engine)
    instruction = core.issue("dma_copy", _DMA, (dst,), (src,), name=name, hbm_bytes=moved, dma=transfer)

    if dst.is_indirect() or src.is_indirect():
        core.perform(move, dst, src, member("dma_copy", "oob_mode", _OOB_MODE, oob_mode) is _SKIP)
    else:
        core.perform(copy_values, dst, src)
    return instruction


def _copy_rules(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, priority: int | None, mode: dge_mode, chosen: engine
) -> tuple[Transfer, int]:
    """What the queues move, and how many bytes of it in HBM."""
    _operands("dma_copy", dst, src)
    if dst.shape != src.shape and dst.size != src.size:
        raise NkiValidationError(
            f"dma_copy: src {src.label} has {src.size} elements, dst {dst.label} has {dst.size}; they must be equal"
        )
    if dst.dtype != src.dtype and "int64" in (dst.dtype, src.dtype):
        raise NkiValidationError(f"dma_copy: src {src.label} and dst {dst.label}: int64 is moved as it is, to int64")
    mode = member("dma_copy", "dge_mode", _DGE_MODE, mode)
    chosen = _queue("dma_copy", core.target.generation, mode, chosen, priority)
    _gathers("dma_copy", core.target.generation, mode, dst, src)
    transfer = _transfer(core, mode, dst, src)
    if chosen is _SCALAR:
        transfer = transfer._replace(second=True)
    return transfer, _hbm_bytes(dst, src)


def dma_transpose(
    dst: NkiTensor,
    src: NkiTensor,
    axes: Any = None,
    priority: int | None = None,
    dge_mode: dge_mode = dge_mode.unknown,
    oob_mode: oob_mode = oob_mode.error,
    name: str | None = None,
) -> Instruction:
    """dst = src with its axes reversed, as (1, 0), (2, 1, 0) or (3, 1, 2, 0), into SBUF."""
    core = active("dma_transpose")
    _operands("dma_transpose", dst, src)
    if dst.storage.region is not SBUF:
        raise NkiValidationError(f"dma_transpose: dst {dst.label} must be in SBUF")
    order = _TRANSPOSE_AXES.get(len(src.shape))
    if order is None or (axes is not None and axes != order and axes != list(order)):
        raise NkiValidationError(
            f"dma_transpose: axes {axes} of src {src.label}; allowed: (1, 0), (2, 1, 0) and (3, 1, 2, 0), by "
            "the number of dimensions"
        )
    if src.dtype != dst.dtype:
        raise NkiValidationError(f"dma_transpose: src {src.label} and dst {dst.label} must have one dtype")
    if src._dtype.itemsize not in (2, 4):
        raise NkiValidationError(f"dma_transpose: src {src.label} must have elements of 2 or 4 bytes")
    shape = tuple(src.shape[axis] for axis in order)
    if dst.shape != shape:
        raise NkiValidationError(f"dma_transpose: dst {dst.label} must have the shape {list(shape)}")
    dge_mode = member("dma_transpose", "dge_mode", _DGE_MODE, dge_mode)
    _hardware_transpose(core, dge_mode, src)
    _queue("dma_transpose", core.target.generation, dge_mode, engine.unknown, priority)
    _gathers("dma_transpose", core.target.generation, dge_mode, dst, src)
    transfer = _transfer(core, dge_mode, dst, src, transpose=True)
    instruction = core.issue(
        "dma_transpose", _DMA, (dst,), (src,), name=name, hbm_bytes=_hbm_bytes(dst, src), dma=transfer
    )

    core.perform(_transpose_values, dst, src, order)
    return instruction


def _transpose_values(dst: NkiTensor, src: NkiTensor, order: tuple[int, ...]) -> None:
    dst.write(src.values.transpose(order))


_DMA, _SCALAR = engine.dma, engine.scalar
_UNKNOWN, _NO_DGE, _HARDWARE, _SOFTWARE = dge_mode.unknown, dge_mode.none, dge_mode.hwdge, dge_mode.swdge
_SKIP = oob_mode.skip
_DGE_MODE, _OOB_MODE = dge_mode, oob_mode


def _operands(op: str, dst: NkiTensor, src: NkiTensor) -> None:
    for operand, tensor in (("dst", dst), ("src", src)):
        if not isinstance(tensor, NkiTensor):
            raise NkiValidationError(f"{op}: {operand} must be an NkiTensor, came {type(tensor).__name__}")
        if tensor.storage.region is PSUM:
            raise NkiValidationError(f"{op}: {operand} {tensor.label}: DMA cannot access PSUM; copy through SBUF")
        if len(tensor.shape) > MAX_DIMENSIONS and dimensions(tensor) > MAX_DIMENSIONS:
            raise NkiValidationError(
                f"{op}: {operand} {tensor.label} has strides {tensor.strides}; a view has at most {MAX_DIMENSIONS} "
                "dimensions"
            )


def _queue(op: str, generation: int, mode: Any, unit: engine, priority: int | None) -> engine:
    """Who triggers a DMA, checked."""
    if mode is _HARDWARE and generation < 3:
        raise NkiValidationError(f"{op}: dge_mode hwdge needs NeuronCore-v3 (trn2) or newer")
    if unit is not engine.unknown:
        unit = member(op, "engine", engine, unit)
    if unit is not engine.unknown and (mode is not _HARDWARE or unit not in (engine.sync, engine.scalar)):
        raise NkiValidationError(f"{op}: engine may only be sync or scalar, and only with dge_mode hwdge")
    if priority is not None and (generation < 4 or priority not in (0, 1, 2, 3)):
        raise NkiValidationError(f"{op}: priority must be 0 to 3, and needs NeuronCore-v4 (trn3)")
    return unit


def _hardware_transpose(core: NeuronCore, mode: dge_mode, src: NkiTensor) -> None:
    """The constraints of a transpose by its DGE mode (nki/api/nki/isa/__init__.py, dma_transpose)."""
    op = "dma_transpose"
    if mode is _SOFTWARE and not src.gathers:
        raise NkiValidationError(
            f"{op}: dge_mode swdge; allowed: unknown and hwdge, or swdge where src takes a vector of indices"
        )
    if mode is _NO_DGE:  # which nki-library's norm_tkg_utils asks for
        core.warn(f"{op}: dge_mode none; the documentation has unknown and hwdge")
    if mode is not _HARDWARE:
        return
    rows = src.shape[0]
    first = rows == 16 if len(src.shape) == 2 else rows in (1, 2, 4, 8, 16) and rows * src.shape[-2] % 16 == 0
    if not first or src.shape[-1] > PARTITIONS or src._dtype.itemsize != 2:
        raise NkiValidationError(
            f"{op}: dge_mode hwdge takes a src of 2-byte elements with 16 rows (a 3-d or 4-d one 1, 2, 4, 8 or "
            f"16 whose product with shape[-2] is a multiple of 16) and up to 128 columns, came {src.label}"
        )


def _gathers(op: str, generation: int, mode: dge_mode, *tensors: NkiTensor) -> None:
    """The constraints of an address for each row (nki/deep-dives/nki-dge.rst): GpSimd makes the descriptors."""
    for tensor in tensors:
        if not tensor.gathers:
            continue
        if generation < 3:
            raise NkiValidationError(f"{op}: {tensor.label} takes a vector of indices; needs NeuronCore-v3 (trn2)")
        if mode in (_NO_DGE, _HARDWARE):
            raise NkiValidationError(
                f"{op}: {tensor.label} takes a vector of indices; allowed: dge_mode swdge or unknown, came {mode.name}"
            )
        index: NkiTensor = getattr(tensor, "index")  # noqa: B009 (of an indirect view)
        if op != "dma_transpose":
            if index.free_size != 1:
                raise NkiValidationError(f"{op}: the indices {index.label} must be a column, [rows, 1]")
        elif (
            tensor.shape[0] % 16
            or tensor.shape[-1] > PARTITIONS
            or tensor._dtype.itemsize != 2
            or index.dtype != "uint32"
        ):
            raise NkiValidationError(
                f"{op}: a src with a vector of indices has a multiple of 16 rows, up to 128 columns, elements of 2 "
                f"bytes and uint32 indices; came {tensor.label} with {index.label}"
            )


def _hbm_bytes(dst: NkiTensor, src: NkiTensor) -> int:
    total = 0
    for tensor in (dst, src):
        if not tensor.storage.on_chip:
            total += tensor.size * tensor._dtype.itemsize
    return total


def _transfer(core: NeuronCore, mode: dge_mode, dst: NkiTensor, src: NkiTensor, transpose: bool = False) -> Transfer:
    """What the queues move, and who generates the descriptors: GpSimd where an address is known only at run time,
    unless the kernel asks for another (nki/deep-dives/nki-dge.rst; profiles show it for `scalar_offset`)."""
    dynamic = dst.is_indirect() or src.is_indirect()
    software = mode is _SOFTWARE or (dynamic and mode is not _HARDWARE)
    dge = software or mode is _HARDWARE or (core.dge and mode is not _NO_DGE)
    transfer = copying(core.target, dst, src, dge, software, dynamic, transpose)
    left_open = mode is _UNKNOWN and core.dge and not dynamic and not transpose
    return left_to_compiler(core.target, transfer, dst, src) if left_open else transfer
