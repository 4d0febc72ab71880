"""Elementwise instructions and reductions: Vector Engine, some also on the Scalar or the GpSimd Engine.

Arithmetic runs in float32, whatever the dtypes of the operands (nki.api.shared.rst, nki-aluop).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import (
    broadcast_value,
    copy_values,
    destination,
    engine_of,
    float_values,
    not_psum_on_gpsimd,
    read_together,
    same_partitions,
    same_size,
    scalar_operand,
    shaped,
    tile,
)
from ..core import NeuronCore, active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..memory import PSUM
from ..operators import ALU, AluOperator, alu_operator
from ..tensor import NkiTensor

_VECTOR, _SCALAR, _GPSIMD, _UNKNOWN = engine.vector, engine.scalar, engine.gpsimd, engine.unknown
_ELEMENTWISE = (_VECTOR, _SCALAR, _GPSIMD)
_INT32 = ("int32", "uint32")


def tensor_copy(dst: NkiTensor, src: NkiTensor, engine: engine = _UNKNOWN, name: str | None = None) -> Instruction:
    """dst = src, cast where the dtypes differ."""
    core = active("tensor_copy")
    destination("tensor_copy", dst)
    tile("tensor_copy", "src", src)
    same_size("tensor_copy", dst, "src", src)
    unit = engine_of("tensor_copy", engine, _VECTOR, _ELEMENTWISE)
    if unit is _SCALAR and core.target.generation == 2:
        raise NkiValidationError(
            "tensor_copy: the Scalar Engine has no copy on trn1; use nisa.activation with op=nl.copy"
        )
    not_psum_on_gpsimd("tensor_copy", unit, dst, src)
    options = core.costs.copy_elsewhere(dst, src) if engine is _UNKNOWN else ()
    cost = core.costs.copy(unit, dst, src)
    instruction = core.issue("tensor_copy", unit, (dst,), (src,), cost, name, options=options)

    core.perform(copy_values, dst, src)
    return instruction


def memset(dst: NkiTensor, value: float, engine: engine = _UNKNOWN, name: str | None = None) -> Instruction:
    """dst = value."""
    core = active("memset")
    destination("memset", dst)
    unit = engine_of("memset", engine, _VECTOR, (_VECTOR, _GPSIMD))
    not_psum_on_gpsimd("memset", unit, dst)
    if not isinstance(value, (int, float, np.integer, np.floating)):
        raise NkiValidationError(f"memset: value must be a number, came {value!r}")
    dtype = dst._dtype
    if dtype.is_integer:
        _integer_value(dst, value)
    if dtype.kind == "packed" and value != 0:
        raise NkiValidationError(f"memset: only 0 can be set in dst {dst.label}")
    instruction = core.issue("memset", unit, (dst,), (), core.costs.memset(unit, dst), name)

    if core.functional:
        number = np.int64(value) if not dtype.is_float else np.float32(value)
        core.perform(_set, dst, np.broadcast_to(np.asarray(number), dst.shape))
    return instruction


def _set(dst: NkiTensor, values: Array) -> None:
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
    dst: NkiTensor, data1: NkiTensor, data2: NkiTensor, op: Any, engine: engine = _UNKNOWN, name: str | None = None
) -> Instruction:
    """dst = data1 <op> data2, element by element."""
    core = active("tensor_tensor")
    destination("tensor_tensor", dst)
    tile("tensor_tensor", "data1", data1)
    tile("tensor_tensor", "data2", data2)
    same_size("tensor_tensor", dst, "data1", data1)
    same_size("tensor_tensor", dst, "data2", data2)
    operator = _binary("tensor_tensor", op)
    read_together("tensor_tensor", "data1", data1, "data2", data2)
    tensors = (dst, data1, data2)
    integers = not operator.bits and dst._dtype.is_integer and all([t.dtype in _INT32 for t in tensors])
    default = _VECTOR
    if operator.name == "power" or (integers and not any(t.storage.region is PSUM for t in tensors)):
        default = _GPSIMD
    unit = engine_of("tensor_tensor", engine, default, (_VECTOR, _GPSIMD))
    if operator.name == "power":
        unit = _GPSIMD
    not_psum_on_gpsimd("tensor_tensor", unit, *tensors)
    _bit_operands("tensor_tensor", operator, *tensors)
    cost = core.costs.tensor_tensor(unit, dst, data1, data2)
    instruction = core.issue("tensor_tensor", unit, (dst,), (data1, data2), cost, name, flops=dst.size)

    as_integers = operator.bits or (integers and unit is _GPSIMD)
    core.perform(_elementwise, dst, operator, data1, data2, as_integers)
    return instruction


def _elementwise(dst: NkiTensor, operator: AluOperator, data1: NkiTensor, data2: NkiTensor, as_integers: bool) -> None:
    """The values of tensor_tensor."""
    if as_integers:
        dst.write(_narrowed(operator.compute(shaped(data1.values, dst.shape), shaped(data2.values, dst.shape)), dst))
    else:
        dst.compute(operator.compute, shaped(float_values(data1), dst.shape), shaped(float_values(data2), dst.shape))


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: engine = _UNKNOWN,
    name: str | None = None,
) -> Instruction:
    """dst = (data <op0> operand0) <op1> operand1; operands are numbers or one element a partition."""
    core = active("tensor_scalar")
    destination("tensor_scalar", dst)
    tile("tensor_scalar", "data", data)
    same_size("tensor_scalar", dst, "data", data)
    first = alu_operator(op0, "tensor_scalar", "op0")
    second = alu_operator(op1, "tensor_scalar", "op1") if op1 is not None else None
    if second is not None and second.bits != first.bits:
        raise NkiValidationError(
            f"tensor_scalar: op0=nl.{first.name} and op1=nl.{second.name} must both be bit operators or both arithmetic"
        )
    if second is None and operand1 is not None:
        raise NkiValidationError("tensor_scalar: operand1 needs an op1")
    default = _GPSIMD if _has_rsqrt(first, second) else _VECTOR
    unit = engine_of("tensor_scalar", engine, default, _ELEMENTWISE)
    _scalar_engine_operators(core, unit, first, second)
    _bit_operands("tensor_scalar", first, dst, data)
    steps = [(first, _operand("tensor_scalar", "operand0", first, operand0, data), reverse0)]
    if second is not None:
        steps.append((second, _operand("tensor_scalar", "operand1", second, operand1, data), reverse1))
    vectors = tuple(operand for _, operand, _ in steps if isinstance(operand, NkiTensor))
    not_psum_on_gpsimd("tensor_scalar", unit, dst, data, *vectors)
    cost = core.costs.tensor_scalar(unit, dst, data, len(vectors))
    options: tuple[Any, ...] = ()
    if engine is _UNKNOWN and _on_scalar_engine(core, first, second):
        options = ((_SCALAR, core.costs.tensor_scalar(_SCALAR, dst, data, len(vectors))),)
    flops = dst.size * len(steps)
    instruction = core.issue("tensor_scalar", unit, (dst,), (data, *vectors), cost, name, flops, options=options)

    core.perform(_apply_in_turn, dst, data, tuple(steps))
    return instruction


def _apply_in_turn(dst: NkiTensor, data: NkiTensor, steps: tuple[tuple[AluOperator, Any, bool], ...]) -> None:
    """The values of tensor_scalar: operators, each with its operand and whether that comes first."""
    values = data.values if steps[0][0].bits else float_values(data)
    if [operator.name for operator, _, _ in steps] == ["maximum", "minimum"] and data.shape == dst.shape:
        low, high = steps[0][1], steps[1][1]
        if not (isinstance(low, NkiTensor) or isinstance(high, NkiTensor)):  # in one pass, several times faster
            dst.compute(np.clip, values, np.float32(low), np.float32(high))
            return
    for operator, operand, reverse in steps[:-1]:
        values = _apply(operator, values, operand, reverse, len(data.shape))
    operator, operand, reverse = steps[-1]
    if data.shape == dst.shape and dst._dtype.is_float:
        dst.compute(operator.compute, *_inputs(operator, values, operand, reverse, len(data.shape)))
        return
    values = _apply(operator, values, operand, reverse, len(data.shape))
    dst.write(_narrowed(shaped(values, dst.shape), dst))


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> Instruction:
    """dst = (data <op0> operand0) <op1> operand1, where operand1 is a tile of data's size."""
    core = active("scalar_tensor_tensor")
    destination("scalar_tensor_tensor", dst)
    tile("scalar_tensor_tensor", "data", data)
    tile("scalar_tensor_tensor", "operand1", operand1)
    same_size("scalar_tensor_tensor", dst, "data", data)
    same_size("scalar_tensor_tensor", dst, "operand1", operand1)
    first = alu_operator(op0, "scalar_tensor_tensor", "op0")
    second = _binary("scalar_tensor_tensor", op1, "op1")
    if first.bits or second.bits:
        raise NkiValidationError("scalar_tensor_tensor: op0 and op1 must be arithmetic operators, not bit operators")
    read_together("scalar_tensor_tensor", "data", data, "operand1", operand1)
    scalar = _operand("scalar_tensor_tensor", "operand0", first, operand0, data, float32=False)
    vectors = (scalar,) if isinstance(scalar, NkiTensor) else ()
    cost = core.costs.tensor_tensor(_VECTOR, dst, data, operand1)
    instruction = core.issue(
        "scalar_tensor_tensor", _VECTOR, (dst,), (data, operand1, *vectors), cost, name, 2 * dst.size
    )

    core.perform(_scale_and_combine, dst, data, (first, scalar, reverse0), second, operand1, reverse1)
    return instruction


