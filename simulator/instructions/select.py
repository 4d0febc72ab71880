"""Select between two values for each element according to a predicate tile, the position, or an affine expression."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from .accumulate import ACCUMULATES, Reduction, accumulate, reduces, result
from .checks import broadcast_value, float_values, shaped
from .core import active
from .declaration import declared, instruction
from .gpsimd_engine import affine_fills, affine_pattern, known
from .operands import COMPARISONS, FLOATS, Call, Integer, Member, Number, Operator, Scalar, Unchecked
from .scalar_engine import reduce_cmd
from .tensor_operands import FOUR, Output, Tile, TileOrNumber

FLOAT32_MIN = float(np.finfo(np.float32).min)
_IDLE, _RESET, _REDUCE = reduce_cmd.idle, reduce_cmd.reset_reduce, reduce_cmd.reduce
_EXACT_INTEGERS = 1 << 24  # positions are compared in float32, which represents integers exactly up to here


def _number_of_its_kind(call: Call) -> None:
    """If src is a number, it must be an integer if dst has an integer dtype, otherwise a float. reverse_pred requires
    src to be a number."""
    dst, src = call.dst, call.src
    if isinstance(src, NkiTensor):
        if call.reverse_pred:
            raise NkiValidationError(
                f"tensor_copy_predicated: reverse_pred=True needs a number as src, got {src.label}; invert the "
                "predicate instead"
            )
    elif isinstance(src, (int, np.integer)) != dst._dtype.is_integer:
        required = "an integer" if dst._dtype.is_integer else "a float"
        raise NkiValidationError(f"tensor_copy_predicated: src {src!r} must be {required}, as dst {dst.label} is")


@declared(
    engine.vector,
    cost=("predicated_copy", "dst", "src", "predicate"),
    together=("src", "predicate"),
    rules=(_number_of_its_kind,),
)
def tensor_copy_predicated(
    dst: Annotated[NkiTensor, Tile(written=True, dimensions=FOUR)],
    src: Annotated[Any, TileOrNumber(size_of="dst", dtype_of="dst", dimensions=FOUR)],
    predicate: Annotated[NkiTensor, Tile(size_of="dst", dtypes=("uint8", "uint16", "uint32"), dimensions=FOUR)],
    reverse_pred: bool = False,
    name: str | None = None,
) -> Instruction:
    """Copy src (a tile or a number) to the elements of dst whose predicate is not 0 (or 0, with reverse_pred).

    The other elements of dst are unchanged.
    """
    core = active("tensor_copy_predicated")
    unit, cost, _, _ = core.settle("tensor_copy_predicated", dst, src, predicate, reverse_pred)
    reads = (predicate, dst, src) if isinstance(src, NkiTensor) else (predicate, dst)
    instruction = core.issue("tensor_copy_predicated", unit, (dst,), reads, cost, name)

    if core.functional:
        mask = shaped(_truth(predicate, reverse_pred), dst.shape)
        values = shaped(src.values, dst.shape) if isinstance(src, NkiTensor) else _number(src, dst)
        dst.write(np.where(mask, values, dst.values))
    return instruction


@instruction(
    engine.vector,
    cost=("reduce_and_read", "dst", "reduce_res"),
    together=("predicate", "on_true"),
    rules=(reduces,),
    flops=(1, "dst"),
    **ACCUMULATES,
)
def select_reduce(
    dst: Output,
    predicate: Annotated[NkiTensor, Tile(size_of="dst", dtypes=("int8", "uint8", "int16", "uint16"))],
    on_true: Annotated[NkiTensor, Tile(size_of="dst", refused=("tfloat32", "int32", "uint32"))],
    on_false: Annotated[Any, Scalar("on_true", dtypes=())],
    reduce_res: Annotated[NkiTensor | None, result("on_true", FLOATS)] = None,
    reduce_cmd: Annotated[reduce_cmd, Member(reduce_cmd, (_IDLE, _RESET, _REDUCE))] = reduce_cmd.idle,
    reduce_op: Annotated[Any, Operator(("maximum",))] = np.maximum,
    reverse_pred: Annotated[bool, Unchecked()] = False,
    name: str | None = None,
) -> None:
    """Set dst to on_true for elements whose predicate is not 0, otherwise to on_false.

    The maximum of dst over its free axes can be written to reduce_res.
    """
    mask = shaped(_truth(predicate, reverse_pred), dst.shape)
    values = np.where(
        mask, shaped(float_values(on_true), dst.shape), broadcast_value(on_false, len(dst.shape)).astype(np.float32)
    )
    dst.write(values)
    if reduce_cmd is not _IDLE:
        accumulate(on_true, values, Reduction(reduce_op, reduce_cmd), reduce_res)


def _least_float32(call: Call) -> None:
    """on_false_value must be the lowest float32 value, and positions must be below 2^24."""
    value, last = call.on_false_value, _EXACT_INTEGERS - call.on_true_tile.free_size
    if value is not ... and np.float32(value) != np.float32(FLOAT32_MIN):
        raise NkiValidationError(f"range_select: on_false_value must be {FLOAT32_MIN}, got {value}")
    if call.range_start > last:
        raise NkiValidationError(f"range_select: range_start {call.range_start} + position must be at most 2^24")


@instruction(
    engine.vector,
    cost=("reduce_and_read", "dst", "reduce_res"),
    generation=3,
    rules=(reduces, _least_float32),
    flops=(2, "dst"),
    **ACCUMULATES,
)
def range_select(
    dst: Output,
    on_true_tile: Annotated[NkiTensor, Tile(size_of="dst", dtypes=FLOATS)],
    comp_op0: Annotated[Any, Operator(COMPARISONS, "must be a comparison")],
    comp_op1: Annotated[Any, Operator(COMPARISONS, "must be a comparison")],
    bound0: Annotated[NkiTensor, Tile(dtypes=("float32",), partitions_of="on_true_tile", elements=(1, 1))],
    bound1: Annotated[NkiTensor, Tile(dtypes=("float32",), partitions_of="on_true_tile", elements=(1, 1))],
    reduce_cmd: Annotated[reduce_cmd, Member(reduce_cmd, (_IDLE, _RESET, _REDUCE))] = reduce_cmd.reset_reduce,
    reduce_res: Annotated[NkiTensor | None, result("on_true_tile")] = None,
    reduce_op: Annotated[Any, Operator(("maximum",))] = np.maximum,
    range_start: Annotated[int, Integer(0, _EXACT_INTEGERS)] = 0,
    on_false_value: Any = ...,
    name: str | None = None,
) -> None:
    """Set dst[i] to on_true_tile[i] if both comparisons of range_start + i with the bounds are true, otherwise to the
    lowest float32 value, which is the only allowed on_false_value.

    The maximum of dst is accumulated in the accumulators. The instruction requires NeuronCore-v3 or newer.
    """
    data = float_values(on_true_tile).reshape(on_true_tile.shape[0], -1)
    position = range_start + np.arange(data.shape[1], dtype=np.float32)
    inside = np.ones(data.shape, bool)
    for operator, bound in zip((comp_op0, comp_op1), (bound0, bound1)):
        inside &= operator.compute(position, bound.values.reshape(-1, 1)) != 0
    values = np.where(inside, data, np.float32(FLOAT32_MIN))
    dst.write(shaped(values, dst.shape))
    if reduce_cmd is not _IDLE:
        accumulate(on_true_tile, values, Reduction(reduce_op, reduce_cmd), reduce_res)


@declared(engine.gpsimd, cost=("one_pass", "unit", "dst"), rules=(affine_fills,))
def affine_select(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,))],
    pattern: Any,
    channel_multiplier: Annotated[int, Integer()],
    on_true_tile: Annotated[NkiTensor, Tile(buffers=(SBUF,), size_of="dst")],
    on_false_value: Annotated[float, Number()],
    cmp_op: Annotated[Any, Operator((*COMPARISONS, "not_equal"), "must be a comparison")] = np.equal,
    offset: Annotated[int, Integer()] = 0,
    name: str | None = None,
) -> Instruction:
    """Set dst to on_true_tile for elements at which offset + p * channel_multiplier + pattern <cmp_op> 0 is true,
    otherwise to on_false_value. See `iota` for the affine pattern."""
    core = active("affine_select")
    operands = (dst, known(pattern), channel_multiplier, on_true_tile, on_false_value, cmp_op, offset)
    unit, cost, _, (operator,) = core.settle("affine_select", *operands)
    instruction = core.issue("affine_select", unit, (dst,), (on_true_tile,), cost, name, flops=dst.size)

    if core.functional:
        affine = affine_pattern(pattern, offset, channel_multiplier, dst.shape[0])
        mask = shaped(operator.compute(affine, np.int32(0)) != 0, dst.shape)
        core.perform(_choose, dst, mask, on_true_tile, _number(on_false_value, dst))
    return instruction


def _choose(dst: NkiTensor, chosen: Array, on_true: NkiTensor, on_false: Any) -> None:
    """Copy the chosen values. If the dtypes differ, convert them through float32."""
    values = on_true.values if on_true.dtype == dst.dtype else float_values(on_true)
    dst.write(np.where(chosen, shaped(values, dst.shape), on_false))


def _truth(predicate: NkiTensor, reverse: bool) -> Array:
    truth: Array = predicate.values != 0
    return ~truth if reverse else truth


def _number(value: float, dst: NkiTensor) -> Array:
    """Convert a number to the dtype of dst."""
    dtype = dst._dtype
    if not dtype.is_integer:
        return np.asarray(np.float32(value))
    info = np.iinfo(dtype.held)
    return np.asarray(min(max(round(value), info.min), info.max), dtype.held)
