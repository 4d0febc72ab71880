"""Mean and variance of each partition (Vector Engine), and reductions across partitions (GpSimd Engine)."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from ..machine.chip import BN_STATS_COLUMNS
from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from .checks import float_values, shaped
from .declaration import instruction
from .operands import Call, NamedFunction
from .operators import ALU
from .tensor_operands import Tile

_ACROSS = ("add", "average", "maximum", "bitwise_or", "bitwise_and", "bitwise_xor")


@instruction(engine.vector, cost=("one_pass", "unit", "data"), flops=(4, "data"))
def bn_stats(
    dst: Annotated[NkiTensor, Tile(written=True, partitions_of="data", elements=(6, 6))],
    data: Annotated[NkiTensor, Tile(elements=(1, BN_STATS_COLUMNS))],
    name: str | None = None,
) -> None:
    """Write count, mean and count * variance of the even elements of data, followed by those of the odd elements, to
    dst[:, 0:6]."""
    values = float_values(data).reshape(data.shape[0], -1)
    result = np.zeros((data.shape[0], 6), np.float32)
    for first in (0, 1):
        part = values[:, first::2]
        if part.shape[1]:
            mean = part.mean(axis=1, dtype=np.float32)
            square = np.square(part - mean[:, None]).sum(axis=1)
            result[:, 3 * first : 3 * first + 3] = np.stack([np.full_like(mean, part.shape[1]), mean, square], 1)
    dst.write(shaped(result, dst.shape))


def _triples(call: Call) -> None:
    """The number of elements per partition of data must be a multiple of 3."""
    if call.data.free_size % 3:
        why = f"must have a multiple of 3 elements in a partition, has {call.data.free_size}"
        raise call.refuse("data", call.data, why)


@instruction(engine.vector, cost=("bn_aggr", "data"), rules=(_triples,), flops=(4, "data"))
def bn_aggr(
    dst: Annotated[NkiTensor, Tile(written=True, partitions_of="data", elements=(2, 2), dimensions=3)],
    data: Annotated[NkiTensor, Tile()],
    name: str | None = None,
) -> None:
    """Combine the triples (count, mean, count * variance) in data into a mean and a variance, and write them to
    dst[:, 0:2]."""
    triples = float_values(data).reshape(data.shape[0], -1, 3)
    count, mean, squares = triples[..., 0], triples[..., 1], triples[..., 2]
    total = count.sum(axis=1)
    average = (count * mean).sum(axis=1) / total
    between = count * np.square(mean - average[:, None])
    variance = (squares + between).sum(axis=1) / total
    dst.write(shaped(np.stack([average, variance], axis=1), dst.shape))


def _one_partition(call: Call) -> None:
    """dst must be a single partition with the same number of elements as a partition of data. Bit operators require
    integers."""
    dst, data = call.dst, call.data
    if dst.shape[0] != 1 or dst.free_size != data.free_size:
        raise call.refuse("dst", dst, f"must be 1 partition of {data.free_size} element(s), like data {data.label}")
    if call.op.startswith("bitwise") and not (dst._dtype.is_integer and data._dtype.is_integer):
        raise NkiValidationError(
            f"tensor_partition_reduce: nl.{call.op} requires integers, got {data.label}, {dst.label}"
        )


@instruction(engine.gpsimd, cost=("one_pass", "unit", "data"), rules=(_one_partition,), flops=(1, "data"))
def tensor_partition_reduce(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,))],
    op: Annotated[Any, NamedFunction(_ACROSS)],
    data: Annotated[NkiTensor, Tile(buffers=(SBUF,))],
    name: str | None = None,
) -> None:
    """Reduce data over its partitions with add, average, maximum or a bitwise operator, and write the result to dst[0].

    The time of this instruction is not published; it is modelled as one pass over the data.
    """
    values: Array = data.values if op.startswith("bitwise") else float_values(data)
    reduce = ALU["add" if op == "average" else op].reduction
    assert reduce is not None
    result = reduce(values, axis=(0,))
    if op == "average":
        result = result / np.float32(data.shape[0])
    dst.write(shaped(result, dst.shape))
