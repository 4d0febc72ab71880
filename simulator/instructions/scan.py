"""Vector Engine: running results along the free axes, each element from the one before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import broadcast_value, float_values, read_together, same_size, scalar_operand, shaped, tile
from ..core import active
from ..dtypes import Array
from ..errors import NkiValidationError
from ..instruction import Instruction, engine
from ..operators import AluOperator, alu_operator
from ..tensor import NkiTensor
from .accumulate import _STATE, check_command, initial, reduction, start, vector_accumulators
from .scalar_engine import reduce_cmd
from .tensor_scalar import apply, operand_of
from .vector_engine import binary

_NOT_CUMULATIVE = ("int32", "uint32", "tfloat32")


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Any,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> Instruction:
    """dst[i] = (data0[i] <op0> dst[i - 1]) <op1> data1[i], starting from `initial`, in float32."""
    core = active("tensor_tensor_scan")
    for operand, tensor in (("dst", dst), ("data0", data0), ("data1", data1)):
        tile("tensor_tensor_scan", operand, tensor)
        same_size("tensor_tensor_scan", dst, operand, tensor)
    read_together("tensor_tensor_scan", "data0", data0, "data1", data1)
    first = _arithmetic("tensor_tensor_scan", "op0", op0)
    second = _arithmetic("tensor_tensor_scan", "op1", op1)
    begin = scalar_operand("tensor_tensor_scan", "initial", initial, data0, float32=False)
    reads = (data0, data1, begin) if isinstance(begin, NkiTensor) else (data0, data1)
    cost = core.costs.scan(dst)
    instruction = core.issue("tensor_tensor_scan", engine.vector, (dst,), reads, cost, name, 2 * dst.size)

    if core.functional:
        partitions = dst.shape[0]
        a, b = float_values(data0).reshape(partitions, -1), float_values(data1).reshape(partitions, -1)
        state: Array = np.broadcast_to(broadcast_value(begin, 1), partitions).astype(np.float32)
        result = np.empty(a.shape, np.float32)
        with np.errstate(all="ignore"):
            for i in range(a.shape[1]):
                state = first.compute(state, a[:, i]) if reverse0 else first.compute(a[:, i], state)
                state = second.compute(b[:, i], state) if reverse1 else second.compute(state, b[:, i])
                result[:, i] = state
        dst.write(shaped(result, dst.shape))
    return instruction


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> Instruction:
    """dst[i] = (src[i] <op0> imm0) <op1> dst[i - 1], from and into the accumulators."""
    core = active("tensor_scalar_cumulative")
    for operand, tensor in (("dst", dst), ("src", src)):
        tile("tensor_scalar_cumulative", operand, tensor)
        if tensor.dtype in _NOT_CUMULATIVE:
            raise NkiValidationError(
                f"tensor_scalar_cumulative: {operand} {tensor.label} cannot be int32, uint32 or tfloat32"
            )
    same_size("tensor_scalar_cumulative", dst, "src", src)
    first = alu_operator(op0, "tensor_scalar_cumulative", "op0")
    if first.bits:
        raise NkiValidationError(
            f"tensor_scalar_cumulative: op0=nl.{first.name} must be arithmetic, not a bit operator"
        )
    scalar = operand_of("tensor_scalar_cumulative", "imm0", first, imm0, src)
    second = reduction("tensor_scalar_cumulative", op1, ("add", "subtract", "multiply", "maximum", "minimum"))
    reduce_cmd = check_command("tensor_scalar_cumulative", reduce_cmd, _COMMANDS, None, src)
    init = initial("tensor_scalar_cumulative", "imm1", reduce_cmd, imm1, src)
    reads = (src, *[operand for operand in (scalar, init) if isinstance(operand, NkiTensor)])
    cost = core.costs.scan(dst)
    instruction = core.issue("tensor_scalar_cumulative", engine.vector, (dst,), reads, cost, name, 2 * dst.size)
    core.share(_STATE, instruction)

    if core.functional:
        partitions = dst.shape[0]
        with np.errstate(all="ignore"):
            values = apply(first, float_values(src), scalar, False, len(src.shape)).reshape(partitions, -1)
            lanes = vector_accumulators(core, src)
            state = start(lanes, second, reduce_cmd, init)
            result = np.empty(values.shape, np.float32)
            for i in range(values.shape[1]):
                state = second.compute(values[:, i], state)
                result[:, i] = state
        lanes[:] = state
        dst.write(shaped(result, dst.shape))
    return instruction


_COMMANDS = (reduce_cmd.reset_reduce, reduce_cmd.reduce, reduce_cmd.load_reduce)


def _arithmetic(op: str, operand: str, given: Any) -> AluOperator:
    operator = binary(op, given, operand)
    if operator.bits:
        raise NkiValidationError(f"{op}: {operand}=nl.{operator.name} must be arithmetic, not a bit operator")
    return operator
