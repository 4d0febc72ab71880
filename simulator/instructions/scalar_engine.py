"""Activation functions on the Scalar Engine, preceded by a scale and a bias and optionally followed by a sum."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.dtypes import DTYPES, Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, SettledCall, engine
from ..tensors.tensor import NkiTensor
from .checks import broadcast_value, float_values, shaped
from .core import NeuronCore, active
from .declaration import Engine, declared
from .operands import Call, Function, Member, Operator, Scalar
from .operators import ActivationFunction, activation_function
from .reported import check_copy
from .tensor_operands import LikeDst, Output, Tile


class reduce_cmd(Enum):  # noqa: N801 (name and values of nki.isa)
    """Commands for the accumulator registers of an engine, one float32 per partition."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


_SCALAR = engine.scalar
_PACKED = tuple(name for name, dtype in DTYPES.items() if dtype.kind == "packed")
_BIAS = Scalar(dtypes=(), refused=("tfloat32", *_PACKED), optional=True)
_IDLE, _REDUCE = reduce_cmd.idle, reduce_cmd.reduce  # aliases, because `reduce_cmd` is also a parameter of `activation`


def _bias_on_trn1(call: Call) -> None:
    """On trn1, bias must be a tile, and cannot be combined with nl.reciprocal."""
    if call.bias is None or call.core.target.generation > 2:
        return
    if call.op == "reciprocal":
        raise NkiValidationError(f"{call.instruction}: bias cannot be given with op=nl.reciprocal on trn1")
    if not isinstance(call.bias, NkiTensor):
        raise NkiValidationError(
            f"{call.instruction}: on trn1, bias must be a vector with one element per partition (scalars are "
            "supported from trn2 on)"
        )


def scalar_accumulators_alone(call: Call) -> None:
    """The GpSimd Engine has no accumulators, so it does not support reduce_op, reduce_res or reduce_cmd."""
    idle = call.reduce_op in (None, "") and call.reduce_res is None and call.reduce_cmd is _IDLE
    if call.unit is engine.gpsimd and not idle:
        raise NkiValidationError(
            f"{call.instruction}: engine gpsimd has no accumulators; omit reduce_op, reduce_res and reduce_cmd, "
            "or use engine scalar"
        )


def _reduction(call: Call) -> None:
    """A reduce_cmd that reduces requires reduce_op."""
    if call.reduce_op is None and call.reduce_cmd in (reduce_cmd.reduce, reduce_cmd.reset_reduce):
        raise NkiValidationError(f"activation: reduce_cmd {call.reduce_cmd.name} requires reduce_op=nl.add")


def _copies_with_bias(call: Call) -> None:
    """Copies with a bias are reported to lose the bias (reported.py)."""
    check_copy(call.core, call.instruction, call.op, call.bias)


ON_GPSIMD: dict[str, Any] = {"engine_generations": {engine.gpsimd: 4}}
"""On NeuronCore-v4 and later, the GpSimd Engine also runs activations (page of SDK 2.33). Their time is not
published."""


@declared(
    _SCALAR,
    engine.gpsimd,
    cost=("activation", "data", "table", "unit"),
    rules=(_bias_on_trn1, _reduction, scalar_accumulators_alone, _copies_with_bias),
    source="nki.api.shared.rst, nki-engine-sel",
    **ON_GPSIMD,
)
def activation(
    dst: Output,
    op: Annotated[Any, Function()],
    data: LikeDst,
    bias: Annotated[Any, _BIAS] = None,
    scale: Annotated[Any, Scalar()] = 1.0,
    reduce_op: Annotated[Any, Operator(("add",), optional=True)] = None,
    reduce_res: Annotated[
        NkiTensor | None, Tile(written=True, partitions_of="data", elements=(1, 1), optional=True)
    ] = None,
    reduce_cmd: Annotated[
        reduce_cmd, Member(reduce_cmd, tuple(c for c in reduce_cmd if c is not reduce_cmd.load_reduce))
    ] = reduce_cmd.idle,
    engine: Annotated[engine, Engine()] = engine.scalar,
    name: str | None = None,
) -> Instruction:
    """Compute dst = op(data * scale + bias) in float32.

    The sum of dst over its free axes can be accumulated in the accumulators of the engine.
    """
    core = active("activation")
    settled = core.settle("activation", dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, engine)
    command = settled[3][2]
    return _activation(core, settled, (dst, op, data, scale, bias), command, reduce_res, name)


