"""NkiTensor: a strided view of a storage, with the view operations of NKI 0.6.

An element (i0, i1, ...) lies at `offset + sum(stride * i)` elements from the start of the storage. On chip, dimension 0
is the partition axis, its stride the number of elements in a partition. Sources: nki/api/nki/language/__init__.py,
nki/get-started/nki-language-guide.rst, nki/deep-dives/nki-aps.rst of aws-neuron-sdk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .dtypes import Array, DType, convert, lookup
from .errors import NkiValidationError, NotSimulatedError, OutOfBoundsError
from .instruction import Access
from .memory import MemoryRegion, Storage
from .views import (
    comb,
    fill_ellipsis,
    infer,
    integers,
    is_row_major,
    resolve_index,
    resolve_slice,
    row_major,
    shape_of,
    strides_of_reshape,
)

MAX_DIMENSIONS = 5  # of an access pattern (nki-language-guide.rst, "Tensor Values")


class NKIObject:
    """Base class of classes that a kernel may use."""

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


class DynamicSlice:
    """`nl.ds(start, size)`: elements start to start + size."""

    __slots__ = ("size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size


class NkiTensor(NKIObject):
    """A tensor in SBUF, PSUM or HBM. Views share its storage; no view operation copies."""

    __slots__ = ("_access", "_bits", "_dtype", "_source", "_values", "offset", "row", "shape", "storage", "strides")

    gathers = False  # whether rows are addressed by a vector of indices

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

    @property
    def size(self) -> int:
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    def is_contiguous(self) -> bool:
        """Whether the view is dense and row-major; on chip, within each partition."""
        first = 1 if self.storage.on_chip else 0
        return is_row_major(self.shape[first:], self.strides[first:])

    def get_pattern(self) -> list[list[int]]:
        """[[stride, count], ...], as `ap` takes it."""
        return [[stride, count] for stride, count in zip(self.strides, self.shape)]

    def is_indirect(self) -> bool:
        """Whether the view addresses memory by values known only at run time."""
        return False

    def __repr__(self) -> str:
        return f"NkiTensor({self.label})"

    # What instructions use

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
        values = convert(values, self._dtype)
        view[...] = values if not self._bits else values.astype(self._dtype.bits, copy=False)

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
        if storage.on_chip:
            pitch = self.row
            outer = self.shape[0]
            extent = 1
            step = run = 0
            for count, stride in zip(self.shape[1:], self.strides[1:]):
                extent += (count - 1) * stride
            if extent > self.free_size:
                step, run = comb(self.shape[1:], self.strides[1:])
        else:
            pitch = max([stride for stride, count in zip(self.strides, self.shape) if count > 1], default=0) or self.row
            step = run = 0
            outer = extent = 1
            for count, stride in zip(self.shape, self.strides):
                if stride == pitch:
                    outer += count - 1
                else:
                    extent += (count - 1) * stride
            if extent + self.offset % pitch > pitch:  # wraps around: take the flat extent
                extent += (outer - 1) * pitch
                outer, pitch = 1, max(self.row, 1)
        row, element = divmod(self.offset, pitch)
        byte = element * size + storage.base
        row += storage.partition_base
        covers = self.size == storage.size * storage.dtype.itemsize // size and 0 not in self.strides
        return Access(
            storage.owner, row, row + outer, byte, byte + extent * size, pitch * size, covers, step * size, run * size
        )

    # Views

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> NkiTensor:
        return NkiTensor(shape, self._dtype, self.storage, strides=strides, offset=offset)

    def __getitem__(self, key: Any) -> NkiTensor:
        keys = key if type(key) is tuple else (key,)
        shape, strides = self.shape, self.strides
        if Ellipsis in keys or len(keys) < len(shape):
            keys = fill_ellipsis(keys, len(shape), self)
        elif len(keys) > len(shape):
            raise OutOfBoundsError(f"{self.label}: {len(keys)} indices for {len(shape)} dimensions")
        on_chip = self.storage.on_chip
        offset = self.offset
        new_shape: list[int] = []
        new_strides: list[int] = []
        kept = 0  # free dimensions of the result, counting one that an index must leave
        for dim, item in enumerate(keys):
            extent, stride = shape[dim], strides[dim]
            if type(item) is slice:
                start, count, step = resolve_slice(item, extent, dim, self)
                if on_chip and dim == 0 and step != 1:
                    raise NkiValidationError(f"{self.label}: partitions cannot be taken with a step, came {step}")
                new_shape.append(count)
                new_strides.append(stride * step)
                offset += start * stride
                kept += 1
            elif isinstance(item, DynamicSlice):
                if not hasattr(item.start, "__index__"):
                    from .indirect import item as at_run_time

                    return at_run_time(self, keys, dim)
                start, count, _ = resolve_slice(slice(item.start, item.start + item.size), extent, dim, self)
                new_shape.append(count)
                new_strides.append(stride)
                offset += start * stride
                kept += 1
            else:
                if type(item) is not int and not hasattr(item, "__index__"):
                    from .indirect import item as at_run_time

                    return at_run_time(self, keys, dim)
                index = resolve_index(item, extent, dim, self)
                offset += index * stride
                last = dim == len(shape) - 1
                if (on_chip and (dim == 0 or (last and kept < 2))) or (not on_chip and last and kept == 0):
                    new_shape.append(
                        1
                    )  # a tensor on chip keeps its partitions and two dimensions, one in HBM keeps one
                    new_strides.append(stride)
                    kept += 1
        return self._view(tuple(new_shape), tuple(new_strides), offset)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise NkiValidationError(
            f"{self.label}: a tensor is written by an instruction (nisa.tensor_copy, nisa.dma_copy), not by assignment"
        )

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        dim = self._dim(dim, "slice")
        keys: list[Any] = [slice(None)] * self.ndim
        keys[dim] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: Any) -> NkiTensor:
        dim = self._dim(dim, "select")
        self._not_partition(dim, "select")
        if not hasattr(index, "__index__"):
            from .indirect import select

            return select(self, dim, index)
        index = resolve_index(index, self.shape[dim], dim, self)
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            self.offset + index * self.strides[dim],
        )

    def permute(self, dims: tuple[int, ...]) -> NkiTensor:
        if sorted(dims) != list(range(self.ndim)):
            raise NkiValidationError(
                f"permute of {self.label}: dims {tuple(dims)} are no permutation of its dimensions"
            )
        if self.storage.on_chip and dims[0] != 0:
            raise NkiValidationError(
                f"permute of {self.label}: the partition dimension must stay first, came {tuple(dims)}"
            )
        return self._view(tuple(self.shape[d] for d in dims), tuple(self.strides[d] for d in dims), self.offset)

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        dim = self._dim(dim, "broadcast")
        self._not_partition(dim, "broadcast")
        if self.shape[dim] != 1:
            raise NkiValidationError(f"broadcast of {self.label}: dimension {dim} must be 1, is {self.shape[dim]}")
        if size < 1:
            raise NkiValidationError(f"broadcast of {self.label}: size must be at least 1, came {size}")
        return self._view(
            (*self.shape[:dim], size, *self.shape[dim + 1 :]),
            (*self.strides[:dim], 0, *self.strides[dim + 1 :]),
            self.offset,
        )

    def expand_dim(self, dim: int) -> NkiTensor:
        if not 0 <= dim <= self.ndim:
            raise OutOfBoundsError(f"expand_dim of {self.label}: dimension {dim} is outside 0 to {self.ndim}")
        self._not_partition(dim, "expand_dim")
        stride = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        return self._view(
            (*self.shape[:dim], 1, *self.shape[dim:]), (*self.strides[:dim], stride, *self.strides[dim:]), self.offset
        )

    def squeeze_dim(self, dim: int) -> NkiTensor:
        dim = self._dim(dim, "squeeze_dim")
        self._not_partition(dim, "squeeze_dim")
        if self.shape[dim] != 1:
            raise NkiValidationError(f"squeeze_dim of {self.label}: dimension {dim} must be 1, is {self.shape[dim]}")
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :], self.strides[:dim] + self.strides[dim + 1 :], self.offset
        )

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> NkiTensor:
        dim, shape = self._dim(dim, "reshape_dim"), shape_of(shape)
        if self.storage.on_chip and dim == 0 and shape not in ((self.shape[0],), (-1,)):
            raise NkiValidationError(f"reshape_dim of {self.label}: the partition dimension cannot be split")
        extents = infer(shape, self.shape[dim], f"reshape_dim of {self.label}")
        inner = [self.strides[dim]]
        for extent in reversed(extents[1:]):
            inner.insert(0, inner[0] * extent)
        return self._view(
            self.shape[:dim] + extents + self.shape[dim + 1 :],
            self.strides[:dim] + tuple(inner) + self.strides[dim + 1 :],
            self.offset,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        start, end = self._dim(start_dim, "flatten_dims"), self._dim(end_dim, "flatten_dims")
        self._not_partition(start, "flatten_dims")
        merged = 1
        for extent in self.shape[start : end + 1]:
            merged *= extent
        return self._reshape((*self.shape[:start], merged, *self.shape[end + 1 :]), "flatten_dims")

    def reshape(self, shape: tuple[int, ...]) -> NkiTensor:
        extents = infer(shape_of(shape), self.size, f"reshape of {self.label}")
        if self.storage.on_chip and extents[0] != self.shape[0]:
            raise NkiValidationError(
                f"reshape of {self.label}: the partition dimension must stay {self.shape[0]}, came {extents[0]}"
            )
        return self._reshape(extents, "reshape")

    def _reshape(self, shape: tuple[int, ...], what: str) -> NkiTensor:
        strides = strides_of_reshape(self.shape, self.strides, shape)
        if strides is None:
            raise NkiValidationError(f"{what} of {self.label}: strides {self.strides} have no view of shape {shape}")
        return self._view(shape, strides, self.offset)

    def rearrange(
        self, src_pattern: tuple[Any, ...], dst_pattern: tuple[Any, ...], fixed_sizes: dict[str, int] | None = None
    ) -> NkiTensor:
        """Split, reorder and merge dimensions by name, as einops does."""
        sizes = dict(fixed_sizes or {})
        tensor, names = self, list[str]()
        for group in src_pattern:
            members = (group,) if isinstance(group, str) else tuple(group)
            dim = len(names)
            extents = infer(tuple(sizes.get(n, -1) for n in members), tensor.shape[dim], f"rearrange of {self.label}")
            tensor = tensor.reshape_dim(dim, extents) if len(members) > 1 else tensor
            names.extend(members)
        wanted = [n for group in dst_pattern for n in ((group,) if isinstance(group, str) else group)]
        if sorted(wanted) != sorted(names) or len(names) != tensor.ndim:
            raise NkiValidationError(
                f"rearrange of {self.label}: {dst_pattern} does not name the dimensions of {src_pattern}"
            )
        tensor = tensor.permute(tuple(names.index(n) for n in wanted))
        for position, group in enumerate(dst_pattern):
            if not isinstance(group, str) and len(group) > 1:
                tensor = tensor.flatten_dims(position, position + len(group) - 1)
        return tensor

    def ap(
        self,
        pattern: list[list[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> NkiTensor:
        """An explicit access pattern on the storage; ignores the shape and strides of this view.

        `scalar_offset` (one int32 in SBUF, or a register) or `vector_offset` (one for each row, in SBUF) are added at
        run time, in steps of dimension `indirect_dim` of this view.
        """
        target = self._dtype if dtype is None else lookup(dtype)
        pairs = [integers(pair, f"ap of {self.label}: pair") for pair in pattern]
        if any(len(pair) != 2 for pair in pairs):
            raise NkiValidationError(f"ap of {self.label}: pattern {pattern} must be pairs [stride, count]")
        strides = tuple(step for step, _ in pairs)
        if vector_offset is not None:
            strides = (0, *strides[1:])  # rows lie at the indices; the step given for them is ignored (nki-aps.rst)
        shape = tuple(count for _, count in pairs)
        start = self.offset * self._dtype.itemsize // target.itemsize if offset is None else offset
        view = NkiTensor(shape, target, self.storage, strides=strides, offset=start)
        what = f"ap of {self.label}: pattern {pattern} at offset {start}"
        if not 1 <= len(shape) <= MAX_DIMENSIONS or min(shape) < 1 or min(strides) < 0 or start < 0:
            raise NkiValidationError(f"{what} must have 1 to {MAX_DIMENSIONS} pairs of a stride >= 0 and a count >= 1")
        first = 1 if self.storage.on_chip else 0
        reach = sum(stride * (count - 1) for stride, count in zip(strides[first:], shape[first:]))
        if first:
            if shape[0] > 1 and strides[0] != view.row:
                raise NkiValidationError(f"{what}: the partition stride must be the {view.row} elements of a partition")
            partition, element = divmod(start, view.row)
            if partition + shape[0] > self.storage.shape[0] or element + reach >= view.row:
                raise OutOfBoundsError(f"{what} reaches outside {self.storage.label}")
        elif start + reach >= view.row:
            raise OutOfBoundsError(f"{what} reaches outside {self.storage.label}")
        if scalar_offset is None and vector_offset is None:
            return view
        from .indirect import offset as moved

        return moved(self, view, scalar_offset, vector_offset, indirect_dim)

    def view(self, dtype: object) -> NkiTensor:
        """The same bytes as another dtype; the last dimension shrinks or grows."""
        target = lookup(dtype)
        old, new = self._dtype.itemsize, target.itemsize
        if old == new:
            return NkiTensor(self.shape, target, self.storage, strides=self.strides, offset=self.offset)
        if self.strides[-1] != 1 and self.shape[-1] > 1:
            raise NkiValidationError(
                f"view of {self.label}: the last dimension must be contiguous, its stride is {self.strides[-1]}"
            )
        numbers = (self.shape[-1], self.offset, *self.strides[:-1])
        if any(number * old % new for number in numbers):
            raise NkiValidationError(f"view of {self.label} as {target.name}: sizes are no multiple of {new} bytes")
        last, offset, *outer = (number * old // new for number in numbers)
        return NkiTensor((*self.shape[:-1], last), target, self.storage, strides=(*outer, 1), offset=offset)

    reinterpret_cast = view

    def vector_select(self, dim: int, vector_offset: Any) -> NkiTensor:
        """Row vector_offset[i] of this tensor in HBM as row i; the indices are read at run time."""
        from .indirect import vector_select as rows

        return rows(self, dim, vector_offset)

    def indirect(self, index: Any, num_elem: int | None = None) -> NkiTensor:
        raise NotSimulatedError("NkiTensor.indirect is not simulated yet")

    def _dim(self, dim: int, what: str) -> int:
        if not -self.ndim <= dim < self.ndim:
            raise OutOfBoundsError(f"{what} of {self.label}: dimension {dim} is outside 0 to {self.ndim - 1}")
        return dim % self.ndim

    def _not_partition(self, dim: int, what: str) -> None:
        if dim == 0 and self.storage.on_chip:
            raise NkiValidationError(f"{what} of {self.label}: not possible on the partition dimension")
