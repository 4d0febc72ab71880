"""Elementwise instructions and reductions: Vector Engine, some also on the Scalar or the GpSimd Engine.

Arithmetic runs in float32, whatever the dtypes of the operands (nki.api.shared.rst, nki-aluop).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import (
    copy_values,
    destination,
    engine_of,
    float_values,
    not_psum_on_gpsimd,
    read_together,
    same_partitions,
    same_size,
    shaped,
    tile,
)
from ..core import NeuronCore, active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Cost, Instruction, Options, engine
from ..memory import PSUM
from ..operators import ALU, AluOperator, alu_operator
from ..tensor import NkiTensor

VECTOR, SCALAR, GPSIMD, UNKNOWN = engine.vector, engine.scalar, engine.gpsimd, engine.unknown  # `engine` is a parameter
ELEMENTWISE = (VECTOR, SCALAR, GPSIMD)
_INT32 = ("int32", "uint32")


def tensor_copy(dst: NkiTensor, src: NkiTensor, engine: engine = UNKNOWN, name: str | None = None) -> Instruction:
    """dst = src, cast where the dtypes differ."""
    core = active("tensor_copy")
    unit, cost, options = core.settle(_copy_rules, dst, src, engine)
    instruction = core.issue("tensor_copy", unit, (dst,), (src,), cost, name, options=options)

    core.perform(copy_values, dst, src)
    return instruction


def _copy_rules(core: NeuronCore, dst: NkiTensor, src: NkiTensor, chosen: engine) -> tuple[engine, Cost, Options]:
    destination("tensor_copy", dst)
    tile("tensor_copy", "src", src)
    same_size("tensor_copy", dst, "src", src)
    unit = engine_of("tensor_copy", chosen, VECTOR, ELEMENTWISE)
    if unit is SCALAR and core.target.generation == 2:
        raise NkiValidationError(
            "tensor_copy: the Scalar Engine has no copy on trn1; use nisa.activation with op=nl.copy"
        )
    not_psum_on_gpsimd("tensor_copy", unit, dst, src)
    options = core.costs.copy_elsewhere(dst, src) if chosen is UNKNOWN else ()
    return unit, core.costs.copy(unit, dst, src), options


NkiTensor.copy_into = staticmethod(tensor_copy)


def memset(dst: NkiTensor, value: float, engine: engine = UNKNOWN, name: str | None = None) -> Instruction:
    """dst = value."""
    core = active("memset")
    unit, cost = core.settle(_memset_rules, dst, value, engine)
    instruction = core.issue("memset", unit, (dst,), (), cost, name)

    if core.functional:
        number = np.int64(value) if not dst._dtype.is_float else np.float32(value)
        core.perform(set_values, dst, np.broadcast_to(np.asarray(number), dst.shape))
    return instruction


def _memset_rules(core: NeuronCore, dst: NkiTensor, value: Any, chosen: engine) -> tuple[engine, Cost]:
    destination("memset", dst)
    unit = engine_of("memset", chosen, VECTOR, (VECTOR, GPSIMD))
    not_psum_on_gpsimd("memset", unit, dst)
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise NkiValidationError(f"memset: value must be a number, came {value!r}")
    if dst._dtype.is_integer:
        _integer_value(dst, value)
    if dst._dtype.kind == "packed" and value != 0:
        raise NkiValidationError(f"memset: only 0 can be set in dst {dst.label}")
    return unit, core.costs.memset(unit, dst)


def set_values(dst: NkiTensor, values: Array) -> None:
    dst.write(values)


def _integer_value(dst: NkiTensor, value: Any) -> None:
    """The value must have the type of dst: an integer literal that it can hold (nki/migration/index.rst, memset). 0.0,
    whose bits are those of 0, is taken: AWS's own kernels clear integers with it."""
    info = np.iinfo(dst._dtype.held)
    if value == 0:
        return
    if not isinstance(value, (int, np.integer)) or not info.min <= value <= info.max:
        raise NkiValidationError(
            f"memset: value {value!r} of dst {dst.label} must be an integer of {info.min} to {info.max}"
        )


def tensor_tensor(
    dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op: Any, engine: engine = UNKNOWN, name: str | None = None
) -> Instruction:
    """dst = data1 <op> data2, element by element."""
    core = active("tensor_tensor")
    unit, cost, operator, as_integers = core.settle(_two_rules, dst, data1, data2, op, engine)
    instruction = core.issue("tensor_tensor", unit, (dst,), (data1, data2), cost, name, flops=dst.size)

    core.perform(elementwise, dst, operator, data1, data2, as_integers)
    return instruction


def _two_rules(
    core: NeuronCore, dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op: Any, chosen: engine
) -> tuple[engine, Cost, AluOperator, bool]:
    """Also the operator, and whether it computes on integers."""
    destination("tensor_tensor", dst)
    tile("tensor_tensor", "data1", data1)
    tile("tensor_tensor", "data2", data2)
    same_size("tensor_tensor", dst, "data1", data1)
    same_size("tensor_tensor", dst, "data2", data2)
    operator = binary("tensor_tensor", op)
    read_together("tensor_tensor", "data1", data1, "data2", data2)
    tensors = (dst, data1, data2)
    integers = not operator.bits and dst._dtype.is_integer and all([t.dtype in _INT32 for t in tensors])
    default = VECTOR
    if operator.name == "power" or (integers and not any(t.storage.region is PSUM for t in tensors)):
        default = GPSIMD
    unit = engine_of("tensor_tensor", chosen, default, (VECTOR, GPSIMD))
    if operator.name == "power":
        unit = GPSIMD
    not_psum_on_gpsimd("tensor_tensor", unit, *tensors)
    bit_operands("tensor_tensor", operator, *tensors)
    as_integers = operator.bits or (integers and unit is GPSIMD)
    return unit, core.costs.tensor_tensor(unit, dst, data1, data2), operator, as_integers


