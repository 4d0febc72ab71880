"""Instructions whose destination overlaps a source, so that they may write elements before reading them.

Engines stream: an element passes through the pipeline while others are still read, and AWS documents no order of an
instruction's reads and writes (only that `nc_stream_shuffle` may work in place). Writing each element onto itself is
safe, and so is writing elements that have been read; the rest is undefined, although the simulator computes it as if
all elements were read first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..machine.dtypes import Array

STREAMED = frozenset(
    {
        *("tensor_copy", "tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "tensor_tensor_scan"),
        *("tensor_reduce", "tensor_scalar_reduce", "reciprocal", "exponential"),
        *("activation", "activation_reduce", "activate2"),
    }
)  # process elements one after another, in the order of the pattern
MOVED = frozenset({"dma_copy"})  # moved in pieces, by several queues

Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]  # first byte, extents, strides in elements, item size


def clobbers(op: str, written: Any, read: Any) -> bool:
    """True if `op` may write an element of `read` before reading it. Both are views of one storage."""
    if written.offset == read.offset and written.strides == read.strides and written.shape == read.shape:
        return False
    if not written.access.overlaps(read.access) or written.is_indirect() or read.is_indirect():
        return False
    if op in STREAMED:
        return written.access.row == read.access.row and _overtakes(_pattern(written), _pattern(read))
    return op in MOVED


def _pattern(view: Any) -> Pattern:
    return view.access.byte, view.shape[1:], view.strides[1:], view._dtype.itemsize


@lru_cache(maxsize=4096)
def _overtakes(written: Pattern, read: Pattern) -> bool:
    """True if a stream writes a byte before reading it. With several inputs per output, as in a reduction, the last of
    them is read before the output is written; a single input (a scalar of the partition) is read before the first
    output."""
    outputs, inputs = _bytes(written), _bytes(read)
    if len(inputs) == 1 or len(inputs) < len(outputs):
        return False
    first = min(outputs.min(), inputs.min())
    # the position at which each byte is written
    turn = np.full(int(max(outputs.max(), inputs.max()) - first) + 1, len(inputs))
    turns = (np.arange(len(outputs)) + 1) * len(inputs) // len(outputs) - 1
    for column in range(outputs.shape[1]):
        np.minimum.at(turn, outputs[:, column] - first, turns)
    return bool((turn[inputs - first] < np.arange(len(inputs))[:, None]).any())


def _bytes(pattern: Pattern) -> Array:
    """Return the bytes of each element of a partition, [elements, bytes of one], in the order of the pattern."""
    start, extents, strides, size = pattern
    places = np.zeros(1, np.int64)
    for extent, stride in zip(extents, strides):
        places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
    found: Array = start + places[:, None] * size + np.arange(size)
    return found
