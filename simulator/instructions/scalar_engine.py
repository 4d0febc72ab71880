"""Scalar Engine: a function of every element, with scale and bias before it and a running sum after it."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from ..checks import (
    broadcast_value,
    destination,
    float_values,
    member,
    same_partitions,
    same_size,
    scalar_operand,
    shaped,
    tile,
)
from ..chip import PARTITIONS
from ..core import NeuronCore, active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Cost, Instruction, engine
from ..operators import ActivationFunction, activation_function, alu_operator
from ..tensor import NkiTensor


class reduce_cmd(Enum):  # noqa: N801 (name and values of nki.isa)
    """What an instruction does with its engine's accumulator registers, one float32 a partition."""

    idle = 0
    reset = 1
    reduce = 2
    reset_reduce = 3
    load_reduce = 4

    __hash__ = object.__hash__


_SCALAR = engine.scalar
_IDLE, _REDUCE = reduce_cmd.idle, reduce_cmd.reduce  # `activation` has a parameter of the class's name


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    name: str | None = None,
) -> Instruction:
    """dst = op(data * scale + bias) in float32; the sum of dst over the free axes can go to the accumulators."""
    core = active("activation")
    function = activation_function(op, "activation")
    command, cost = core.settle(
        _activation_rules, dst, function.name, function.table, data, bias, scale, reduce_op, reduce_res, reduce_cmd
    )
    vectors = tuple([operand for operand in (scale, bias) if isinstance(operand, NkiTensor)])
    instruction = issue_activation(
        core, "activation", cost, dst, (data, *vectors), 2 * dst.size, command, reduce_res, name
    )

    accumulates = command is not _IDLE or reduce_res is not None
    lanes = accumulators(core, data) if accumulates and core.functional else None
    core.perform(activate, dst, function, data, scale, bias, lanes, command)
    if reduce_res is not None:
        core.perform(_read_accumulators, reduce_res, lanes)
    return instruction


def _activation_rules(
    core: NeuronCore,
    dst: NkiTensor,
    function: str,
    table: str,
    data: NkiTensor,
    bias: Any,
    scale: Any,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    command: reduce_cmd,
) -> tuple[reduce_cmd, Cost]:
    """What happens to the accumulators, and the cost of the pass."""
    destination("activation", dst)
    tile("activation", "data", data)
    same_size("activation", dst, "data", data)
    scalar_operand("activation", "scale", scale, data)
    if bias is not None:
        scalar_operand("activation", "bias", bias, data, float32=False)
        _bias_rules(core, function, bias)
    command = _reduction("activation", reduce_op, command, reduce_res, data)
    return command, core.costs.activation(data, table)


def activate(
    dst: NkiTensor,
    function: ActivationFunction,
    data: NkiTensor,
    scale: Any,
    bias: Any,
    lanes: Array | None,
    command: reduce_cmd,
) -> None:
    """The values of `activation`; `lanes` are the accumulators, where it uses them."""
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


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> Instruction:
    """`activation` with its sum over the free axes in reduce_res."""
    return activation(dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd.reset_reduce, name)


def issue_activation(
    core: NeuronCore,
    op: str,
    cost: Cost,
    dst: NkiTensor,
    reads: tuple[NkiTensor, ...],
    flops: int,
    command: reduce_cmd,
    reduce_res: NkiTensor | None,
    name: str | None,
) -> Instruction:
    """Issue a pass over `reads[0]`, and the readout of the accumulators where there is a reduce_res."""
    instruction = core.issue(op, _SCALAR, (dst,), reads, cost, name, flops)
    _keep_accumulator_order(core, instruction, command)
    if reduce_res is not None:
        cost = core.costs.accumulator_read()
        read = core.issue("activation_read_accumulators", _SCALAR, (reduce_res,), (), cost)
        _keep_accumulator_order(core, read, _REDUCE)
    return instruction


def _bias_rules(core: NeuronCore, function: str, bias: Any) -> None:
    if core.target.generation == 2 and function == "reciprocal":  # nki.api.shared.rst, nki-engine-sel
        raise NkiValidationError("activation: bias cannot be given with op=nl.reciprocal on trn1")
    if isinstance(bias, NkiTensor):
        if bias.dtype == "tfloat32" or bias._dtype.kind == "packed":
            raise NkiValidationError(f"activation: bias {bias.label} must be of a dtype other than tfloat32")
    elif core.target.generation == 2:
        raise NkiValidationError(
            "activation: bias must be a vector of one element a partition on trn1 (a number is allowed from trn2 on)"
        )


def _reduction(op: str, reduce_op: Any, command: reduce_cmd, result: NkiTensor | None, data: NkiTensor) -> reduce_cmd:
    command = member(op, "reduce_cmd", reduce_cmd, command)
    if command is reduce_cmd.load_reduce:
        raise NkiValidationError(
            f"{op}: reduce_cmd load_reduce; allowed: nisa.reduce_cmd idle, reset, reduce, reset_reduce"
        )
    if reduce_op is not None:
        if alu_operator(reduce_op, op, "reduce_op").name != "add":
            raise NkiValidationError(f"{op}: reduce_op must be nl.add")
    elif command in (reduce_cmd.reduce, reduce_cmd.reset_reduce):
        raise NkiValidationError(f"{op}: reduce_cmd {command.name} needs reduce_op=nl.add")
    if result is not None:
        tile(op, "reduce_res", result)
        same_partitions(op, result, "data", data)
        if result.free_size != 1:
            raise NkiValidationError(f"{op}: reduce_res {result.label} must have one element in a partition")
    return command


def _keep_accumulator_order(core: NeuronCore, instruction: Instruction, command: reduce_cmd) -> None:
    """Instructions that use the accumulators follow each other as the kernel has them."""
    if command is not _IDLE:
        if core.last_accumulation is not None:
            instruction.depends_on(core.last_accumulation)
        core.last_accumulation = instruction


def accumulators(core: NeuronCore, data: NkiTensor) -> Array:
    """The Scalar Engine's accumulators of the partitions that `data` is in; NaN before the first reset."""
    found = core.registers.get("scalar")
    if found is None:
        found = core.registers["scalar"] = np.full(PARTITIONS, np.nan, np.float32)
    first = data.access.row
    lanes: Array = found[first : first + data.shape[0]]
    return lanes


def _accumulate(lanes: Array, result: Array, command: reduce_cmd) -> None:
    if command in (reduce_cmd.reset, reduce_cmd.reset_reduce):
        lanes[:] = 0
    if command in (reduce_cmd.reduce, reduce_cmd.reset_reduce):
        lanes += result.reshape(len(lanes), -1).sum(axis=1)
