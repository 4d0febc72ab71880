"""Activation functions on the Scalar Engine of NeuronCore-v4, preceded by two operators and followed by a reduction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..tensors.tensor import NkiTensor
from .accumulate import reduces, result
from .checks import broadcast_value, float_values, shaped
from .core import active
from .declaration import Engine, declared
from .operands import Call, Function, Member, NamedFunction, Scalar
from .operators import ACTIVATIONS, ALU, ActivationFunction, activation_function
from .scalar_engine import accumulators, issue_accumulation, reduce_cmd, scalar_accumulators_alone
from .tensor_operands import LikeDst, Output

# Allowed pairs (op0, op1).
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
_BEFORE = ("multiply", "add", "subtract", "bypass")


@dataclass(frozen=True, eq=False)
class Immediate(Scalar):
    """A scalar that is ignored if its operator is nl.bypass. `by` is the operand that specifies the operator."""

    by: str = ""

    def relate(self, call: Call, name: str, value: Any) -> None:
        if getattr(call, self.by) != "bypass":
            super().relate(call, name, value)


def _pair(call: Call) -> None:
    """If op0 is multiply, op1 must be add, subtract or bypass; otherwise, op1 must be bypass. reverse0 and reverse1
    require an operator other than bypass. imm0 and imm1 must have the same dtype if both are tiles."""
    if (call.op0, call.op1) not in _PAIRS:
        allowed = ", ".join(f"({a}, {b})" for a, b in _PAIRS)
        raise NkiValidationError(
            f"activate2: unsupported combination of op0 and op1: ({call.op0}, {call.op1}); supported: {allowed}"
        )
    if (call.reverse0 and call.op0 == "bypass") or (call.reverse1 and call.op1 == "bypass"):
        raise NkiValidationError(
            "activate2: reverse0 requires an op0 other than nl.bypass, and reverse1 an op1 other than nl.bypass"
        )
    operands = [value for value, op in ((call.imm0, call.op0), (call.imm1, call.op1)) if op != "bypass"]
    if len({value.dtype for value in operands if isinstance(value, NkiTensor)}) > 1:
        raise NkiValidationError("activate2: imm0 and imm1 must have the same dtype if both are tensors")


def _reducer(call: Call) -> None:
    """A reduce_cmd other than idle requires reduce_op."""
    if call.reduce_cmd is not _IDLE and call.reduce_op not in _IDENTITY:
        allowed = ", ".join("nl." + known for known in _IDENTITY)
        raise NkiValidationError(f"activate2: reduce_cmd {call.reduce_cmd.name} needs reduce_op; allowed: {allowed}")


@declared(
    engine.scalar,
    engine.gpsimd,
    cost=("activation", "data", "table", "unit"),
    generation=4,
    rules=(_pair, reduces, _reducer, scalar_accumulators_alone),
)
def activate2(
    dst: Output,
    op: Annotated[Any, Function((*ACTIVATIONS, "prelu"))],
    data: LikeDst,
    imm0: Annotated[Any, Immediate(dtypes=(), by="op0")],
    imm1: Annotated[Any, Immediate(dtypes=(), by="op1")],
    op0: Annotated[Any, NamedFunction(_BEFORE)],
    op1: Annotated[Any, NamedFunction(_BEFORE)],
    relu_param: Annotated[Any, Scalar(dtypes=())] = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Annotated[Any, NamedFunction(tuple(_IDENTITY), optional=True)] = None,
    reduce_res: Annotated[NkiTensor | None, result("data")] = None,
    reduce_cmd: Annotated[
        reduce_cmd, Member(reduce_cmd, tuple(c for c in reduce_cmd if c is not reduce_cmd.load_reduce))
    ] = reduce_cmd.idle,
    engine: Annotated[engine, Engine()] = engine.scalar,
    name: str | None = None,
) -> Instruction:
    """Compute dst = op((data <op0> imm0) <op1> imm1) in float32.

    The reduction of dst over its free axes can be accumulated in the accumulators of the engine.
    """
    core = active("activate2")
    operands = dst, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1, reduce_op, reduce_res, reduce_cmd
    unit, cost, _, (_, first, second, reducer, command) = core.settle("activate2", *operands, engine)
    steps = [(o, value, r) for o, value, r in ((first, imm0, reverse0), (second, imm1, reverse1)) if o != "bypass"]
    vectors = [value for value in (*[value for _, value, _ in steps], relu_param) if isinstance(value, NkiTensor)]
    reads, flops = (data, *vectors), 3 * dst.size
    instruction = core.issue("activate2", unit, (dst,), reads, cost, name, flops=flops)
    issue_accumulation(core, instruction, command, reduce_res)
    if core.functional:
        values = float_values(data)
        with np.errstate(all="ignore"):
            for operator, operand, reverse in steps:
                other = broadcast_value(operand, values.ndim).astype(np.float32)
                compute = ALU[operator].compute
                values = compute(other, values) if reverse else compute(values, other)
            values = _function(op, relu_param).compute(values)
        dst.write(shaped(values, dst.shape))
        if command is not _IDLE:
            _reduce(accumulators(core, data), values, reducer, command)
            if reduce_res is not None:
                reduce_res.write(accumulators(core, data).reshape(reduce_res.shape))
    return instruction


def _function(op: Any, slope: Any) -> ActivationFunction:
    """Return the activation function. `slope` is the slope of nl.prelu for negative inputs."""
    if getattr(op, "__name__", "") != "prelu":
        return activation_function(op, "activate2")

    def prelu(x: Array) -> Array:
        return np.where(x > 0, x, x * broadcast_value(slope, x.ndim).astype(np.float32))

    return ActivationFunction("prelu", prelu, "")


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
