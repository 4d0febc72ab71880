"""Tensor Engine: a 128 x 128 systolic array that multiplies a stationary and a moving tile and writes to PSUM."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import numpy as np

from ..machine.chip import PARTITIONS, PSUM_BANK_BYTES, STATIONARY_COLUMNS
from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import PSUM, SBUF
from ..machine.psum_writes import LastWriter
from ..machine.watching import watchers
from ..tensors.tensor import ColumnsTensor, IndirectTensor, NkiTensor
from ..tensors.tensor_indirection import check
from .checks import shaped
from .core import NeuronCore, active
from .declaration import declared
from .operands import Call, Member, Unchecked
from .reported import check_stationary, check_sums
from .tensor_operands import Tile


class matmul_perf_mode(Enum):  # noqa: N801 (name and values of nki.isa)
    """The performance mode of a matmul."""

    none = "none"
    double_row = "double_row"

    __hash__ = object.__hash__


_FLOAT8 = ("float8_e4m3", "float8_e5m2", "float8_e4m3fn")
_MATMUL_DTYPES = (*_FLOAT8, "bfloat16", "float16", "tfloat32", "float32")
_WIDE = ("float32", "tfloat32")
_COLUMN_DTYPES = ("float16", "bfloat16", *_FLOAT8)
_BY_MATMUL = LastWriter.matmul
_TENSOR = engine.tensor
_DOUBLE_ROW = matmul_perf_mode.double_row


def _planes(call: Call) -> None:
    """With perf_mode double_row (since trn2), stationary and moving must have shape [partitions, 2, columns] and be
    8-bit floats; is_transpose and column tiles are not allowed."""
    call.planes = 1
    if call.perf_mode is not _DOUBLE_ROW:
        return
    if call.core.target.generation < 3:
        raise NkiValidationError("nc_matmul: perf_mode double_row requires NeuronCore-v3 (trn2) or newer")
    if call.is_transpose or (len(call.tile_size) == 2 and call.tile_size[1] != STATIONARY_COLUMNS):
        raise NkiValidationError("nc_matmul: perf_mode double_row does not support is_transpose or column tiles")
    for operand in ("stationary", "moving"):
        tensor = getattr(call, operand)
        if tensor.dtype not in _FLOAT8 or len(tensor.shape) < 3 or tensor.shape[1] != 2:
            raise NkiValidationError(
                f"nc_matmul: {operand} {tensor.label} in perf_mode double_row must be [partitions, 2, columns] of "
                f"{', '.join(_FLOAT8)}"
            )
    call.planes = 2


def _sizes(call: Call) -> None:
    """moving and stationary must have the same number of partitions. stationary has up to 128 columns, and dst as many
    partitions. moving has up to 512 columns (4096 on trn3, or 8192 if dst is bfloat16), and dst as many elements per
    partition."""
    core, dst, stationary, moving = call.core, call.dst, call.stationary, call.moving
    rows, columns = stationary.shape[0], stationary.free_size // call.planes
    moving_columns = moving.free_size // call.planes
    if moving.shape[0] != rows:
        raise NkiValidationError(
            f"nc_matmul: stationary {stationary.label} has {rows} partitions, moving {moving.label} has "
            f"{moving.shape[0]}; the contraction is over the partitions of both, so they must be equal"
        )
    if columns > STATIONARY_COLUMNS:
        raise NkiValidationError(
            f"nc_matmul: stationary {stationary.label} has {columns} columns; at most {STATIONARY_COLUMNS} fit in the "
            f"PE array"
        )
    if moving_columns > core.target.moving_columns:
        limit = core.target.moving_columns * (2 if core.target.generation >= 4 and dst.dtype == "bfloat16" else 1)
        if moving_columns > limit:
            raise NkiValidationError(
                f"nc_matmul: moving {moving.label} has {moving_columns} columns; at most {limit} are allowed on "
                f"{core.target.name} into {dst.dtype}"
            )
    if dst.shape[0] != columns or dst.free_size != moving_columns:
        raise NkiValidationError(
            f"nc_matmul: dst {dst.label} must be {columns} x {moving_columns}: stationary columns on the "
            "partitions, moving columns free"
        )
    call.contracted, call.product_shape = rows * call.planes, (columns, moving_columns)
    check_stationary(core, stationary, columns)


def _array_tile(call: Call) -> None:
    """tile_position and tile_size must describe a half or (since trn2) a quarter of the PE array that fits the
    operands."""
    position, size = call.tile_position, call.tile_size
    if not position and not size:
        return
    if len(position) != 2 or len(size) != 2:
        raise NkiValidationError("nc_matmul: tile_position and tile_size must both be given as (row, column)")
    quarters = () if call.core.target.generation == 2 else (PARTITIONS // 4,)
    sizes = (*quarters, PARTITIONS // 2, PARTITIONS)
    for axis, start, extent, occupied in (
        ("row", position[0], size[0], call.stationary.shape[0]),
        ("column", position[1], size[1], call.product_shape[0]),
    ):
        if extent not in sizes or start < 0 or start % extent or start + extent > PARTITIONS or occupied > extent:
            raise NkiValidationError(
                f"nc_matmul: {occupied} {axis}s do not fit a {axis} tile of size {extent} at {start}; on "
                f"{call.core.target.name}, the size must be one of {', '.join(map(str, sizes))}, the start a multiple "
                f"of the size, and the end at most {PARTITIONS}"
            )


def _dtypes(call: Call) -> None:
    """float32 can only be combined with float32 and tfloat32. float8_e4m3fn requires trn3 and cannot be combined with
    float8_e4m3. dst must be float32, or on trn3 also bfloat16; since trn2, the dst of a transpose must have the dtype
    of stationary."""
    core, dst, left, right = call.core, call.dst, call.stationary.dtype, call.moving.dtype
    if "float8_e4m3fn" in (left, right) and (core.target.generation < 4 or "float8_e4m3" in (left, right)):
        raise NkiValidationError(
            f"nc_matmul: stationary is {left}, moving is {right}; float8_e4m3fn requires NeuronCore-v4 (trn3) and "
            f"cannot be combined with float8_e4m3"
        )
    if (left in _WIDE) != (right in _WIDE):
        raise NkiValidationError(
            f"nc_matmul: stationary is {left}, moving is {right}; if one of them is float32, the other must be "
            f"float32 too"
        )
    if call.is_transpose and core.target.generation >= 3:
        if dst.dtype != left:
            raise NkiValidationError(
                f"nc_matmul: dst {dst.label} of a transpose must have the dtype of stationary, {left}"
            )
    elif dst.dtype != "float32" and not (dst.dtype == "bfloat16" and core.target.generation >= 4):
        raise NkiValidationError(f"nc_matmul: dst {dst.label} must be float32 (bfloat16 too from NeuronCore-v4 on)")


def _columns(call: Call) -> None:
    """Columns of indirect() must have 8-bit or 16-bit elements; they cannot be the moving operand of a transpose, and
    cannot be used within an array tile."""
    core, operands, position = call.core, (call.dst, call.stationary, call.moving), call.tile_position
    if not any(tensor.is_indirect() for tensor in operands):
        return
    check(core, "nc_matmul", _TENSOR, operands[:1], operands[1:])
    for operand, tensor in zip(("dst", "stationary", "moving"), operands):
        if not isinstance(tensor, ColumnsTensor):
            continue
        if operand != "dst" and tensor.dtype not in _COLUMN_DTYPES:
            raise NkiValidationError(
                f"nc_matmul: {operand} {tensor.label} is columns of indirect(), whose dtype must be one of "
                f"{', '.join(_COLUMN_DTYPES)}"
            )
        if call.is_transpose and operand == "moving":
            raise NkiValidationError("nc_matmul: moving cannot be columns of indirect() with is_transpose")
        if tuple(position) not in ((), (0, 0)):
            raise NkiValidationError(
                f"nc_matmul: {operand} is columns of indirect(), so tile_position must be (0, 0), got {position}"
            )


def _cost(call: Call) -> None:
    stationary, (columns, moving_columns) = call.stationary, call.product_shape
    stride = stationary.strides[-1] * stationary._dtype.itemsize
    if call.is_transpose:
        call.cost = call.core.costs.transpose(moving_columns, columns, stationary._dtype, stride)
    else:
        call.cost = call.core.costs.matmul(columns, moving_columns, stationary._dtype, stride)


@declared(
    _TENSOR,
    rules=(_planes, _sizes, _array_tile, _dtypes, _columns, _cost),
    finds=("contracted", "product_shape"),
    packed=4,
    source="trainium2_arch.rst, Double FP8 Matmul",
)
def nc_matmul(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(PSUM,))],
    stationary: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=_MATMUL_DTYPES)],
    moving: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=_MATMUL_DTYPES)],
    is_stationary_onezero: Annotated[bool, Unchecked()] = False,
    is_moving_onezero: Annotated[bool, Unchecked()] = False,
    is_transpose: bool = False,
    accumulate: Annotated[bool | None, Unchecked()] = None,
    tile_position: tuple[int, ...] = (),
    tile_size: tuple[int, ...] = (),
    perf_mode: Annotated[matmul_perf_mode, Member(matmul_perf_mode)] = matmul_perf_mode.none,
    name: str | None = None,
) -> Instruction:
    """Compute dst[M, N] = stationary[K, M].T @ moving[K, N] in float32, or += if it accumulates.

    K is the partition axis. With perf_mode double_row, the operands are 8-bit floats stationary[K, 2, M] and
    moving[K, 2, N], and the contraction is over 2 K elements.
    """
    core = active("nc_matmul")
    mode = is_transpose, tile_position, tile_size, perf_mode
    _, cost, _, (_, rows, product_shape) = core.settle("nc_matmul", dst, stationary, moving, mode)
    if core.target.generation < 4:
        within_a_bank("nc_matmul", dst)
    adds = _accumulates(core, dst, accumulate)
    reads = (stationary, moving) if adds is False else (stationary, moving, dst)
    flops = 2 * rows * product_shape[0] * product_shape[1]
    instruction = core.issue("nc_matmul", _TENSOR, (dst,), reads, cost, name, flops=flops)

    turns = is_transpose and core.target.generation >= 3
    product = core.scratch(*product_shape) if core.functional else None
    core.perform(multiply, dst, stationary, moving, rows, turns, adds, product)
    return instruction


def multiply(
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    contracted: int,
    turns: bool,
    adds: Any,
    buffer: Array,
) -> None:
    """Compute the values of nc_matmul, using `buffer` as a float32 buffer for the product."""
    left = stationary.values.reshape(contracted, -1)
    right = moving.values.reshape(contracted, -1)
    direct = dst._dtype.exact and not watchers
    if adds is False and not turns and dst.storage.array is not None and direct:
        values = dst.values
        if values.flags.c_contiguous:
            np.matmul(left.T, right, out=values.reshape(left.shape[1], -1))
            return
    product = _transposed(left, right) if turns else np.matmul(left.T, right, out=buffer)
    result = shaped(product, dst.shape)
    if adds is False:
        dst.write(result)
    elif adds is not True:
        dst.write(np.where(adds, dst.values, np.float32(0)) + result)
    elif direct:
        values = dst.values
        np.add(values, result, out=values)
    else:
        dst.write(dst.values + result)


def within_a_bank(op: str, dst: NkiTensor) -> None:
    """Reject a `dst` that crosses a PSUM bank boundary, which is not supported before NeuronCore-v4."""
    access = dst._access or dst.access
    if access.byte // PSUM_BANK_BYTES != (access.byte_end - 1) // PSUM_BANK_BYTES:
        raise NkiValidationError(
            f"{op}: dst {dst.label} spans bytes {access.byte} to {access.byte_end - 1} of a partition; "
            f"it must lie within one PSUM bank of {PSUM_BANK_BYTES} bytes (512 float32)"
        )


def _transposed(stationary: Array, moving: Array) -> Array:
    """Return stationary.T @ moving for a `moving` with at most one 1 per column, preserving all bits including those of
    NaN and Inf."""
    is_copied = moving != 0
    if not (moving[is_copied] == 1).all() or (is_copied.sum(axis=0) > 1).any():
        raise NkiValidationError(
            "nc_matmul: moving of a transpose (is_transpose=True) must be an identity or a permutation: zeros, and "
            "at most one 1 in a column"
        )
    result: Array = np.where(is_copied.any(axis=0), stationary.T[:, is_copied.argmax(axis=0)], stationary.dtype.type(0))
    return result


def _accumulates(core: NeuronCore, dst: NkiTensor, accumulate: Any) -> bool | Array:
    """Return True if the matmul adds to PSUM, False if it overwrites, or a mask of the elements that it adds to.

    If `accumulate` is None, elements that no matmul has written are overwritten, and the matmul adds to all others.
    """
    if isinstance(dst, IndirectTensor):
        parts = [_accumulates(core, part, accumulate) for part in dst.parts(core.functional)]
        if not isinstance(dst, ColumnsTensor) or not core.functional:
            return parts[0]
        return np.concatenate([np.broadcast_to(part, (dst.shape[0], 1)) for part in parts], axis=1)
    if accumulate is None:
        adds = _resumes(core, dst)
    else:
        adds = bool(accumulate)
        if accumulate:
            _can_accumulate(core, dst)
        check_sums(core, dst, adds)
    dst.storage.note_write(dst, by_matmul=True)
    return adds


def _resumes(core: NeuronCore, dst: NkiTensor) -> bool | Array:
    """Return True if all elements were written by matmuls, or a mask of those that were."""
    assert dst.storage.written is not None
    writers = dst.storage.written.of(dst)
    if writers is LastWriter.mixed:
        return dst.storage.written.by_matmul(dst)
    if writers is _BY_MATMUL or (writers is LastWriter.other and core.target.generation >= 4):
        core.resumed(dst)
        return True
    return False


def _can_accumulate(core: NeuronCore, dst: NkiTensor) -> None:
    """Check that accumulate=True continues the sum of a matmul. Accumulating onto values of other instructions is
    undefined before NeuronCore-v4."""
    storage = dst.storage
    assert storage.written is not None
    writers = storage.written.of(dst)
    if writers is not _BY_MATMUL and storage.arena is not None:
        writers = storage.arena.written.of(dst)
    if writers is _BY_MATMUL:
        return
    core.not_begun(dst, writers)
    if writers is LastWriter.nothing:
        raise NkiValidationError(
            f"nc_matmul: accumulate=True onto dst {dst.label}, which no matmul has written; the first "
            "matmul of an accumulation must overwrite (accumulate=False or None)"
        )
    if core.target.generation < 4:
        core.warn(
            f"nc_matmul: accumulate=True onto dst {dst.label}, of which {writers.value}; adding to memory that no "
            f"matmul has written is undefined on {core.target.name}; begin with accumulate=False"
        )