def elementwise(dst: NkiTensor, operator: AluOperator, data1: NkiTensor, data2: NkiTensor, as_integers: bool) -> None:
    """The values of tensor_tensor."""
    if as_integers:
        dst.write(narrowed(operator.compute(shaped(data1.values, dst.shape), shaped(data2.values, dst.shape)), dst))
    else:
        dst.compute(operator.compute, shaped(float_values(data1), dst.shape), shaped(float_values(data2), dst.shape))


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Any,
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> Instruction:
    """dst = data reduced over its last axes by `op`."""
    core = active("tensor_reduce")
    cost, operator, axes = core.settle(_reduce_rules, dst, op, data, axis, negate)
    instruction = core.issue("tensor_reduce", VECTOR, (dst,), (data,), cost, name, flops=data.size)

    core.perform(_reduce, dst, operator, data, axes, negate)
    return instruction


def _reduce_rules(
    core: NeuronCore, dst: NkiTensor, op: Any, data: NkiTensor, axis: Any, negate: bool
) -> tuple[Cost, AluOperator, tuple[int, ...]]:
    """Also the operator and the axes."""
    destination("tensor_reduce", dst)
    tile("tensor_reduce", "data", data)
    same_partitions("tensor_reduce", dst, "data", data)
    operator = alu_operator(op, "tensor_reduce")
    if operator.reduction is None:
        allowed = ", ".join(f"nl.{o.name}" for o in ALU.values() if o.reduction is not None)
        raise NkiValidationError(f"tensor_reduce: op=nl.{operator.name} does not reduce; allowed: {allowed}")
    axes = trailing_axes("tensor_reduce", data, axis)
    kept = 1
    for extent in data.shape[1 : axes[0]]:
        kept *= extent
    if dst.free_size != kept:
        raise NkiValidationError(
            f"tensor_reduce: dst {dst.label} must have {kept} element(s) in a partition after reducing "
            f"axes {axes} of {data.label}"
        )
    if negate and operator.bits:
        raise NkiValidationError("tensor_reduce: negate goes with arithmetic operators only")
    bit_operands("tensor_reduce", operator, dst, data)
    return core.costs.reduce(data), operator, axes


def _reduce(dst: NkiTensor, operator: AluOperator, data: NkiTensor, axes: tuple[int, ...], negate: bool) -> None:
    """The values of tensor_reduce."""
    assert operator.reduction is not None
    values = data.values if operator.bits else float_values(data)
    result = operator.reduction(values, axis=axes)
    dst.write(narrowed(shaped(-result if negate else result, dst.shape), dst))


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Instruction:
    """dst = 1 / data, at the Vector Engine's precision (and an eighth of its rate)."""
    core = active("reciprocal")
    destination("reciprocal", dst)
    tile("reciprocal", "data", data)
    same_size("reciprocal", dst, "data", data)
    cost = core.costs.reciprocal(data)
    instruction = core.issue("reciprocal", VECTOR, (dst,), (data,), cost, name, flops=dst.size)

    core.perform(_invert, dst, data)
    return instruction


def _invert(dst: NkiTensor, data: NkiTensor) -> None:
    dst.write(shaped(np.float32(1) / float_values(data), dst.shape))


def trailing_axes(op: str, data: NkiTensor, axis: Any) -> tuple[int, ...]:
    """The axes to reduce over, in order; they must be the last ones and leave the partitions alone."""
    ndim = len(data.shape)
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(a % ndim if isinstance(a, int) and -ndim <= a < ndim else ndim for a in given))
    if not axes or axes != tuple(range(ndim - len(axes), ndim)) or axes[0] == 0:
        raise NkiValidationError(
            f"{op}: axis {axis} of {data.label} must be the last free dimension(s), never the partition dimension"
        )
    return axes


def binary(op: str, given: Any, operand: str = "op") -> AluOperator:
    operator = alu_operator(given, op, operand)
    if operator.unary:
        raise NkiValidationError(f"{op}: {operand}=nl.{operator.name} takes one input; two are given")
    return operator


def narrowed(result: Array, dst: NkiTensor) -> Array:
    """Integer arithmetic and bits keep their low bits; what comes from float32 is rounded and saturated by `write`."""
    return result.astype(dst._dtype.held, copy=False) if result.dtype.kind in "iu" and dst._dtype.is_integer else result


def bit_operands(op: str, operator: AluOperator, *tensors: NkiTensor) -> None:
    if operator.bits:
        for tensor in tensors:
            if not tensor._dtype.is_integer:
                raise NkiValidationError(
                    f"{op}: nl.{operator.name} works on bits and takes integers, came {tensor.label}"
                )
