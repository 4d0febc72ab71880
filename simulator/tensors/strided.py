"""Positions of the elements of a tensor in memory, and functions that read and write them.

Element (i0, i1, ...) is `offset + sum(stride * i)` elements from the start of the storage. On chip, dimension 0 is
the partition axis, and its stride is the number of elements per partition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ..machine.chip import PARTITIONS
from ..machine.dtypes import DTYPES, Array, DType, convert, lookup
from ..machine.instruction import Access
from ..machine.memory import PSUM, PSUM_ALIGNMENT, SBUF, MemoryRegion, Storage
from ..machine.objects import NKIObject
from ..machine.watching import watchers
from .views import comb, is_row_major, row_major


class Form:
    """All properties of a view except its start address. The checks and times of instructions depend only on them.

    Forms are unique objects, returned by `form_of`. `size` is the total number of elements, and `free_size` the number
    per partition. The view has `outer` rows, each spanning `extent` elements; `pitch` is the distance between rows in
    elements, or 0 for the distance between the memory's own rows. `step` and `run`, in elements, describe runs at
    regular distances (see `views.comb`). `distinct` is the number of distinct elements, or 0 if some elements repeat.
    `pattern` contains the strides, and the shape followed by the bytes per element.
    """

    __slots__ = ("distinct", "extent", "free_size", "outer", "pattern", "pitch", "run", "size", "step")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int, on_chip: bool) -> None:
        self.pattern = strides, (*shape, itemsize)
        self.size = prod(shape)
        self.free_size = prod(shape[1:])
        self.distinct = 0 if 0 in strides else self.size
        self.step = self.run = 0
        if on_chip:
            self.pitch, self.outer = 0, shape[0]
            self.extent = 1 + sum([(count - 1) * stride for count, stride in zip(shape[1:], strides[1:])])
            if self.extent > self.free_size:
                self.step, self.run = comb(shape[1:], strides[1:])
            return
        self.pitch = max([stride for stride, count in zip(strides, shape) if count > 1], default=0)
        self.outer = self.extent = 1
        for count, stride in zip(shape, strides):
            if self.pitch and stride == self.pitch:
                self.outer += count - 1
            else:
                self.extent += (count - 1) * stride


@lru_cache(maxsize=4096)
def form_of(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    region: MemoryRegion,
    place: tuple[int, int, bool, bool],
) -> Form:
    """Return the form of a view whose start is described by `place` = (row, first, large, shifted).

    Views at different places have different forms.

    `row`: the number of elements per partition (on chip) or in total (HBM).
    `first`: the first partition.
    `large`: True if the tile spans more than half of the partitions or has an explicit address.
    `shifted`: True if the view is misaligned in PSUM.
    """
    return Form(shape, strides, DTYPES[dtype].itemsize, region is SBUF or region is PSUM)


class StridedMemory(NKIObject):
    """A strided view of a storage, whose elements have one dtype. Views of the same storage share its memory."""

    __slots__ = (
        "_access",
        "_bits",
        "_dtype",
        "_form",
        "_source",
        "_values",
        "offset",
        "row",
        "shape",
        "storage",
        "strides",
    )

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: object,
        storage: Storage,
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> None:
        self.storage = storage
        self.shape = shape
        self._dtype = dtype if isinstance(dtype, DType) else lookup(dtype)
        self.strides = row_major(shape) if strides is None else strides
        self.offset = offset
        # Number of elements of this view's dtype per partition (on chip) or in total (HBM).
        self.row = storage.row if self._dtype is storage.dtype else storage.row_bytes // self._dtype.itemsize
        self._values: Array | None = None  # NumPy view of `_source`, the storage's array when the view was created
        self._source: Array | None = None
        self._bits = False
        self._access: Access | None = None
        self._form: Form | None = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # Attributes and methods documented by NKI

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
        """Return True if the view is dense and row-major (on chip, within each partition)."""
        first = 1 if self.storage.on_chip else 0
        return is_row_major(self.shape[first:], self.strides[first:])

    def get_pattern(self) -> list[list[int]]:
        """Return [[stride, count], ...], as accepted by `ap`."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape)]

    @property
    def size(self) -> int:
        return (self._form or self.form).size

    @property
    def label(self) -> str:
        name = f"{self.storage.name} " if self.storage.name else ""
        return f"{name}{self.storage.region.value}{list(self.shape)} {self._dtype.name}"

    @property
    def free_size(self) -> int:
        """Return the number of elements per partition."""
        return (self._form or self.form).free_size

    @property
    def values(self) -> Array:
        """Return the values, as float32 or integers.

        The result is a view of the storage, or a copy if the storage contains bit patterns.
        """
        view = self._values
        if view is None or self._source is not self.storage.array:
            view = self._array()
        if self._bits and self._dtype.bits != self._dtype.held:
            return view.astype(self._dtype.held)
        return view

    def write(self, values: Array) -> None:
        """Store values that have the same shape as this view, rounded to its dtype."""
        for watcher in watchers:
            watcher.written(self, values)
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
        """Store function(*values), which has the shape of this view.

        The function writes the result directly if it accepts `out` and float32 values are stored without rounding.
        """
        storage = self.storage
        direct = type(function) is np.ufunc or function is np.clip
        if not direct or not self._dtype.exact or storage.array is None or storage.borrowed or watchers:
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
            function(*values, out=view)  # NumPy supports overlapping operands

    def _array(self) -> Array:
        storage = self.storage
        if self._values is not None and self._source is storage.array:
            return self._values
        dtype = self._dtype
        if dtype is not storage.dtype:
            storage.to_bits()
        if storage.array is None:
            storage.create(fill=True)
        value_type = dtype.bits if storage.bits else dtype.held
        size = value_type.itemsize
        offset, strides = self.offset * size, [stride * size for stride in self.strides]
        if storage.arena is not None:
            partition, element = divmod(self.offset, self.row)
            pitch = storage.arena.row_bytes
            offset = (storage.partition_base + partition) * pitch + storage.base + element * size
            strides[0] = pitch
        assert storage.array is not None
        self._values = np.ndarray(self.shape, value_type, storage.array, offset, tuple(strides))
        self._source = storage.array
        self._bits = storage.bits
        return self._values

    @property
    def form(self) -> Form:
        """Return the form of the view, independent of its start address."""
        form = self._form
        if form is None:
            storage = self.storage
            first, large, shifted = 0, False, False
            if storage.on_chip:
                partition, element = divmod(self.offset, self.row)
                first = storage.partition_base + partition
                large = storage.arena is not None or storage.shape[0] > PARTITIONS // 2
                shifted = storage.region is PSUM and element * self._dtype.itemsize % PSUM_ALIGNMENT != 0
            key = self.row, first, large, shifted
            form = form_of(self.shape, self.strides, self._dtype.name, storage.region, key)
            self._form = form
        return form

    @property
    def access(self) -> Access:
        """Return the rectangle of memory that the view accesses."""
        if self._access is None:
            self._access = self._rectangle()
        return self._access

    def _rectangle(self) -> Access:
        storage, dtype, offset, form = self.storage, self._dtype, self.offset, self._form or self.form
        size, pitch, outer, extent = dtype.itemsize, form.pitch or self.row, form.outer, form.extent
        row = element = 0
        if offset:
            row, element = divmod(offset, pitch)
        if element + extent > pitch and not storage.on_chip:  # a row wraps around, so use the flat extent
            extent += (outer - 1) * pitch
            outer, pitch = 1, max(self.row, 1)
            row, element = divmod(offset, pitch)
        byte = element * size + storage.base
        row += storage.partition_base
        elements = storage.size if dtype is storage.dtype else storage.size * storage.dtype.itemsize // size
        return new_access(
            Access,
            (
                storage.owner,
                row,
                row + outer,
                byte,
                byte + extent * size,
                pitch * size,
                form.distinct == elements,
                form.step * size,
                form.run * size,
            ),
        )


new_access = tuple.__new__  # several times faster than Access(...), whose constructor is Python code
