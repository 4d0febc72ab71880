"""Choosing between two values element by element: by a tile, by position, or by an affine expression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import (
    active_since,
    broadcast_value,
    destination,
    float_values,
    in_sbuf,
    read_together,
    same_size,
    scalar_operand,
    shaped,
    tile,
)
from ..core import active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..operators import AluOperator, alu_operator
from ..tensor import NkiTensor
from .accumulate import _STATE, accumulate, check_command, reduction
from .gpsimd_engine import affine_fills, affine_pattern
from .scalar_engine import reduce_cmd

FLOAT32_MIN = float(np.finfo(np.float32).min)
_IDLE, _RESET, _REDUCE = reduce_cmd.idle, reduce_cmd.reset_reduce, reduce_cmd.reduce
_COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")
_EXACT_INTEGERS = 1 << 24  # of float32, in which positions are compared


def tensor_copy_predicated(
    dst: NkiTensor, src: Any, predicate: NkiTensor, reverse_pred: bool = False, name: str | None = None
) -> Instruction:
    """dst = src (a tile or a number) where predicate is not 0 (is 0, with reverse_pred); dst stays elsewhere."""
    core = active("tensor_copy_predicated")
    destination("tensor_copy_predicated", dst)
    tile("tensor_copy_predicated", "predicate", predicate)
    same_size("tensor_copy_predicated", dst, "predicate", predicate)
    if predicate.dtype not in ("uint8", "uint16", "uint32"):
        raise NkiValidationError(f"tensor_copy_predicated: predicate {predicate.label} must be uint8, uint16 or uint32")
    if isinstance(src, NkiTensor):
        tile("tensor_copy_predicated", "src", src)
        same_size("tensor_copy_predicated", dst, "src", src)
        read_together("tensor_copy_predicated", "src", src, "predicate", predicate)
        if src.dtype != dst.dtype:
            raise NkiValidationError(f"tensor_copy_predicated: src {src.label} must have the dtype of dst, {dst.dtype}")
    else:
        scalar_operand("tensor_copy_predicated", "src", src, dst)
    reads = (predicate, dst, src) if isinstance(src, NkiTensor) else (predicate, dst)
    cost = core.costs.tensor_tensor(engine.vector, dst, src if isinstance(src, NkiTensor) else dst, predicate)
    instruction = core.issue("tensor_copy_predicated", engine.vector, (dst,), reads, cost, name)

    if core.functional:
        chosen = shaped(_truth(predicate, reverse_pred), dst.shape)
        values = shaped(src.values, dst.shape) if isinstance(src, NkiTensor) else _number(src, dst)
        dst.write(np.where(chosen, values, dst.values))
    return instruction


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Any,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Any = np.maximum,
    reverse_pred: bool = False,
    name: str | None = None,
) -> Instruction:
    """dst = on_true where predicate is not 0, else on_false; its maximum over the free axes can go to reduce_res."""
    core = active("select_reduce")
    destination("select_reduce", dst)
    for operand, tensor in (("predicate", predicate), ("on_true", on_true)):
        tile("select_reduce", operand, tensor)
        same_size("select_reduce", dst, operand, tensor)
    read_together("select_reduce", "predicate", predicate, "on_true", on_true)
    if predicate.dtype not in ("int8", "uint8", "int16", "uint16"):
        raise NkiValidationError(f"select_reduce: predicate {predicate.label} must be int8, uint8, int16 or uint16")
    if on_true.dtype in ("tfloat32", "int32", "uint32"):
        raise NkiValidationError(f"select_reduce: on_true {on_true.label} cannot be tfloat32, int32 or uint32")
    other = scalar_operand("select_reduce", "on_false", on_false, on_true, float32=False)
    reducer = reduction("select_reduce", reduce_op, ("maximum",))
    reduce_cmd = check_command("select_reduce", reduce_cmd, (_IDLE, _RESET, _REDUCE), reduce_res, on_true)
    if reduce_res is not None and not reduce_res._dtype.is_float:
        raise NkiValidationError(f"select_reduce: reduce_res {reduce_res.label} must be of a float type")
    reads = (predicate, on_true, other) if isinstance(other, NkiTensor) else (predicate, on_true)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    cost = core.costs.reduce_and_read(dst, reads=reduce_res is not None)
    instruction = core.issue("select_reduce", engine.vector, writes, reads, cost, name, dst.size)
    core.share(_STATE, instruction)

    if core.functional:
        kept = shaped(_truth(predicate, reverse_pred), dst.shape)
        values = np.where(
            kept, shaped(float_values(on_true), dst.shape), broadcast_value(other, len(dst.shape)).astype(np.float32)
        )
        dst.write(values)
        if reduce_cmd is not _IDLE:
            accumulate(core, on_true, values, reducer, reduce_cmd, None, reduce_res)
    return instruction


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = np.maximum,
    range_start: int = 0,
    on_false_value: Any = ...,
    name: str | None = None,
) -> Instruction:
    """dst[i] = on_true_tile[i] where range_start + i compares with both bounds, else the least float32 (the one value
    that on_false_value may have); its maximum goes to the accumulators. NeuronCore-v3 and newer."""
    core = active_since("range_select", 3)
    destination("range_select", dst)
    tile("range_select", "on_true_tile", on_true_tile)
    same_size("range_select", dst, "on_true_tile", on_true_tile)
    if not on_true_tile._dtype.is_float:
        raise NkiValidationError(f"range_select: on_true_tile {on_true_tile.label} must be of a float type")
    for operand, bound in (("bound0", bound0), ("bound1", bound1)):
        if not isinstance(scalar_operand("range_select", operand, bound, on_true_tile), NkiTensor):
            raise NkiValidationError(f"range_select: {operand} must be a float32 tile of one element a partition")
    if on_false_value is not ... and np.float32(on_false_value) != np.float32(FLOAT32_MIN):
        raise NkiValidationError(f"range_select: on_false_value must be {FLOAT32_MIN}, came {on_false_value}")
    if not isinstance(range_start, int) or not 0 <= range_start <= _EXACT_INTEGERS - on_true_tile.free_size:
        raise NkiValidationError(f"range_select: range_start {range_start!r} + position must be an integer up to 2^24")
    compare = [_comparison("range_select", "comp_op0", comp_op0), _comparison("range_select", "comp_op1", comp_op1)]
    reducer = reduction("range_select", reduce_op, ("maximum",))
    reduce_cmd = check_command("range_select", reduce_cmd, (_IDLE, _RESET, _REDUCE), reduce_res, on_true_tile)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    cost = core.costs.reduce_and_read(dst, reads=reduce_res is not None)
    reads = (on_true_tile, bound0, bound1)
    instruction = core.issue("range_select", engine.vector, writes, reads, cost, name, 2 * dst.size)
    core.share(_STATE, instruction)

    if core.functional:
        data = float_values(on_true_tile).reshape(on_true_tile.shape[0], -1)
        position = range_start + np.arange(data.shape[1], dtype=np.float32)
        inside = np.ones(data.shape, bool)
        for operator, bound in zip(compare, (bound0, bound1)):
            inside &= operator.compute(position, bound.values.reshape(-1, 1)) != 0
        values = np.where(inside, data, np.float32(FLOAT32_MIN))
        dst.write(shaped(values, dst.shape))
        if reduce_cmd is not _IDLE:
            accumulate(core, on_true_tile, values, reducer, reduce_cmd, None, reduce_res)
    return instruction


def affine_select(
    dst: NkiTensor,
    pattern: Any,
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Any = np.equal,
    offset: int = 0,
    name: str | None = None,
) -> Instruction:
    """dst = on_true_tile where offset + p * channel_multiplier + the affine pattern compares with 0 as cmp_op says,
    else on_false_value. The pattern is that of `iota`."""
    core = active("affine_select")
    in_sbuf("affine_select", "dst", dst)
    in_sbuf("affine_select", "on_true_tile", on_true_tile)
    same_size("affine_select", dst, "on_true_tile", on_true_tile)
    operator = _comparison("affine_select", "cmp_op", cmp_op, (*_COMPARISONS, "not_equal"))
    if isinstance(on_false_value, bool) or not isinstance(on_false_value, (int, float, np.floating, np.integer)):
        raise NkiValidationError(f"affine_select: on_false_value must be a number, came {on_false_value!r}")
    affine_fills("affine_select", pattern, dst)
    cost = core.costs.one_pass(engine.gpsimd, dst)
    instruction = core.issue("affine_select", engine.gpsimd, (dst,), (on_true_tile,), cost, name, dst.size)

    if core.functional:
        affine = affine_pattern(pattern, offset, channel_multiplier, dst.shape[0])
        chosen = shaped(operator.compute(affine, np.int32(0)) != 0, dst.shape)
        core.perform(_choose, dst, chosen, on_true_tile, _number(on_false_value, dst))
    return instruction


def _choose(dst: NkiTensor, chosen: Array, on_true: NkiTensor, on_false: Any) -> None:
    """Bits pass unchanged where the dtypes are equal, else through float32."""
    values = on_true.values if on_true.dtype == dst.dtype else float_values(on_true)
    dst.write(np.where(chosen, shaped(values, dst.shape), on_false))


def _comparison(op: str, operand: str, given: Any, allowed: tuple[str, ...] = _COMPARISONS) -> AluOperator:
    operator = alu_operator(given, op, operand)
    if operator.name not in allowed:
        names = ", ".join("nl." + name for name in allowed)
        raise NkiValidationError(f"{op}: {operand}=nl.{operator.name} must be a comparison; allowed: {names}")
    return operator


def _truth(predicate: NkiTensor, reverse: bool) -> Array:
    truth: Array = predicate.values != 0
    return ~truth if reverse else truth


def _number(value: float, dst: NkiTensor) -> Array:
    """A number as dst's dtype holds it."""
    dtype = dst._dtype
    if not dtype.is_integer:
        return np.asarray(np.float32(value))
    info = np.iinfo(dtype.held)
    return np.asarray(min(max(round(value), info.min), info.max), dtype.held)
