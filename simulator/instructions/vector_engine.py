"""Elementwise instructions and reductions on the Vector Engine; some also run on the Scalar or the GpSimd Engine.

Arithmetic is done in float32, regardless of the dtypes of the operands (nki.api.shared.rst, nki-aluop).
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import PSUM
from ..tensors.tensor import NkiTensor
from .checks import copy_values, float_values, shaped
from .core import active
from .declaration import Engine, declared
from .operands import REDUCING, Call, Number, Operator, Unchecked
from .operators import AluOperator
from .tensor_operands import LikeDst, Output, Tile

# aliases, because `engine` is also the name of a parameter
VECTOR, SCALAR, GPSIMD, UNKNOWN = engine.vector, engine.scalar, engine.gpsimd, engine.unknown
ELEMENTWISE = (VECTOR, SCALAR, GPSIMD)
_INT32 = ("int32", "uint32")


def _copy_engines(call: Call) -> None:
    """The Scalar Engine supports it since trn2."""
    core = call.core
    if call.unit is SCALAR and core.target.generation == 2:
        raise NkiValidationError(
            "tensor_copy: the Scalar Engine has no copy on trn1; use nisa.activation with op=nl.copy"
        )
    if call.engine is UNKNOWN:
        call.options = core.costs.copy_elsewhere(call.dst, call.src)


@declared(*ELEMENTWISE, cost=("copy", "unit", "dst", "src"), rules=(_copy_engines,))
def tensor_copy(
    dst: Output, src: LikeDst, engine: Annotated[engine, Engine()] = UNKNOWN, name: str | None = None
) -> Instruction:
    """Copy src to dst, converting the values if the dtypes differ."""
    core = active("tensor_copy")
    unit, cost, options, _ = core.settle("tensor_copy", dst, src, engine)
    instruction = core.issue("tensor_copy", unit, (dst,), (src,), cost, name, options=options)

    core.perform(copy_values, dst, src)
    return instruction


NkiTensor.copy_into = staticmethod(tensor_copy)


def _value_of_dst(call: Call) -> None:
    """If dst has an integer dtype, value must be an integer in its range; if it has a packed dtype, value must be 0."""
    dst, value = call.dst, call.value
    if dst._dtype.is_integer and value != 0:  # 0.0 is allowed, because AWS's kernels use it to clear integers
        info = np.iinfo(dst._dtype.held)
        if not isinstance(value, (int, np.integer)) or not info.min <= value <= info.max:
            raise NkiValidationError(
                f"memset: value {value!r} of dst {dst.label} must be an integer of {info.min} to {info.max}"
            )
    if dst._dtype.kind == "packed" and value != 0:
        raise NkiValidationError(f"memset: only 0 can be set in dst {dst.label}")


@declared(
    VECTOR, GPSIMD, cost=("memset", "unit", "dst"), rules=(_value_of_dst,), source="nki/migration/index.rst, memset"
)
def memset(
    dst: Output,
    value: Annotated[float, Number(booleans=True)],
    engine: Annotated[engine, Engine()] = UNKNOWN,
    name: str | None = None,
) -> Instruction:
    """Set all elements of dst to a value."""
    core = active("memset")
    unit, cost, _, _ = core.settle("memset", dst, value, engine)
    instruction = core.issue("memset", unit, (dst,), (), cost, name)

    if core.functional:
        number = np.int64(value) if not dst._dtype.is_float else np.float32(value)
        core.perform(set_values, dst, np.broadcast_to(np.asarray(number), dst.shape))
    return instruction


def set_values(dst: NkiTensor, values: Array) -> None:
    dst.write(values)


def _two_inputs_engine(call: Call) -> engine:
    in_psum = any(t.storage.region is PSUM for t in (call.dst, call.data1, call.data2))
    return GPSIMD if _adds_integers(call) and not in_psum else VECTOR


def _adds_integers(call: Call) -> bool:
    tensors = (call.dst, call.data1, call.data2)
    return not call.op.bits and call.dst._dtype.is_integer and all([t.dtype in _INT32 for t in tensors])


def _power_on_gpsimd(call: Call) -> None:
    """nl.power runs on the GpSimd Engine, and so does arithmetic on 32-bit integers if no operand is in PSUM."""
    if call.op.name == "power":
        call.unit = GPSIMD
    call.as_integers = call.op.bits or (_adds_integers(call) and call.unit is GPSIMD)


@declared(
    VECTOR,
    GPSIMD,
    cost=("tensor_tensor", "unit", "dst", "data1", "data2"),
    default=_two_inputs_engine,
    together=("data1", "data2"),
    rules=(_power_on_gpsimd,),
    finds=("as_integers",),
)
def tensor_tensor(
    dst: Output,
    data1: LikeDst,
    data2: LikeDst,
    op: Annotated[Any, Operator(binary=True, bits_of=("dst", "data1", "data2"))],
    engine: Annotated[engine, Engine()] = UNKNOWN,
    name: str | None = None,
) -> Instruction:
    """Compute dst = data1 <op> data2 elementwise."""
    core = active("tensor_tensor")
    unit, cost, _, (operator, as_integers) = core.settle("tensor_tensor", dst, data1, data2, op, engine)
    instruction = core.issue("tensor_tensor", unit, (dst,), (data1, data2), cost, name, flops=dst.size)

    core.perform(elementwise, dst, operator, data1, data2, as_integers)
    return instruction


def elementwise(dst: NkiTensor, operator: AluOperator, data1: NkiTensor, data2: NkiTensor, as_integers: bool) -> None:
    """Compute the values of tensor_tensor."""
    if as_integers:
        dst.write(narrowed(operator.compute(shaped(data1.values, dst.shape), shaped(data2.values, dst.shape)), dst))
    else:
        dst.compute(operator.compute, shaped(float_values(data1), dst.shape), shaped(float_values(data2), dst.shape))


def _kept_elements(call: Call) -> None:
    """dst must have one element per element of the result, the axes must be the last ones, and negate requires an
    arithmetic operator."""
    dst, data = call.dst, call.data
    call.axes = trailing_axes("tensor_reduce", data, call.axis)
    elements = math.prod(data.shape[1 : call.axes[0]])
    if dst.free_size != elements:
        raise NkiValidationError(
            f"tensor_reduce: dst {dst.label} must have {elements} element(s) in a partition after reducing "
            f"axes {call.axes} of {data.label}"
        )
    if call.negate and call.op.bits:
        raise NkiValidationError("tensor_reduce: negate requires an arithmetic operator")


@declared(VECTOR, cost=("reduce", "data"), rules=(_kept_elements,), finds=("axes",))
def tensor_reduce(
    dst: Annotated[NkiTensor, Tile(written=True, partitions_of="data")],
    op: Annotated[Any, Operator(REDUCING, "does not reduce", bits_of=("dst", "data"))],
    data: Annotated[NkiTensor, Tile()],
    axis: Any,
    negate: bool = False,
    keepdims: Annotated[bool, Unchecked()] = False,
    name: str | None = None,
) -> Instruction:
    """Reduce data over its last axes with `op`, and write the result to dst."""
    core = active("tensor_reduce")
    _, cost, _, (operator, axes) = core.settle("tensor_reduce", dst, op, data, axis, negate)
    instruction = core.issue("tensor_reduce", VECTOR, (dst,), (data,), cost, name, flops=data.size)

    core.perform(_reduce, dst, operator, data, axes, negate)
    return instruction


def _reduce(dst: NkiTensor, operator: AluOperator, data: NkiTensor, axes: tuple[int, ...], negate: bool) -> None:
    """Compute the values of tensor_reduce."""
    assert operator.reduction is not None
    values = data.values if operator.bits else float_values(data)
    result = operator.reduction(values, axis=axes)
    dst.write(narrowed(shaped(-result if negate else result, dst.shape), dst))


@declared(VECTOR, cost=("reciprocal", "data"))
def reciprocal(dst: Output, data: LikeDst, name: str | None = None) -> Instruction:
    """Compute dst = 1 / data with the precision of the Vector Engine (at an eighth of its rate)."""
    core = active("reciprocal")
    _, cost, _, _ = core.settle("reciprocal", dst, data)
    instruction = core.issue("reciprocal", VECTOR, (dst,), (data,), cost, name, flops=dst.size)

    core.perform(_invert, dst, data)
    return instruction


def _invert(dst: NkiTensor, data: NkiTensor) -> None:
    dst.write(shaped(np.float32(1) / float_values(data), dst.shape))


def trailing_axes(op: str, data: NkiTensor, axis: Any) -> tuple[int, ...]:
    """Return the axes to reduce over, in order. They must be the last axes and exclude the partition axis."""
    ndim = len(data.shape)
    axis_tuple = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(a % ndim if isinstance(a, int) and -ndim <= a < ndim else ndim for a in axis_tuple))
    if not axes or axes != tuple(range(ndim - len(axes), ndim)) or axes[0] == 0:
        raise NkiValidationError(
            f"{op}: axis {axis} of {data.label} must be the last free dimension(s), never the partition dimension"
        )
    return axes


def narrowed(result: Array, dst: NkiTensor) -> Array:
    """Truncate results of integer arithmetic and bit operators to the low bits of the dtype of dst.

    Results in float32 are returned unchanged; `write` rounds and saturates them.
    """
    return result.astype(dst._dtype.held, copy=False) if result.dtype.kind in "iu" and dst._dtype.is_integer else result
