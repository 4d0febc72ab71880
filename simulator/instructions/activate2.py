"""Scalar Engine of NeuronCore-v4: a function of every element, with two operators before and a reduction after it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import active_since, broadcast_value, destination, float_values, same_size, scalar_operand, shaped, tile
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction
from ..operators import ALU, ActivationFunction, activation_function
from ..tensor import NkiTensor
from .accumulate import check_command
from .scalar_engine import accumulators, issue_activation, reduce_cmd

# What (op0, op1) may be.
_PAIRS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
_IDENTITY = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf, "abs_max": 0.0, "abs_min": np.inf}
_IDLE, _RESET, _REDUCE = reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce
_COMMANDS = (_IDLE, _RESET, _REDUCE, reduce_cmd.reset_reduce)


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: Any,
    imm1: Any,
    op0: Any,
    op1: Any,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> Instruction:
    """dst = op((data <op0> imm0) <op1> imm1) in float32; dst reduced over its free axes can go to the accumulators."""
    core = active_since("activate2", 4)
    destination("activate2", dst)
    tile("activate2", "data", data)
    same_size("activate2", dst, "data", data)
    first, second = (getattr(given, "__name__", repr(given)) for given in (op0, op1))
    if (first, second) not in _PAIRS:
        allowed = ", ".join(f"({a}, {b})" for a, b in _PAIRS)
        raise NkiValidationError(f"activate2: op0 and op1 ({first}, {second}); allowed: {allowed}")
    if (reverse0 and first == "bypass") or (reverse1 and second == "bypass"):
        raise NkiValidationError("activate2: reverse0 needs an op0, reverse1 an op1 other than nl.bypass")
    steps = []
    for operand, value, operator, reverse in (("imm0", imm0, first, reverse0), ("imm1", imm1, second, reverse1)):
        if operator != "bypass":
            steps.append((operator, scalar_operand("activate2", operand, value, data, float32=False), reverse))
    vectors = [operand for _, operand, _ in steps if isinstance(operand, NkiTensor)]
    if len({vector.dtype for vector in vectors}) > 1:
        raise NkiValidationError("activate2: imm0 and imm1 must have one dtype where both are tensors")
    function = _function(op, relu_param, data)
    if isinstance(relu_param, NkiTensor):
        vectors.append(relu_param)
    reduce_cmd = check_command("activate2", reduce_cmd, _COMMANDS, reduce_res, data)
    reducer = _reducer(reduce_op, reduce_cmd)
    cost, reads = core.costs.activation(data, function.table), (data, *vectors)
    instruction = issue_activation(core, "activate2", cost, dst, reads, 3 * dst.size, reduce_cmd, reduce_res, name)

    if core.functional:
        values = float_values(data)
        with np.errstate(all="ignore"):
            for operator, operand, reverse in steps:
                other = broadcast_value(operand, values.ndim).astype(np.float32)
                compute = ALU[operator].compute
                values = compute(other, values) if reverse else compute(values, other)
            values = function.compute(values)
        dst.write(shaped(values, dst.shape))
        if reduce_cmd is not _IDLE:
            _reduce(accumulators(core, data), values, reducer, reduce_cmd)
            if reduce_res is not None:
                reduce_res.write(accumulators(core, data).reshape(reduce_res.shape))
    return instruction


def _function(op: Any, relu_param: Any, data: NkiTensor) -> ActivationFunction:
    """The activation function; nl.prelu has `relu_param` as its slope below 0."""
    slope = scalar_operand("activate2", "relu_param", relu_param, data, float32=False)
    if getattr(op, "__name__", "") != "prelu":
        return activation_function(op, "activate2")

    def prelu(x: Array) -> Array:
        return np.where(x > 0, x, x * broadcast_value(slope, x.ndim).astype(np.float32))

    return ActivationFunction("prelu", prelu, "")


def _reducer(reduce_op: Any, command: reduce_cmd) -> str:
    name = getattr(reduce_op, "__name__", repr(reduce_op))
    if command is not _IDLE and name not in _IDENTITY:
        allowed = ", ".join("nl." + known for known in _IDENTITY)
        raise NkiValidationError(f"activate2: reduce_cmd {command.name} with reduce_op {name}; allowed: {allowed}")
    return name


def _reduce(lanes: Array, values: Array, reducer: str, command: reduce_cmd) -> None:
    if command is not _REDUCE:
        lanes[:] = _IDENTITY[reducer]
    if command is _RESET:
        return
    flat = values.reshape(values.shape[0], -1)
    if reducer.startswith("abs"):
        flat = np.abs(flat)
    reduction = ALU[{"abs_max": "maximum", "abs_min": "minimum"}.get(reducer, reducer)].reduction
    assert reduction is not None
    lanes[:] = ALU[reducer].compute(lanes, reduction(flat, axis=(1,)))
