"""Choosing between two values for each element: by a tile, by position, or by an affine expression."""

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
_EXACT_INTEGERS = 1 << 24  # positions up to here are exact in float32, in which they are compared


def _number_of_its_kind(call: Call) -> None:
    """A number src is an integer where dst holds integers, else a float; reverse_pred goes with a number src alone."""
    dst, src = call.dst, call.src
    if isinstance(src, NkiTensor):
        if call.reverse_pred:
            raise NkiValidationError(
                f"tensor_copy_predicated: reverse_pred=True needs a number as src, came {src.label}; invert the "
                "predicate instead"
            )
    elif isinstance(src, (int, np.integer)) != dst._dtype.is_integer:
        wanted = "an integer" if dst._dtype.is_integer else "a float"
        raise NkiValidationError(f"tensor_copy_predicated: src {src!r} must be {wanted}, as dst {dst.label} is")


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
    """dst = src (a tile or a number) where predicate is not 0 (is 0, with reverse_pred); dst stays elsewhere."""
    core = active("tensor_copy_predicated")
    unit, cost, _, _ = core.settle("tensor_copy_predicated", dst, src, predicate, reverse_pred)
    reads = (predicate, dst, src) if isinstance(src, NkiTensor) else (predicate, dst)
    instruction = core.issue("tensor_copy_predicated", unit, (dst,), reads, cost, name)

    if core.functional:
        chosen = shaped(_truth(predicate, reverse_pred), dst.shape)
        values = shaped(src.values, dst.shape) if isinstance(src, NkiTensor) else _number(src, dst)
        dst.write(np.where(chosen, values, dst.values))
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
    """dst = on_true where predicate is not 0, else on_false; its maximum over the free axes can go to reduce_res."""
    kept = shaped(_truth(predicate, reverse_pred), dst.shape)
    values = np.where(
        kept, shaped(float_values(on_true), dst.shape), broadcast_value(on_false, len(dst.shape)).astype(np.float32)
    )
    dst.write(values)
    if reduce_cmd is not _IDLE:
        accumulate(on_true, values, Reduction(reduce_op, reduce_cmd), reduce_res)


def _least_float32(call: Call) -> None:
    """on_false_value is the least float32, and positions are below 2^24."""
    value, last = call.on_false_value, _EXACT_INTEGERS - call.on_true_tile.free_size
    if value is not ... and np.float32(value) != np.float32(FLOAT32_MIN):
        raise NkiValidationError(f"range_select: on_false_value must be {FLOAT32_MIN}, came {value}")
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
    """dst[i] = on_true_tile[i] where range_start + i compares with both bounds, else the least float32 (the one value
    that on_false_value may have); its maximum goes to the accumulators. NeuronCore-v3 and newer."""
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
    channel_multiplier: Annotated[int, Unchecked()],
    on_true_tile: Annotated[NkiTensor, Tile(buffers=(SBUF,), size_of="dst")],
    on_false_value: Annotated[float, Number()],
    cmp_op: Annotated[Any, Operator((*COMPARISONS, "not_equal"), "must be a comparison")] = np.equal,
    offset: Annotated[int, Unchecked()] = 0,
    name: str | None = None,
) -> Instruction:
    """dst = on_true_tile where offset + p * channel_multiplier + the affine pattern compares with 0 as cmp_op says,
    else on_false_value. The pattern is that of `iota`."""
    core = active("affine_select")
    unit, cost, _, (operator,) = core.settle("affine_select", dst, known(pattern), on_true_tile, on_false_value, cmp_op)
    instruction = core.issue("affine_select", unit, (dst,), (on_true_tile,), cost, name, flops=dst.size)

    if core.functional:
        affine = affine_pattern(pattern, offset, channel_multiplier, dst.shape[0])
        chosen = shaped(operator.compute(affine, np.int32(0)) != 0, dst.shape)
        core.perform(_choose, dst, chosen, on_true_tile, _number(on_false_value, dst))
    return instruction


def _choose(dst: NkiTensor, chosen: Array, on_true: NkiTensor, on_false: Any) -> None:
    """Copy bits unchanged if the dtypes are equal, else convert through float32."""
    values = on_true.values if on_true.dtype == dst.dtype else float_values(on_true)
    dst.write(np.where(chosen, shaped(values, dst.shape), on_false))


def _truth(predicate: NkiTensor, reverse: bool) -> Array:
    truth: Array = predicate.values != 0
    return ~truth if reverse else truth


def _number(value: float, dst: NkiTensor) -> Array:
    """Return a number as dst's dtype holds it."""
    dtype = dst._dtype
    if not dtype.is_integer:
        return np.asarray(np.float32(value))
    info = np.iinfo(dtype.held)
    return np.asarray(min(max(round(value), info.min), info.max), dtype.held)