def _scale_and_combine(
    dst: NkiTensor,
    data: NkiTensor,
    scale: tuple[AluOperator, Any, bool],
    operator: AluOperator,
    tensor: NkiTensor,
    reverse: bool,
) -> None:
    """The values of scalar_tensor_tensor."""
    first, scalar, reverse0 = scale
    values = shaped(_apply(first, float_values(data), scalar, reverse0, len(data.shape)), dst.shape)
    other = shaped(float_values(tensor), dst.shape)
    dst.compute(operator.compute, *((other, values) if reverse else (values, other)))


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
    _bit_operands("tensor_reduce", operator, dst, data)
    cost = core.costs.reduce(data)
    instruction = core.issue("tensor_reduce", _VECTOR, (dst,), (data,), cost, name, flops=data.size)

    core.perform(_reduce, dst, operator, data, axes, negate)
    return instruction


def _reduce(dst: NkiTensor, operator: AluOperator, data: NkiTensor, axes: tuple[int, ...], negate: bool) -> None:
    """The values of tensor_reduce."""
    assert operator.reduction is not None
    values = data.values if operator.bits else float_values(data)
    result = operator.reduction(values, axis=axes)
    dst.write(_narrowed(shaped(-result if negate else result, dst.shape), dst))


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Instruction:
    """dst = 1 / data, at the Vector Engine's precision (and an eighth of its rate)."""
    core = active("reciprocal")
    destination("reciprocal", dst)
    tile("reciprocal", "data", data)
    same_size("reciprocal", dst, "data", data)
    cost = core.costs.reciprocal(data)
    instruction = core.issue("reciprocal", _VECTOR, (dst,), (data,), cost, name, flops=dst.size)

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


