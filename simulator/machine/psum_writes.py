"""Track the last writers of the elements of a PSUM tensor, which determine whether a matmul overwrites or accumulates.

A write is recorded as the rectangle and strides of its view. Individual elements are examined only if views overlap
without being equal.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from .dtypes import Array

_BY_OTHER, _BY_MATMUL = 1, 2  # marks of bytes; 0 means not written

Key = tuple[int, int, int, int, tuple[int, ...], tuple[int, ...]]  # rectangle, strides, (*shape, item size)


class LastWriter(Enum):
    """The kinds of instructions that last wrote the elements of a view."""

    nothing = "no element was written"
    other = "no element by a matmul, some by another instruction"
    matmul = "all elements by a matmul"
    mixed = "some elements by a matmul"


_MATMUL, _OTHER = LastWriter.matmul, LastWriter.other  # constants, because looking up an Enum member is slow


class _Write:
    __slots__ = ("by_matmul", "intact")

    def __init__(self, by_matmul: bool) -> None:
        self.by_matmul = by_matmul
        self.intact = True  # False once a later write overlaps it without being equal


class PsumWrites:
    """The sequence of writes to one tensor, or to all tensors of an arena."""

    __slots__ = ("_writes",)

    def __init__(self) -> None:
        self._writes: dict[Key, _Write] = {}

    def note(self, view: Any, by_matmul: bool) -> None:
        """Record a write to all of `view`."""
        key = _key(view)
        known = self._writes.get(key)
        if known is not None and known.intact and known.by_matmul == by_matmul:
            return
        if self._writes:
            self._writes.pop(key, None)
            if by_matmul and self._within(key):
                return
            self._overwrite(key)
        self._writes[key] = _Write(by_matmul)

    def _overwrite(self, key: Key) -> None:
        """Discard the writes that a new write covers, and mark the writes that it overlaps."""
        for other in [k for k in self._writes if _overlap(k, key)]:
            if _covers(key, other):
                del self._writes[other]
            else:
                self._writes[other].intact = False

    def _within(self, key: Key) -> bool:
        """Return True if all overlapping writes were by matmuls and one of them covers the view, so that the record
        does not change."""
        covered = False
        for other, write in self._writes.items():
            if _overlap(other, key):
                if not write.by_matmul:
                    return False
                covered = covered or _covers(other, key)
        return covered

    def of(self, view: Any) -> LastWriter:
        """Return the last writers of a view's elements."""
        key = _key(view)
        known = self._writes.get(key)
        if known is not None and known.intact:
            return _MATMUL if known.by_matmul else _OTHER
        overlapping = [(k, write.by_matmul) for k, write in self._writes.items() if _overlap(k, key)]
        if not overlapping:
            return LastWriter.nothing
        if len({by_matmul for _, by_matmul in overlapping}) == 1 and any(_covers(k, key) for k, _ in overlapping):
            # for example, the taps of a convolution, which all lie within the rectangle of the first tap
            return _MATMUL if overlapping[0][1] else _OTHER
        marks = self._marks(key)
        elements = marks == _BY_MATMUL
        if elements.all():
            return _MATMUL
        if elements.any():
            return LastWriter.mixed
        return _OTHER if marks.any() else LastWriter.nothing

    def by_matmul(self, view: Any) -> Array:
        """Return a mask, with the same shape as the view, of the elements last written by a matmul."""
        result: Array = self._marks(_key(view)) == _BY_MATMUL
        return result

    def _marks(self, key: Key) -> Array:
        """Return the kind of the last write to each element of a view, as marks with the same shape as the view."""
        row, row_end, byte, byte_end = key[:4]
        writes = [(k, w) for k, w in self._writes.items() if _overlap(k, key)]
        low = min([byte, *[k[2] for k, _ in writes]])
        width = max([byte_end, *[k[3] for k, _ in writes]]) - low
        top = min([row, *[k[0] for k, _ in writes]])
        marks = np.zeros((max([row_end, *[k[1] for k, _ in writes]]) - top, width), np.uint8)
        for k, write in writes:
            _elements(marks, k, top, low)[...] = _BY_MATMUL if write.by_matmul else _BY_OTHER
        return _elements(marks, key, top, low)[..., 0]


def _key(view: Any) -> Key:
    key: Key = view.access[1:5] + view.form.pattern
    return key


def _overlap(a: Key, b: Key) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _covers(outer: Key, inner: Key) -> bool:
    """Return True if the view `outer` is dense and its rectangle contains the rectangle of `inner`."""
    size = 1
    for extent in outer[5][1:]:
        size *= extent
    return (
        size == outer[3] - outer[2]
        and outer[0] <= inner[0]
        and inner[1] <= outer[1]
        and outer[2] <= inner[2]
        and inner[3] <= outer[3]
    )


def _elements(marks: Array, key: Key, top: int, low: int) -> Array:
    """Return the marks of the bytes of a view, with shape [*shape, itemsize]."""
    *shape, size = key[5]
    strides = [marks.shape[1], *[stride * size for stride in key[4][1:]], 1]
    offset = (key[0] - top) * marks.shape[1] + key[2] - low
    return np.ndarray((*shape, size), np.uint8, marks, offset, tuple(strides))
