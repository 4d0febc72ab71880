"""The elements of a tensor: where they lie in a memory, how they are read and written.

An element (i0, i1, ...) lies at `offset + sum(stride * i)` elements from the start of the storage. On chip, dimension 0
is the partition axis, its stride the number of elements in a partition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .dtypes import Array, DType, convert, lookup
from .instruction import Access
from .memory import MemoryRegion, Storage
from .objects import NKIObject
from .views import comb, is_row_major, row_major


class StridedMemory(NKIObject):
    """Elements of one dtype in a storage, at strides that a view chose; views of one storage share its memory."""

    __slots__ = ("_access", "_bits", "_dtype", "_source", "_values", "offset", "row", "shape", "storage", "strides")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: object,
        storage: Storage,
        buffer: object = None,
        name: str = "",
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> None:
        self.storage = storage
        self.shape = shape
        self._dtype = dtype if isinstance(dtype, DType) else lookup(dtype)
        self.strides = row_major(shape) if strides is None else strides
        self.offset = offset
        # Elements of this view's dtype in one partition (on chip) or in all (HBM).
        self.row = storage.row if self._dtype is storage.dtype else storage.row_bytes // self._dtype.itemsize
        self._values: Array | None = None  # this view of `_source`, the storage's array when it was made
        self._source: Array | None = None
        self._bits = False
        self._access: Access | None = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # What NKI exposes

    @property
    def dtype(self) -> str:
        return self._dtype.name

    @property
    def buffer(self) -> MemoryRegion:
        return self.storage.region

    @property
    def name(self) -> str:
        return self.storage.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_contiguous(self) -> bool:
        """Whether the view is dense and row-major; on chip, within each partition."""
        first = 1 if self.storage.on_chip else 0
        return is_row_major(self.shape[first:], self.strides[first:])

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...], as `ap` takes it."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape)]

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def label(self) -> str:
        name = f"{self.storage.name} " if self.storage.name else ""
        return f"{name}{self.storage.region.value}{list(self.shape)} {self._dtype.name}"

    @property
    def free_size(self) -> int:
        """Elements of one partition."""
        size = 1
        for extent in self.shape[1:]:
            size *= extent
        return size

    @property
    def values(self) -> Array:
        """The values, float32 or integers: a view of the storage where it holds values, a copy where it holds bits."""
        view = self._values
        if view is None or self._source is not self.storage.array:
            view = self._array()
        if self._bits and self._dtype.bits != self._dtype.held:
            return view.astype(self._dtype.held)
        return view

    def write(self, values: Array) -> None:
        """Store values of this shape, rounded to this dtype."""
        storage = self.storage
        if storage.array is None:
            storage.create(fill=self.size != storage.size)
        elif storage.borrowed:
            storage.own()
        view = self._array()
        if values.dtype != view.dtype or self._bits or not self._dtype.exact:
            values = convert(values, self._dtype)
            values = values if not self._bits else values.astype(self._dtype.bits, copy=False)
        view[...] = values

    def compute(self, function: Callable[..., Array], *values: Any) -> None:
        """Store function(*values), of this shape: at once where it takes `out` and float32 is held as it is."""
        storage = self.storage
        direct = type(function) is np.ufunc or function is np.clip
        if not direct or not self._dtype.exact or storage.array is None or storage.borrowed:
            self.write(function(*values))
            return
        view = self._array()
        if (
            view.dtype != np.float32
            or self._bits
            or any(getattr(value, "dtype", None) != np.float32 for value in values)
        ):
            self.write(function(*values))
        else:
            function(*values, out=view)  # where operands overlap, NumPy computes as if they did not

    def _array(self) -> Array:
        storage = self.storage
        if self._values is not None and self._source is storage.array:
            return self._values
        dtype = self._dtype
        if dtype is not storage.dtype:
            storage.to_bits()
        if storage.array is None:
            storage.create(fill=True)
        held = dtype.bits if storage.bits else dtype.held
        size = held.itemsize
        offset, strides = self.offset * size, [stride * size for stride in self.strides]
        if storage.arena is not None:
            partition, element = divmod(self.offset, self.row)
            pitch = storage.arena.row_bytes
            offset = (storage.partition_base + partition) * pitch + storage.base + element * size
            strides[0] = pitch
        assert storage.array is not None
        self._values = np.ndarray(self.shape, held, storage.array, offset, tuple(strides))
        self._source = storage.array
        self._bits = storage.bits
        return self._values

    @property
    def access(self) -> Access:
        """The rectangle of memory that the view touches."""
        if self._access is None:
            self._access = self._rectangle()
        return self._access

    def _rectangle(self) -> Access:
        storage, size = self.storage, self._dtype.itemsize
        pitch, outer, extent, step, run, elements = _reach(self.shape, self.strides, storage.on_chip)
        pitch = pitch or self.row
        if not storage.on_chip and extent + self.offset % pitch > pitch:  # wraps around: take the flat extent
            extent += (outer - 1) * pitch
            outer, pitch = 1, max(self.row, 1)
        row, element = divmod(self.offset, pitch)
        byte = element * size + storage.base
        row += storage.partition_base
        covers = elements == storage.size * storage.dtype.itemsize // size
        return Access(
            storage.owner, row, row + outer, byte, byte + extent * size, pitch * size, covers, step * size, run * size
        )


@lru_cache(maxsize=4096)
def _reach(shape: tuple[int, ...], strides: tuple[int, ...], on_chip: bool) -> tuple[int, int, int, int, int, int]:
    """What a view touches, in elements, wherever it begins: (pitch of its rows, 0 for the memory's; rows; extent of
    each; step and run of a comb; distinct elements, 0 where one is there several times)."""
    elements = 0 if 0 in strides else prod(shape)
    if on_chip:
        extent = 1 + sum([(count - 1) * stride for count, stride in zip(shape[1:], strides[1:])])
        step, run = comb(shape[1:], strides[1:]) if extent > prod(shape[1:]) else (0, 0)
        return 0, shape[0], extent, step, run, elements
    pitch = max([stride for stride, count in zip(strides, shape) if count > 1], default=0)
    outer = extent = 1
    for count, stride in zip(shape, strides):
        if pitch and stride == pitch:
            outer += count - 1
        else:
            extent += (count - 1) * stride
    return pitch, outer, extent, 0, 0, elements
