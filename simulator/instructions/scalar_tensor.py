"""Combine a tile with a scalar and a second tile on the Vector Engine.

Since NKI 0.7, the result can also be reduced.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..tensors.tensor import NkiTensor
from .accumulate import REDUCERS, VECTOR_LANES, Reduction, accumulate, reduces, result, watch_idle
from .checks import float_values, shaped
from .core import active
from .declaration import declared
from .operands import Call, Member, Operator, Scalar, Unchecked
from .operators import AluOperator
from .scalar_engine import reduce_cmd
from .tensor_operands import LikeDst, Output
from .tensor_scalar import apply

_IDLE = reduce_cmd.idle  # alias, because `reduce_cmd` is also a parameter of the function


def _reduces_with_operator(call: Call) -> None:
    """reduce_res requires a reduce_op, and a reduce_cmd that reduces."""
    if call.reduce_res is not None and call.reduce_op is None:
        allowed = ", ".join(f"nl.{name}" for name in REDUCERS)
        raise NkiValidationError(f"scalar_tensor_tensor: reduce_res needs reduce_op; allowed: {allowed}")
    reduces(call)


@declared(
    engine.vector,
    cost=("tensor_tensor_and_read", "dst", "data", "operand1", "reduce_res"),
    together=("data", "operand1"),
    rules=(_reduces_with_operator,),
)
def scalar_tensor_tensor(
    dst: Output,
    data: LikeDst,
    op0: Annotated[Any, Operator(arithmetic=True)],
    operand0: Annotated[Any, Scalar(operator="op0", dtypes=())],
    op1: Annotated[Any, Operator(binary=True, arithmetic=True)],
    operand1: LikeDst,
    reverse0: Annotated[bool, Unchecked()] = False,
    reverse1: Annotated[bool, Unchecked()] = False,
    reduce_cmd: Annotated[
        reduce_cmd, Member(reduce_cmd, (reduce_cmd.idle, reduce_cmd.reduce, reduce_cmd.reset_reduce))
    ] = reduce_cmd.reset_reduce,
    reduce_op: Annotated[Any, Operator(REDUCERS, optional=True)] = ...,
    reduce_res: Annotated[NkiTensor | None, result("data")] = None,
    name: str | None = None,
) -> Instruction:
    """Compute dst = (data <op0> operand0) <op1> operand1, where operand1 is a tile of the same size as data.

    If `reduce_op` is specified, dst is reduced over its free axes into the accumulators of the Vector Engine, which are
    then written to reduce_res. Otherwise, the accumulators are unchanged (the page of SDK 2.33 does not specify the
    default).
    """
    core = active("scalar_tensor_tensor")
    reduce_op = None if reduce_op is ... else reduce_op
    operands = dst, data, op0, operand0, op1, operand1, reduce_cmd, reduce_op, reduce_res
    _, cost, _, (first, second, command, reducer) = core.settle("scalar_tensor_tensor", *operands)
    scalar = 0 if first.unary else operand0
    reads = (data, operand1, scalar) if isinstance(scalar, NkiTensor) else (data, operand1)
    writes = (dst,) if reduce_res is None else (dst, reduce_res)
    instruction = core.issue("scalar_tensor_tensor", engine.vector, writes, reads, cost, name, flops=2 * dst.size)

    if reducer is None:
        core.perform(_scale_and_combine, dst, data, (first, scalar, reverse0), second, operand1, reverse1)
        return instruction
    core.share(VECTOR_LANES, instruction)
    watch_idle(core, "scalar_tensor_tensor", (command,))
    if core.functional:
        with np.errstate(all="ignore"):
            scaled = shaped(apply(first, float_values(data), scalar, reverse0, len(data.shape)), dst.shape)
            values = second.compute(*_in_order(scaled, shaped(float_values(operand1), dst.shape), reverse1))
            dst.write(values)
            if command is not _IDLE:
                accumulate(dst, values, Reduction(reducer, command), reduce_res)
    return instruction


def _in_order(values: Array, other: Array, reverse: bool) -> tuple[Array, Array]:
    return (other, values) if reverse else (values, other)


def _scale_and_combine(
    dst: NkiTensor,
    data: NkiTensor,
    scale: tuple[AluOperator, Any, bool],
    operator: AluOperator,
    tensor: NkiTensor,
    reverse: bool,
) -> None:
    """Compute the values of scalar_tensor_tensor."""
    first, scalar, reverse0 = scale
    values = shaped(apply(first, float_values(data), scalar, reverse0, len(data.shape)), dst.shape)
    dst.compute(operator.compute, *_in_order(values, shaped(float_values(tensor), dst.shape), reverse))
