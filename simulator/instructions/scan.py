"""Scans on the Vector Engine, which compute each element along the free axes from the previous one."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.dtypes import Array
from ..machine.instruction import engine
from ..tensors.tensor import NkiTensor
from .accumulate import ACCUMULATES, Initial, Reduction, vector_accumulators
from .checks import broadcast_value, float_values, shaped
from .declaration import instruction
from .operands import Member, Operator, Scalar, Unchecked
from .scalar_engine import reduce_cmd
from .tensor_operands import LikeDst, Output, Tile
from .tensor_scalar import apply

_NOT_CUMULATIVE = ("int32", "uint32", "tfloat32")


@instruction(engine.vector, cost=("scan", "dst"), together=("data0", "data1"), flops=(2, "dst"))
def tensor_tensor_scan(
    dst: Output,
    data0: LikeDst,
    data1: LikeDst,
    initial: Annotated[Any, Scalar("data0", dtypes=())],
    op0: Annotated[Any, Operator(binary=True, arithmetic=True)],
    op1: Annotated[Any, Operator(binary=True, arithmetic=True)],
    reverse0: Annotated[bool, Unchecked()] = False,
    reverse1: Annotated[bool, Unchecked()] = False,
    name: str | None = None,
) -> None:
    """Compute dst[i] = (data0[i] <op0> dst[i - 1]) <op1> data1[i] in float32, starting with `initial`."""
    partitions = dst.shape[0]
    a, b = float_values(data0).reshape(partitions, -1), float_values(data1).reshape(partitions, -1)
    state: Array = np.broadcast_to(broadcast_value(initial, 1), partitions).astype(np.float32)
    result = np.empty(a.shape, np.float32)
    for i in range(a.shape[1]):
        state = op0.compute(state, a[:, i]) if reverse0 else op0.compute(a[:, i], state)
        state = op1.compute(b[:, i], state) if reverse1 else op1.compute(state, b[:, i])
        result[:, i] = state
    dst.write(shaped(result, dst.shape))


@instruction(engine.vector, cost=("scan", "dst"), flops=(2, "dst"), **ACCUMULATES)
def tensor_scalar_cumulative(
    dst: Annotated[NkiTensor, Tile(written=True, refused=_NOT_CUMULATIVE)],
    src: Annotated[NkiTensor, Tile(size_of="dst", refused=_NOT_CUMULATIVE)],
    op0: Annotated[Any, Operator(arithmetic=True)],
    op1: Annotated[Any, Operator(("add", "subtract", "multiply", "maximum", "minimum"))],
    imm0: Annotated[Any, Scalar("src", operator="op0")],
    imm1: Annotated[Any, Initial("src")] = None,
    reduce_cmd: Annotated[
        reduce_cmd, Member(reduce_cmd, (reduce_cmd.reset_reduce, reduce_cmd.reduce, reduce_cmd.load_reduce))
    ] = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> None:
    """Compute dst[i] = (src[i] <op0> imm0) <op1> dst[i - 1], starting with the accumulators and updating them."""
    partitions = dst.shape[0]
    values = apply(op0, float_values(src), imm0, False, len(src.shape)).reshape(partitions, -1)
    lanes = vector_accumulators(src)
    state = Reduction(op1, reduce_cmd, imm1).start(lanes)
    result = np.empty(values.shape, np.float32)
    for i in range(values.shape[1]):
        state = op1.compute(values[:, i], state)
        result[:, i] = state
    lanes[:] = state
    dst.write(shaped(result, dst.shape))