def _binary(op: str, given: Any, operand: str = "op") -> AluOperator:
    operator = alu_operator(given, op, operand)
    if operator.unary:
        raise NkiValidationError(f"{op}: {operand}=nl.{operator.name} takes one input; two are given")
    return operator


def _operand(op: str, operand: str, operator: AluOperator, value: Any, data: NkiTensor, float32: bool = True) -> Any:
    if operator.unary:
        if value is not None and not (isinstance(value, (int, float)) and value == 0):
            raise NkiValidationError(f"{op}: {operand} must be None or 0, because nl.{operator.name} takes one input")
        return 0
    if operator.bits and not _is_integer(value):
        raise NkiValidationError(
            f"{op}: {operand} of nl.{operator.name} must be an integer or an integer tile, came "
            f"{value.label if isinstance(value, NkiTensor) else repr(value)}"
        )
    return scalar_operand(op, operand, value, data, float32=float32 and not operator.bits)


def _is_integer(value: Any) -> bool:
    return value._dtype.is_integer if isinstance(value, NkiTensor) else isinstance(value, (int, np.integer))


def _narrowed(result: Array, dst: NkiTensor) -> Array:
    """Integer arithmetic and bits keep their low bits; what comes from float32 is rounded and saturated by `write`."""
    return result.astype(dst._dtype.held, copy=False) if result.dtype.kind in "iu" and dst._dtype.is_integer else result


def _apply(operator: AluOperator, values: Array, operand: Any, reverse: bool, ndim: int) -> Array:
    return operator.compute(*_inputs(operator, values, operand, reverse, ndim))


def _inputs(operator: AluOperator, values: Array, operand: Any, reverse: bool, ndim: int) -> tuple[Array, ...]:
    """What an operator computes from: the values, and its operand where it takes one."""
    if operator.unary:
        return (values,)
    if operator.bits:
        other = operand.values.reshape((-1,) + (1,) * (ndim - 1)) if isinstance(operand, NkiTensor) else operand
        other = np.asarray(other).astype(values.dtype)
    else:
        other = broadcast_value(operand, ndim)
    return (other, values) if reverse else (values, other)


def _bit_operands(op: str, operator: AluOperator, *tensors: NkiTensor) -> None:
    if operator.bits:
        for tensor in tensors:
            if not tensor._dtype.is_integer:
                raise NkiValidationError(
                    f"{op}: nl.{operator.name} works on bits and takes integers, came {tensor.label}"
                )


def _has_rsqrt(first: AluOperator, second: AluOperator | None) -> bool:
    return first.name == "rsqrt" or (second is not None and second.name == "rsqrt")


def _scalar_engine_operators(core: NeuronCore, unit: engine, first: AluOperator, second: AluOperator | None) -> None:
    if first.bits and unit is not _VECTOR:
        raise NkiValidationError(f"tensor_scalar: nl.{first.name} runs on the Vector Engine only")
    if unit is _GPSIMD and not _has_rsqrt(first, second):
        raise NkiValidationError("tensor_scalar: the GpSimd Engine runs it for nl.rsqrt only")
    if unit is _SCALAR:
        pair = (first.name, second.name if second is not None else None)
        if not _on_scalar_engine(core, first, second):
            raise NkiValidationError(
                f"tensor_scalar: op0 and op1 {pair} on the Scalar Engine of {core.target.name}; allowed from "
                "trn2 on: multiply and add, multiply, add"
            )


def _on_scalar_engine(core: NeuronCore, first: AluOperator, second: AluOperator | None) -> bool:
    """Whether the Scalar Engine can run a tensor_scalar of these operators."""
    pair = (first.name, second.name if second is not None else None)
    return core.target.generation > 2 and pair in (("multiply", "add"), ("multiply", None), ("add", None))
