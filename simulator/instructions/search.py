"""Searches on the GpSimd Engine for the largest values, nonzero values, and runs of equal adjacent values."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ..machine.dtypes import Array
from ..machine.errors import NkiValidationError
from ..machine.instruction import Instruction, engine
from ..machine.memory import SBUF
from ..tensors.tensor import NkiTensor
from .checks import shaped
from .core import active
from .declaration import declared, instruction
from .gather import CORE_PARTITIONS
from .operands import Call, Integer, Unchecked
from .tensor_operands import Tile


def _enough_elements(call: Call) -> None:
    """n must not exceed the number of elements in a group of 16 partitions of src, and val_dst must have at most n
    elements per partition."""
    src, n, count = call.src, call.n, call.val_dst.free_size
    most = CORE_PARTITIONS * src.free_size
    if n > most:
        raise NkiValidationError(f"topk: n must be at most the {most} elements of a group of src {src.label}, got {n}")
    if count > n:
        raise call.refuse("val_dst", call.val_dst, f"must have 1 to {n} elements, got {count}")


@declared(engine.gpsimd, cost=("topk", "n", "val_dst"), rules=(_enough_elements,))
def topk(
    val_dst: Annotated[
        NkiTensor,
        Tile(written=True, buffers=(SBUF,), dtypes=("bfloat16",), partitions_of="src", elements=(1, (1 << 15) - 1)),
    ],
    idx_dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,), dtypes=("uint32",), size_of="val_dst")],
    src: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=("bfloat16",), partitions=CORE_PARTITIONS)],
    n: Annotated[int, Integer(8, (1 << 16) - 1)],
    sorted: Annotated[bool, Unchecked()] = False,
    name: str | None = None,
) -> Instruction:
    """Find the largest of the first n elements of each group of 16 partitions, and their positions.

    The elements of a group are in snake layout: element e is in partition e % 16 and column e // 16 of the group. The
    number of results is the number of columns of val_dst; result j is in partition j % 16 and column j // 16
    (nki.isa.topk of SDK 2.33). Columns after the last result are not written. The rest of the last result's column is
    uninitialised.

    If `sorted`, the results are in ascending order of value. Otherwise, their order is not documented. The simulator
    uses the order of the elements, which exposes kernels that rely on a different order. If elements are equal, the
    first ones are selected.
    """
    core = active("topk")
    unit, cost, _, _ = core.settle("topk", val_dst, idx_dst, src, n)
    count = val_dst.free_size
    columns = -(-count // CORE_PARTITIONS)
    written = (val_dst, idx_dst)
    if val_dst.ndim == idx_dst.ndim == 2:
        written = (val_dst[:, :columns], idx_dst[:, :columns])
    instruction = core.issue("topk", unit, written, (src,), cost, name)

    if core.functional:
        groups = src.values.reshape(src.shape[0] // CORE_PARTITIONS, CORE_PARTITIONS, -1)
        snakes = groups.transpose(0, 2, 1).reshape(len(groups), -1)[:, :n]
        largest = np.argsort(-snakes, axis=1, kind="stable")[:, :count]
        largest = largest[:, ::-1] if sorted else np.sort(largest, axis=1)
        _write_snake(val_dst, np.take_along_axis(snakes, largest, axis=1), columns)
        _write_snake(idx_dst, largest, columns)
    return instruction


def _write_snake(dst: NkiTensor, results: Array, columns: int) -> None:
    """Write results [groups, results] along the partitions of each group, column by column, keeping other columns."""
    snake = np.full((len(results), columns * CORE_PARTITIONS), dst._dtype.fill, dst._dtype.held)
    snake[:, : results.shape[1]] = results
    values = dst.values.reshape(dst.shape[0], -1).copy()
    values[:, :columns] = snake.reshape(len(results), columns, CORE_PARTITIONS).transpose(0, 2, 1).reshape(-1, columns)
    dst.write(shaped(values, dst.shape))


def _one_more(call: Call) -> None:
    """dst must have one element more per partition than src."""
    count = call.src.free_size + 1
    if call.dst.free_size != count:
        why = f"must have {count} elements in a partition, one more than src {call.src.label}"
        raise call.refuse("dst", call.dst, why)


@instruction(engine.gpsimd, cost=("one_pass", "unit", "src"), generation=3, rules=(_one_more,))
def nonzero_with_count(
    dst: Annotated[NkiTensor, Tile(written=True, kept=True, buffers=(SBUF,), dtypes=("int32",), partitions_of="src")],
    src: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=("float32", "int32"))],
    index_offset: Annotated[int, Integer()] = 0,
    padding_val: Annotated[int, Integer()] = -1,
    name: str | None = None,
) -> None:
    """Write the positions of the nonzero elements of src (+ index_offset) to dst, followed by padding_val and, as the
    last element, their number.

    Only partitions 0, 16, ..., 112 are processed. The instruction requires NeuronCore-v3 or newer. Its time is not
    published; it is modelled as one pass over src.
    """
    values = src.values.reshape(src.shape[0], -1)
    result = dst.values.reshape(dst.shape[0], -1).copy()
    for partition in range(0, src.shape[0], CORE_PARTITIONS):
        positions = np.flatnonzero(values[partition])
        result[partition] = padding_val
        result[partition, : positions.size] = positions + index_offset
        result[partition, -1] = positions.size
    dst.write(shaped(result, dst.shape))


def _bounds_fit(call: Call) -> None:
    """segment_ids must be in a single partition, and dst must have shape [1, 2, number of segment_ids]."""
    ids, dst = call.segment_ids, call.dst
    if ids.shape[0] != 1 or dst.shape != (1, 2, ids.free_size):
        raise NkiValidationError(
            f"sequence_bounds: segment_ids {ids.label} must be in 1 partition and dst {dst.label} of shape "
            f"[1, 2, {ids.free_size}]"
        )


@instruction(engine.gpsimd, cost=("one_pass", "unit", "segment_ids"), rules=(_bounds_fit,))
def sequence_bounds(
    dst: Annotated[NkiTensor, Tile(written=True, buffers=(SBUF,), dtypes=("float32", "int32"))],
    segment_ids: Annotated[NkiTensor, Tile(buffers=(SBUF,), dtypes=("float32", "int32"))],
    name: str | None = None,
) -> None:
    """Compute the start dst[0, 0, i] and the end dst[0, 1, i] (exclusive) of the run of equal ids that contains element
    i, or the number of elements and -1 if the id is 0.

    The time of this instruction is not published; it is modelled as one pass over the ids.
    """
    dst.write(_bounds(segment_ids.values.reshape(-1))[None])


def _bounds(ids: Array) -> Array:
    """Return the start and end of the run that contains each element, [2, n]."""
    count = ids.size
    starts = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1]])
    ends = np.r_[starts[1:], count]
    lengths = ends - starts
    bounds = np.stack([np.repeat(starts, lengths), np.repeat(ends, lengths)])
    return np.where(ids == 0, [[count], [-1]], bounds)