def _activation(
    core: NeuronCore,
    settled: SettledCall,
    operands: tuple[NkiTensor, Any, NkiTensor, Any, Any],
    command: reduce_cmd,
    reduce_res: NkiTensor | None,
    name: str | None,
) -> Instruction:
    """Issue and compute an activation with `operands` (dst, op, data, scale, bias)."""
    dst, op, data, scale, bias = operands
    function = activation_function(op, "activation")
    vectors = tuple([operand for operand in (scale, bias) if isinstance(operand, NkiTensor)])
    reads, flops = (data, *vectors), 2 * dst.size
    instruction = core.issue("activation", settled[0], (dst,), reads, settled[1], name, flops=flops)
    issue_accumulation(core, instruction, command, reduce_res)
    accumulates = command is not _IDLE or reduce_res is not None
    lanes = accumulators(core, data) if accumulates and core.functional else None
    core.perform(activate, dst, function, data, scale, bias, lanes, command)
    if reduce_res is not None:
        core.perform(_read_accumulators, reduce_res, lanes)
    return instruction


def activate(
    dst: NkiTensor,
    function: ActivationFunction,
    data: NkiTensor,
    scale: Any,
    bias: Any,
    lanes: Array | None,
    command: reduce_cmd,
) -> None:
    """Compute the values of `activation`; `lanes` are the accumulators, or None if it does not use them."""
    values = float_values(data)
    if isinstance(scale, NkiTensor) or scale != 1.0:
        values = values * broadcast_value(scale, values.ndim)
    if bias is not None:
        column = broadcast_value(bias, values.ndim).astype(np.float32, copy=False)
        if function.name == "copy" and lanes is None and values.shape == dst.shape:
            dst.compute(np.add, values, column)
            return
        values = values + column
    result = function.compute(values)
    dst.write(shaped(result, dst.shape))
    if lanes is not None:
        _accumulate(lanes, result, command)


def _read_accumulators(dst: NkiTensor, lanes: Array) -> None:
    dst.write(lanes.reshape(dst.shape))


@declared(_SCALAR, cost=("activation", "data", "table"), rules=(_bias_on_trn1, _copies_with_bias))
def activation_reduce(
    dst: Output,
    op: Annotated[Any, Function()],
    data: LikeDst,
    reduce_op: Annotated[Any, Operator(("add",))],
    reduce_res: Annotated[NkiTensor, Tile(written=True, partitions_of="data", elements=(1, 1))],
    bias: Annotated[Any, _BIAS] = None,
    scale: Annotated[Any, Scalar()] = 1.0,
    name: str | None = None,
) -> Instruction:
    """Compute an `activation`, and write the sum of its result over the free axes to reduce_res."""
    core = active("activation_reduce")
    settled = core.settle("activation_reduce", dst, op, data, reduce_op, reduce_res, bias, scale)
    return _activation(core, settled, (dst, op, data, scale, bias), reduce_cmd.reset_reduce, reduce_res, name)


def issue_accumulation(
    core: NeuronCore, instruction: Instruction, command: reduce_cmd, reduce_res: NkiTensor | None
) -> None:
    """Keep accumulations in program order, and issue an instruction that reads the accumulators into reduce_res."""
    _keep_accumulator_order(core, instruction, command)
    if reduce_res is not None:
        cost = core.costs.accumulator_read()
        read = core.issue("activation_read_accumulators", _SCALAR, (reduce_res,), (), cost)
        _keep_accumulator_order(core, read, _REDUCE)


def _keep_accumulator_order(core: NeuronCore, instruction: Instruction, command: reduce_cmd) -> None:
    """Keep instructions that use the accumulators in program order."""
    if command is not _IDLE:
        if core.last_accumulation is not None:
            instruction.depends_on(core.last_accumulation)
        core.last_accumulation = instruction


def accumulators(core: NeuronCore, data: NkiTensor) -> Array:
    """Return the Scalar Engine's accumulators for the partitions of `data`. They are NaN before the first reset."""
    register = core.registers.get("scalar")
    if register is None:
        register = core.registers["scalar"] = np.full(PARTITIONS, np.nan, np.float32)
    first = data.access.row
    lanes: Array = register[first : first + data.shape[0]]
    return lanes


def _accumulate(lanes: Array, result: Array, command: reduce_cmd) -> None:
    if command in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        lanes[:] = 0
    if command in (reduce_cmd.reduce, reduce_cmd.reset_reduce):
        lanes += result.reshape(len(lanes), -1).sum(axis=1)
