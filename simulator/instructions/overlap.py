"""Detect instructions whose destination overlaps a source, so that they may write elements before reading them.

Engines process elements in a pipeline, so results are written while other elements are still being read. AWS does not
document the order of the reads and writes of an instruction, only that `nc_stream_shuffle` may operate in place. An
overlap is safe if each element is written to its own location, or if only elements that were already read are
overwritten. All other cases are undefined, although the simulator computes them as if all elements were read first.
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
)  # instructions that process elements sequentially, in the order of the access pattern
MOVED = frozenset({"dma_copy"})  # instructions whose data is split among several queues

Pattern = tuple[int, tuple[int, ...], tuple[int, ...], int]  # first byte, extents, strides in elements, item size


def clobbers(op: str, written: Any, read: Any) -> bool:
    """Return True if `op` may write an element of `read` before reading it. Both are views of the same storage."""
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
    """Return True if an instruction that streams elements writes a byte before reading it.

    If there are several inputs per output, as in a reduction, all of them are read before the output is written. An
    input with a single element per partition is read before the first output is written.
    """
    outputs, inputs = _bytes(written), _bytes(read)
    if len(inputs) == 1 or len(inputs) < len(outputs):
        return False
    first = min(outputs.min(), inputs.min())
    # the position in the stream at which each byte is written
    turn = np.full(int(max(outputs.max(), inputs.max()) - first) + 1, len(inputs))
    turns = (np.arange(len(outputs)) + 1) * len(inputs) // len(outputs) - 1
    for column in range(outputs.shape[1]):
        np.minimum.at(turn, outputs[:, column] - first, turns)
    return bool((turn[inputs - first] < np.arange(len(inputs))[:, None]).any())


def _bytes(pattern: Pattern) -> Array:
    """Return the byte addresses of the elements of a partition, [elements, item size], in the order of the pattern."""
    start, extents, strides, size = pattern
    places = np.zeros(1, np.int64)
    for extent, stride in zip(extents, strides):
        places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
    addresses: Array = start + places[:, None] * size + np.arange(size)
    return addresses
