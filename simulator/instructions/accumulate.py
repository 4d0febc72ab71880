"""The Vector Engine's accumulators, one float32 a partition, and the instructions that reduce into them.

The accumulators are shared by all of these instructions and keep their values from one to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import (
    active_since,
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
from ..instruction import Instruction, engine
from ..operators import AluOperator, alu_operator
from ..tensor import NkiTensor
from .scalar_engine import reduce_cmd
from .tensor_scalar import apply, operand_of

_STATE = "vector accumulators"
_IDENTITY = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
_IDLE, _REDUCE, _RESET, _LOAD = reduce_cmd.idle, reduce_cmd.reduce, reduce_cmd.reset_reduce, reduce_cmd.load_reduce
_FLOATS = ("float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32")
_EXPONENTIAL_TYPES = (*_FLOATS, "int8", "int16", "int32", "uint8", "uint16")


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: Any,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> Instruction:
    """dst = data <op0> operand0; reduce_res = dst reduced over its free axes by `reduce_op`."""
    core = active("tensor_scalar_reduce")
    destination("tensor_scalar_reduce", dst)
    tile("tensor_scalar_reduce", "data", data)
    same_size("tensor_scalar_reduce", dst, "data", data)
    operator = alu_operator(op0, "tensor_scalar_reduce", "op0")
    if operator.bits:
        raise NkiValidationError(f"tensor_scalar_reduce: op0=nl.{operator.name} must be arithmetic, not a bit operator")
    if reverse0:
        raise NkiValidationError("tensor_scalar_reduce: reverse0 is not supported by the hardware's API yet")
    scalar = operand_of("tensor_scalar_reduce", "operand0", operator, operand0, data)
    reducer = reduction("tensor_scalar_reduce", reduce_op, ("add", "multiply", "maximum", "minimum"))
    reduce_cmd = check_command("tensor_scalar_reduce", reduce_cmd, (_RESET, _REDUCE, _LOAD), reduce_res, data)
    init = initial("tensor_scalar_reduce", "reduce_init", reduce_cmd, reduce_init, data)
    reads = (data, *[operand for operand in (scalar, init) if isinstance(operand, NkiTensor)])
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    cost = core.costs.reduce_and_read(data, reads=True)
    instruction = core.issue("tensor_scalar_reduce", engine.vector, writes, reads, cost, name, 2 * dst.size)
    core.share(_STATE, instruction)

    if core.functional:
        with np.errstate(all="ignore"):
            values = apply(operator, float_values(data), scalar, False, len(data.shape))
            dst.write(shaped(values, dst.shape))
            accumulate(core, data, values, reducer, reduce_cmd, init, reduce_res, reduce_res_negate)
    return instruction


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Any = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> Instruction:
    """dst = exp(src - max_value); its sum over the free axes can go to the accumulators. NeuronCore-v4 and newer."""
    core = active_since("exponential", 4)
    destination("exponential", dst)
    tile("exponential", "src", src)
    same_size("exponential", dst, "src", src)
    if dst.dtype not in _EXPONENTIAL_TYPES:
        raise NkiValidationError(f"exponential: dst {dst.label} must be one of {', '.join(_EXPONENTIAL_TYPES)}")
    if src.dtype not in (*_EXPONENTIAL_TYPES, "uint32") or src.dtype == "tfloat32":
        raise NkiValidationError(f"exponential: src {src.label} has a dtype that it does not take")
    largest = scalar_operand("exponential", "max_value", max_value, src)
    reduce_cmd = check_command("exponential", reduce_cmd, (_IDLE, _RESET, _REDUCE, _LOAD), reduce_res, src)
    if reduce_res is not None and reduce_res.dtype not in _FLOATS:
        raise NkiValidationError(f"exponential: reduce_res {reduce_res.label} must be one of {', '.join(_FLOATS)}")
    unset = not isinstance(reduce_init, NkiTensor) and reduce_init == 0
    given = None if unset and reduce_cmd is not _LOAD else reduce_init
    init = initial("exponential", "reduce_init", reduce_cmd, given, src)
    reads = (src, *[operand for operand in (largest, init) if isinstance(operand, NkiTensor)])
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    cost = core.costs.exponential(src, reads=reduce_res is not None)
    instruction = core.issue("exponential", engine.vector, writes, reads, cost, name, 2 * dst.size)
    core.share(_STATE, instruction)

    if core.functional:
        with np.errstate(all="ignore"):
            values = np.exp(float_values(src) - broadcast_value(largest, len(src.shape)))
        dst.write(shaped(values, dst.shape))
        if reduce_cmd is not _IDLE:
            adds = reduction("exponential", np.add, ("add",))
            accumulate(core, src, values, adds, reduce_cmd, init, reduce_res)
    return instruction


def reduction(op: str, given: Any, allowed: tuple[str, ...]) -> AluOperator:
    """The operator that the accumulators combine values by."""
    operator = alu_operator(given, op, "reduce_op")
    if operator.name not in allowed:
        names = ", ".join("nl." + name for name in allowed)
        raise NkiValidationError(f"{op}: reduce_op=nl.{operator.name} is not allowed; allowed: {names}")
    return operator


def check_command(
    op: str, command: reduce_cmd, allowed: tuple[reduce_cmd, ...], result: NkiTensor | None, data: NkiTensor
) -> reduce_cmd:
    """The reduce_cmd, once its rules and those of the tile that takes the accumulators are met."""
    command = member(op, "reduce_cmd", reduce_cmd, command)
    if command not in allowed:
        names = ", ".join(c.name for c in allowed)
        raise NkiValidationError(f"{op}: reduce_cmd {getattr(command, 'name', command)}; allowed: {names}")
    if result is not None:
        if command is _IDLE:
            raise NkiValidationError(f"{op}: reduce_res needs a reduce_cmd that reduces, came idle")
        tile(op, "reduce_res", result)
        same_partitions(op, result, "data", data)
        if result.free_size != 1:
            raise NkiValidationError(f"{op}: reduce_res {result.label} must have one element in a partition")
    if op != "activate2":  # which has the Scalar Engine's: idle leaves these alone
        _watch_idle(active(op), op, command)
    return command


def _watch_idle(core: NeuronCore, op: str, command: reduce_cmd) -> None:
    """Instructions with idle may change the accumulators all the same (nki/api/nki/isa/__init__.py, `exponential`)."""
    if command is _IDLE:
        core.idled = op
    elif command is not _REDUCE:
        core.idled = ""
    elif core.idled:
        core.warn(
            f"{op}: reduce_cmd reduce goes on with accumulators that {core.idled} with reduce_cmd idle may have "
            "changed; begin with reset_reduce"
        )


def initial(op: str, operand: str, command: reduce_cmd, value: Any, data: NkiTensor) -> Any:
    """What load_reduce loads; nothing else may have it."""
    if command is not _LOAD:
        if value is not None:
            raise NkiValidationError(f"{op}: {operand} goes with reduce_cmd load_reduce only, came {command.name}")
        return None
    if value is None:
        raise NkiValidationError(f"{op}: reduce_cmd load_reduce needs {operand}")
    return scalar_operand(op, operand, value, data)


def start(lanes: Array, operator: AluOperator, command: reduce_cmd, init: Any) -> Array:
    """What the accumulators hold before the instruction's first element."""
    if command is _RESET:
        return np.full(lanes.shape, _IDENTITY[operator.name], np.float32)
    if command is _LOAD:
        return np.array(np.broadcast_to(broadcast_value(init, 1), lanes.shape), np.float32)
    return lanes.copy()


def accumulate(
    core: NeuronCore,
    data: NkiTensor,
    values: Array,
    operator: AluOperator,
    command: reduce_cmd,
    init: Any,
    result: NkiTensor | None,
    negate: bool = False,
) -> None:
    """Reduce values [partitions, ...] into the accumulators of the partitions that `data` is in, and write these to
    `result`."""
    assert operator.reduction is not None
    lanes = vector_accumulators(core, data)
    state = start(lanes, operator, command, init)
    lanes[:] = operator.compute(state, operator.reduction(values.reshape(len(lanes), -1), axis=(1,)))
    if result is not None:
        result.write(shaped(-lanes if negate else lanes, result.shape))


def vector_accumulators(core: NeuronCore, data: NkiTensor) -> Array:
    """The Vector Engine's accumulators of the partitions that `data` is in; NaN before the first reset."""
    found = core.registers.get(_STATE)
    if found is None:
        found = core.registers[_STATE] = np.full(PARTITIONS, np.nan, np.float32)
    first = data.access.row
    lanes: Array = found[first : first + data.shape[0]]
    return lanes
