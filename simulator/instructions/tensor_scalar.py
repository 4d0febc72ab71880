"""Elementwise instructions on a tensor and scalars, or columns with one element per partition.

These instructions run on the Vector Engine; some also run on the Scalar or the GpSimd Engine. Arithmetic is done in
float32 (nki.api.shared.rst, nki-aluop).
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..tensors.tensor import NkiTensor
from .checks import broadcast_value, float_values, shaped
from .core import active
from .declaration import Engine, declared
from .operands import Call, Operator, Scalar, Unchecked
from .operators import AluOperator
from .tensor_operands import LikeDst, Output
from .vector_engine import ELEMENTWISE, GPSIMD, SCALAR, UNKNOWN, VECTOR, narrowed

_ON_SCALAR_ENGINE = (("multiply", "add"), ("multiply", None), ("add", None))


def _names(call: Call) -> tuple[str, str | None]:
    return call.op0.name, call.op1.name if call.op1 is not None else None


def _pair_of_operators(call: Call) -> None:
    """op0 and op1 must both be bit operators or both arithmetic operators, and operand1 requires op1."""
    first, second = call.op0, call.op1
    if second is not None and second.bits != first.bits:
        raise NkiValidationError(
            f"tensor_scalar: op0=nl.{first.name} and op1=nl.{second.name} must both be bit operators or both arithmetic"
        )
    if second is None and call.operand1 is not None:
        raise NkiValidationError("tensor_scalar: operand1 requires an op1")


def _operators_of_engines(call: Call) -> None:
    """Bit operators run on the Vector Engine. The GpSimd Engine only supports nl.rsqrt; since trn2, the Scalar Engine
    supports multiply followed by add, multiply, and add."""
    core, unit, pair = call.core, call.unit, _names(call)
    on_scalar_engine = core.target.generation > 2 and pair in _ON_SCALAR_ENGINE
    if call.op0.bits and unit is not VECTOR:
        raise NkiValidationError(f"tensor_scalar: nl.{call.op0.name} runs only on the Vector Engine")
    if unit is GPSIMD and "rsqrt" not in pair:
        raise NkiValidationError("tensor_scalar: the GpSimd Engine supports only nl.rsqrt")
    if unit is SCALAR and not on_scalar_engine:
        raise NkiValidationError(
            f"tensor_scalar: the Scalar Engine of {core.target.name} does not support op0 and op1 {pair}; "
            "from trn2 on, it supports multiply and add, multiply, add"
        )
    operands = [call.operand0] if call.op1 is None else [call.operand0, call.operand1]
    call.vectors = sum(isinstance(operand, NkiTensor) for operand in operands)
    if call.engine is UNKNOWN and on_scalar_engine:
        call.options = ((SCALAR, core.costs.tensor_scalar(SCALAR, call.dst, call.data, call.vectors)),)


@declared(
    *ELEMENTWISE,
    cost=("tensor_scalar", "unit", "dst", "data", "vectors"),
    default=lambda call: GPSIMD if "rsqrt" in _names(call) else VECTOR,
    rules=(_pair_of_operators, _operators_of_engines),
)
def tensor_scalar(
    dst: Output,
    data: LikeDst,
    op0: Annotated[Any, Operator(bits_of=("dst", "data"))],
    operand0: Annotated[Any, Scalar(operator="op0")],
    reverse0: Annotated[bool, Unchecked()] = False,
    op1: Annotated[Any, Operator(optional=True)] = None,
    operand1: Annotated[Any, Scalar(operator="op1")] = None,
    reverse1: Annotated[bool, Unchecked()] = False,
    engine: Annotated[engine, Engine()] = UNKNOWN,
    name: str | None = None,
) -> Instruction:
    """Compute dst = (data <op0> operand0) <op1> operand1, with numbers or one element per partition as operands."""
    core = active("tensor_scalar")
    settled = core.settle("tensor_scalar", dst, data, op0, operand0, op1, operand1, engine)
    unit, cost, options, (first, second) = settled
    steps = [(first, 0 if first.unary else operand0, reverse0)]
    if second is not None:
        steps.append((second, 0 if second.unary else operand1, reverse1))
    vectors = tuple([operand for _, operand, _ in steps if isinstance(operand, NkiTensor)])
    flops = dst.size * len(steps)
    instruction = core.issue("tensor_scalar", unit, (dst,), (data, *vectors), cost, name, flops=flops, options=options)

    core.perform(apply_in_turn, dst, data, tuple(steps))
    return instruction


def apply_in_turn(dst: NkiTensor, data: NkiTensor, steps: tuple[tuple[AluOperator, Any, bool], ...]) -> None:
    """Compute the values of tensor_scalar. A step is an operator, its operand, and a flag that swaps the inputs."""
    values = data.values if steps[0][0].bits else float_values(data)
    if [operator.name for operator, _, _ in steps] == ["maximum", "minimum"] and data.shape == dst.shape:
        low, high = steps[0][1], steps[1][1]
        if not (isinstance(low, NkiTensor) or isinstance(high, NkiTensor)):  # a single pass, several times faster
            dst.compute(np.clip, values, np.float32(low), np.float32(high))
            return
    for operator, operand, reverse in steps[:-1]:
        values = apply(operator, values, operand, reverse, len(data.shape))
    operator, operand, reverse = steps[-1]
    if data.shape == dst.shape and dst._dtype.is_float:
        dst.compute(operator.compute, *_inputs(operator, values, operand, reverse, len(data.shape)))
        return
    values = apply(operator, values, operand, reverse, len(data.shape))
    dst.write(narrowed(shaped(values, dst.shape), dst))


def apply(operator: AluOperator, values: Array, operand: Any, reverse: bool, ndim: int) -> Array:
    return operator.compute(*_inputs(operator, values, operand, reverse, ndim))


def _inputs(operator: AluOperator, values: Array, operand: Any, reverse: bool, ndim: int) -> tuple[Array, ...]:
    """Return the inputs of an operator: the values and, unless it is unary, its operand."""
    if operator.unary:
        return (values,)
    if operator.bits:
        other = operand.values.reshape((-1,) + (1,) * (ndim - 1)) if isinstance(operand, NkiTensor) else operand
        other = np.asarray(other).astype(values.dtype)
    else:
        other = broadcast_value(operand, ndim)
    return (other, values) if reverse else (values, other)
