"""Elementwise instructions on a tensor and scalars, or a column of one element a partition: Vector Engine, some also on
the Scalar or the GpSimd Engine. Arithmetic runs in float32 (nki.api.shared.rst, nki-aluop)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import (
    broadcast_value,
    destination,
    engine_of,
    float_values,
    not_psum_on_gpsimd,
    read_together,
    same_size,
    scalar_operand,
    shaped,
    tile,
)
from ..core import NeuronCore, active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Cost, Instruction, Options, engine
from ..operators import AluOperator, alu_operator
from ..tensor import NkiTensor
from .vector_engine import ELEMENTWISE, GPSIMD, SCALAR, UNKNOWN, VECTOR, binary, bit_operands, narrowed


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reverse0: bool = False,
    op1: Any = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: engine = UNKNOWN,
    name: str | None = None,
) -> Instruction:
    """dst = (data <op0> operand0) <op1> operand1; operands are numbers or one element a partition."""
    core = active("tensor_scalar")
    unit, cost, options, first, second = core.settle(_scalar_rules, dst, data, op0, operand0, op1, operand1, engine)
    steps = [(first, 0 if first.unary else operand0, reverse0)]
    if second is not None:
        steps.append((second, 0 if second.unary else operand1, reverse1))
    vectors = tuple([operand for _, operand, _ in steps if isinstance(operand, NkiTensor)])
    flops = dst.size * len(steps)
    instruction = core.issue("tensor_scalar", unit, (dst,), (data, *vectors), cost, name, flops, options=options)

    core.perform(apply_in_turn, dst, data, tuple(steps))
    return instruction


def _scalar_rules(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    op1: Any,
    operand1: Any,
    chosen: engine,
) -> tuple[engine, Cost, Options, AluOperator, AluOperator | None]:
    """Also the operators."""
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
    default = GPSIMD if _has_rsqrt(first, second) else VECTOR
    unit = engine_of("tensor_scalar", chosen, default, ELEMENTWISE)
    _scalar_engine_operators(core, unit, first, second)
    bit_operands("tensor_scalar", first, dst, data)
    operands = [operand_of("tensor_scalar", "operand0", first, operand0, data)]
    if second is not None:
        operands.append(operand_of("tensor_scalar", "operand1", second, operand1, data))
    vectors = [operand for operand in operands if isinstance(operand, NkiTensor)]
    not_psum_on_gpsimd("tensor_scalar", unit, dst, data, *vectors)
    options: Options = ()
    if chosen is UNKNOWN and _on_scalar_engine(core, first, second):
        options = ((SCALAR, core.costs.tensor_scalar(SCALAR, dst, data, len(vectors))),)
    return unit, core.costs.tensor_scalar(unit, dst, data, len(vectors)), options, first, second


def apply_in_turn(dst: NkiTensor, data: NkiTensor, steps: tuple[tuple[AluOperator, Any, bool], ...]) -> None:
    """The values of tensor_scalar: operators, each with its operand and whether that comes first."""
    values = data.values if steps[0][0].bits else float_values(data)
    if [operator.name for operator, _, _ in steps] == ["maximum", "minimum"] and data.shape == dst.shape:
        low, high = steps[0][1], steps[1][1]
        if not (isinstance(low, NkiTensor) or isinstance(high, NkiTensor)):  # in one pass, several times faster
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
    cost, first, second = core.settle(_scaled_rules, dst, data, op0, operand0, op1, operand1)
    scalar = 0 if first.unary else operand0
    vectors = (scalar,) if isinstance(scalar, NkiTensor) else ()
    instruction = core.issue(
        "scalar_tensor_tensor", VECTOR, (dst,), (data, operand1, *vectors), cost, name, 2 * dst.size
    )

    core.perform(_scale_and_combine, dst, data, (first, scalar, reverse0), second, operand1, reverse1)
    return instruction


def _scaled_rules(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, op0: Any, operand0: Any, op1: Any, operand1: NkiTensor
) -> tuple[Cost, AluOperator, AluOperator]:
    """Also the operators."""
    destination("scalar_tensor_tensor", dst)
    tile("scalar_tensor_tensor", "data", data)
    tile("scalar_tensor_tensor", "operand1", operand1)
    same_size("scalar_tensor_tensor", dst, "data", data)
    same_size("scalar_tensor_tensor", dst, "operand1", operand1)
    first = alu_operator(op0, "scalar_tensor_tensor", "op0")
    second = binary("scalar_tensor_tensor", op1, "op1")
    if first.bits or second.bits:
        raise NkiValidationError("scalar_tensor_tensor: op0 and op1 must be arithmetic operators, not bit operators")
    read_together("scalar_tensor_tensor", "data", data, "operand1", operand1)
    operand_of("scalar_tensor_tensor", "operand0", first, operand0, data, float32=False)
    return core.costs.tensor_tensor(VECTOR, dst, data, operand1), first, second


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
    values = shaped(apply(first, float_values(data), scalar, reverse0, len(data.shape)), dst.shape)
    other = shaped(float_values(tensor), dst.shape)
    dst.compute(operator.compute, *((other, values) if reverse else (values, other)))


def operand_of(op: str, operand: str, operator: AluOperator, value: Any, data: NkiTensor, float32: bool = True) -> Any:
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


def apply(operator: AluOperator, values: Array, operand: Any, reverse: bool, ndim: int) -> Array:
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


def _has_rsqrt(first: AluOperator, second: AluOperator | None) -> bool:
    return first.name == "rsqrt" or (second is not None and second.name == "rsqrt")


def _scalar_engine_operators(core: NeuronCore, unit: engine, first: AluOperator, second: AluOperator | None) -> None:
    if first.bits and unit is not VECTOR:
        raise NkiValidationError(f"tensor_scalar: nl.{first.name} runs on the Vector Engine only")
    if unit is GPSIMD and not _has_rsqrt(first, second):
        raise NkiValidationError("tensor_scalar: the GpSimd Engine runs it for nl.rsqrt only")
    if unit is SCALAR:
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
