"""NkiTensor, the tensor type of kernels: a strided view of a storage, whose address may be known only at run time.

An indirect view has one index, or one index per row. The index is read when an instruction uses the view, not when the
view is created. In the dependency analysis, an indirect view accesses all elements that its index could reach. Sources:
nki/api/nki/language/__init__.py (select, vector_select, ap), nki/deep-dives/nki-aps.rst ("Dynamic Access") of
aws-neuron-sdk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..machine.dtypes import Array, lookup
from ..machine.errors import NkiValidationError, OutOfBoundsError
from ..machine.instruction import Access
from ..machine.objects import DynamicSlice
from ..machine.registers import DeviceNumber
from ..machine.watching import watchers
from .index_rules import check_columns, check_scalar, check_vector, shown_key
from .tensor_views import TensorViews
from .views import integers, reaches_outside, resolve_index

MAX_DIMENSIONS = 5  # maximum dimensions of an access pattern (nki-language-guide.rst, "Tensor Values")


class NkiTensor(TensorViews):
    """A tensor in SBUF, PSUM or HBM. View operations share its storage and never copy data."""

    __slots__ = ()

    gathers = False  # True if rows are addressed by a vector of indices

    def __class_getitem__(cls, shape: Any) -> type[NkiTensor]:
        """Allow annotations such as `nt.tensor[128, 512]`."""
        return cls

    def __repr__(self) -> str:
        return f"NkiTensor({self.label})"

    answers = False  # True if the tensor is the result of a comparison of tiles

    def __bool__(self) -> bool:
        """Return True, as for any object. For the result of a comparison, return whether it is true for all elements.

        This makes `assert nl.equal(a, b)` work as in the examples of nki.language.
        """
        return not self.answers or self.storage.array is None or bool(self.values.all())

    @property
    def data(self) -> NkiTensor:
        """Return the tensor itself. The examples of nl.tiles use this attribute like the data of a grid."""
        return self

    def is_indirect(self) -> bool:
        """Return True if the address of the view depends on values that are known only at run time."""
        return False

    def ap(
        self,
        pattern: list[list[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: object = None,
    ) -> NkiTensor:
        """Return a view of the storage with an explicit access pattern, ignoring the shape and strides of this view.

        `scalar_offset` (one int32 in SBUF, or a register) or `vector_offset` (one index per row, in SBUF) is added at
        run time, multiplied by the stride of dimension `indirect_dim` of this view.
        """
        target = self._dtype if dtype is None else lookup(dtype)
        pairs = [integers(pair, f"ap of {self.label}: pair") for pair in pattern]
        if any(len(pair) != 2 for pair in pairs):
            raise NkiValidationError(f"ap of {self.label}: pattern {pattern} must be pairs [stride, count]")
        strides, shape = (tuple(pair[position] for pair in pairs) for position in (0, 1))
        if vector_offset is not None:
            strides = (0, *strides[1:])  # the indices determine the rows, and the given stride is ignored (nki-aps.rst)
        start = self.offset * self._dtype.itemsize // target.itemsize if offset is None else offset
        for watcher in watchers if self.offset else ():
            watcher.based(self, offset)
        view = NkiTensor(shape, target, self.storage, strides=strides, offset=start)
        subject = f"ap of {self.label}: pattern {pattern} at offset {start}"
        _check_pattern(view, subject)
        if reaches_outside(view, shape, strides, start):
            return OutsideTensor(view, f"{subject} reaches outside {self.storage.label}")
        if scalar_offset is None and vector_offset is None:
            return view
        return self._moved_by(view, scalar_offset, vector_offset, indirect_dim)

    def _empty(self, shape: tuple[int, ...], strides: tuple[int, ...], key: Any) -> NkiTensor:
        message = f"{self.label}: {shown_key(key)} selects no element"
        return OutsideTensor(NkiTensor(shape, self._dtype, self.storage, strides=strides, offset=self.offset), message)

    def view(self, dtype: object) -> NkiTensor:
        """Return a view of the same bytes with another dtype, in which the last dimension shrinks or grows."""
        target = lookup(dtype)
        old, new = self._dtype.itemsize, target.itemsize
        if old == new:
            return NkiTensor(self.shape, target, self.storage, strides=self.strides, offset=self.offset)
        if self.strides[-1] != 1 and self.shape[-1] > 1:
            raise NkiValidationError(
                f"view of {self.label}: the last dimension must be contiguous, but its stride is {self.strides[-1]}"
            )
        numbers = (self.shape[-1], self.offset, *self.strides[:-1])
        if any(number * old % new for number in numbers):
            raise NkiValidationError(f"view of {self.label} as {target.name}: sizes must be multiples of {new} bytes")
        last, offset, *outer = (number * old // new for number in numbers)
        return NkiTensor((*self.shape[:-1], last), target, self.storage, strides=(*outer, 1), offset=offset)

    reinterpret_cast = view

    def vector_select(self, dim: int, vector_offset: Any) -> NkiTensor:
        """Return a view in which row i is row vector_offset[i] of this HBM tensor. Indices are read at run time."""
        if dim != 0:
            raise NkiValidationError(f"vector_select of {self.label}: dim must be 0, got {dim}")
        self._only_index("vector_select")
        check_vector(self, vector_offset, "vector_select")
        shape = (vector_offset.shape[0] * vector_offset.free_size, *self.shape[1:])
        rows = NkiTensor(shape, self._dtype, self.storage, strides=self.strides, offset=self.offset)
        return IndirectTensor(rows, vector_offset, self.strides[0], self.shape[0], gathers=True)

    def indirect(self, index: Any, num_elem: int | None = None) -> NkiTensor:
        """Return columns of this tile, [P, num_elem], gathered when read and scattered when written (trn3).

        Column i is at offset `index[i % G, i // G]` in the free dimensions, where G is 32 for the Tensor Engine and 16
        for other engines. The index [P, K] is read at run time. tensor_indirection.py lists the instructions that
        accept such views.
        """
        self._only_index("indirect")
        check_columns(self, index, num_elem)
        shape = (self.shape[0], index.size if num_elem is None else num_elem)
        columns = NkiTensor(shape, self._dtype, self.storage, strides=(self.row, 1), offset=self.offset)
        return ColumnsTensor(columns, index, 1, self.free_size, gathers=False)

    # Indices that are known only at run time

    def _only_index(self, what: str) -> None:
        if self.is_indirect():
            raise NkiValidationError(
                f"{what} of {self.label}: it is already indirect; only one run-time index is possible"
            )

    def _select_at_run_time(self, dim: int, index: Any) -> NkiTensor:
        self._only_index("select")
        check_scalar(self, index, "select")
        return IndirectTensor(self.select(dim, 0), index, self.strides[dim], self.shape[dim], gathers=False)

    def _window_at_run_time(self, dim: int, start: Any, size: int) -> NkiTensor:
        """Return `size` elements of dimension `dim`, beginning at an index in SBUF or in a register."""
        self._only_index("an index")
        check_scalar(self, start, "an index")
        if dim == 0 and self.storage.on_chip:
            raise NkiValidationError(f"{self.label}: the partitions cannot be chosen at run time")
        base = self.slice(dim, 0, size)
        return IndirectTensor(base, start, self.strides[dim], self.shape[dim] - size + 1, gathers=False)

    def _item_at_run_time(self, keys: tuple[Any, ...], dim: int) -> NkiTensor:
        key = keys[dim]
        start = key.start if isinstance(key, DynamicSlice) else key
        if not isinstance(start, (DeviceNumber, NkiTensor)):
            resolve_index(start, self.shape[dim], dim, self)  # raises the appropriate error
        on_chip = self.storage.on_chip
        others = (*keys[:dim], slice(None), *keys[dim + 1 :])
        rest = self[others]
        position = sum(isinstance(k, (slice, DynamicSlice)) or (on_chip and d == 0) for d, k in enumerate(keys[:dim]))
        if isinstance(key, DynamicSlice):
            return rest._window_at_run_time(position, start, key.size)
        if rest.ndim <= (2 if on_chip else 1):  # indexing keeps at least two dimensions on chip and one in HBM
            return rest._window_at_run_time(position, start, 1)
        return rest._select_at_run_time(position, start)

    def _moved_by(self, pattern: NkiTensor, scalar: Any, vector: Any, dim: int) -> NkiTensor:
        """Return `pattern`, a view created by `self.ap`, shifted along dimension `dim` of `self` by an index."""
        self._only_index("ap")
        if scalar is not None and vector is not None:
            raise NkiValidationError(f"ap of {self.label}: scalar_offset and vector_offset cannot be used together")
        dim = self._dim(dim, "ap")
        old, new = self._dtype.itemsize, pattern._dtype.itemsize
        if self.strides[dim] * old % new:
            raise NkiValidationError(
                f"ap of {self.label}: a step of dimension {dim} is not a multiple of the {new} bytes of {pattern.dtype}"
            )
        step = self.strides[dim] * old // new
        shape, strides = pattern.shape, pattern.strides
        if step < 1:
            raise NkiValidationError(f"ap of {self.label}: dimension {dim} is broadcast, so it cannot have an offset")
        if vector is not None:
            check_vector(self, vector, "ap")
            if dim != 0 or vector.shape[0] * vector.free_size < shape[0]:
                raise NkiValidationError(
                    f"ap of {self.label}: vector_offset {vector.label} needs indirect_dim 0 (got {dim}) and an index "
                    f"for each of the {shape[0]} rows of the pattern"
                )
            shape, strides = shape[1:], strides[1:]
            pattern = NkiTensor(
                pattern.shape, pattern._dtype, pattern.storage, strides=(step, *strides), offset=pattern.offset
            )
        else:
            check_scalar(self, scalar, "ap")
            if dim == 0 and self.storage.on_chip:
                raise NkiValidationError(f"ap of {self.label}: the partitions cannot be chosen at run time")
        first = 1 if self.storage.on_chip else 0
        reach = sum(stride * (count - 1) for stride, count in zip(strides[first:], shape[first:]))
        left = pattern.row - 1 - reach - pattern.offset % pattern.row
        return IndirectTensor(pattern, vector if scalar is None else scalar, step, left // step + 1, vector is not None)


def _check_pattern(view: NkiTensor, what: str) -> None:
    """Raise NkiValidationError unless the hardware can access a view with an explicit access pattern."""
    shape, strides = view.shape, view.strides
    if not 1 <= len(shape) <= MAX_DIMENSIONS or min(shape) < 1 or min(strides) < 0 or view.offset < 0:
        raise NkiValidationError(f"{what} must have 1 to {MAX_DIMENSIONS} pairs of a stride >= 0 and a count >= 1")
    if view.storage.on_chip and shape[0] > 1 and strides[0] != view.row:
        raise NkiValidationError(f"{what}: the partition stride must be the {view.row} elements of a partition")


class OutsideTensor(NkiTensor):
    """A view that is empty or extends beyond the bounds of its tensor.

    A kernel may create such a view without using it, as AWS's kernels do for the last of several tiles or for an idle
    core. An instruction that uses it raises an error with the message `why`.
    """

    __slots__ = ("why",)

    def __init__(self, view: NkiTensor, why: str) -> None:
        super().__init__(view.shape, view._dtype, view.storage, strides=view.strides, offset=view.offset)
        self.why = why

    def _refuse(self) -> NoReturn:
        raise OutOfBoundsError(self.why)

    def _array(self) -> Array:
        self._refuse()

    def _rectangle(self) -> Access:
        self._refuse()

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> OutsideTensor:
        self._refuse()

    def view(self, dtype: object) -> NkiTensor:
        self._refuse()


class IndirectTensor(NkiTensor):
    """A view at `offset + index * step` elements, where `index` is between 0 and `extent` - 1.

    If `gathers`, the index is a column, and row i of the view (along dimension 0) is at the i-th index.
    """

    __slots__ = ("extent", "gathers", "index", "step")

    def __init__(self, view: NkiTensor, index: Any, step: int, extent: int, gathers: bool) -> None:
        super().__init__(view.shape, view._dtype, view.storage, strides=view.strides, offset=view.offset)
        self.index = index
        self.step = step
        self.extent = extent
        self.gathers = gathers

    def is_indirect(self) -> bool:
        return True

    @property
    def indices(self) -> Array:
        """Return the index of each row [n], or a single index [1]. If a gather index has several columns, its elements
        are read in column-major order."""
        if isinstance(self.index, DeviceNumber):
            return np.array([self.index.read(f"the address of {self.label}")])
        count = self.shape[0] if self.gathers else 1
        indices: Array = self.index.values.reshape(self.index.shape[0], -1).T.reshape(-1)[:count].astype(np.int64)
        return indices

    def inside(self) -> Array:
        """Return a mask of the indices that are in bounds."""
        indices = self.indices
        inside: Array = (indices >= 0) & (indices < self.extent)
        return inside

    @property
    def values(self) -> Array:
        indices = self._checked()
        if not self.gathers:
            return self.at(indices[0]).values
        return self._table().values[indices]

    def write(self, values: Array) -> None:
        indices = self._checked()
        if not self.gathers:
            self.at(indices[0]).write(values)
            return
        for row, index in enumerate(indices):
            self.at(index).write(values[row])

    def compute(self, function: Callable[..., Array], *values: Any) -> None:
        self.write(function(*values))

    def parts(self, known: bool) -> list[NkiTensor]:
        """Return the direct views to which this view resolves.

        If the index is not `known`, return a view of all elements that it could reach.
        """
        return [self.at(index) for index in self._checked()] if known else [self._table()]

    def at(self, index: int) -> NkiTensor:
        """Return the view at `index`, or the row that `index` selects if the view is a gather."""
        first = 1 if self.gathers else 0
        offset = self.offset + int(index) * self.step
        return NkiTensor(self.shape[first:], self._dtype, self.storage, strides=self.strides[first:], offset=offset)

    def _checked(self) -> Array:
        indices = self.indices
        outside = indices[(indices < 0) | (indices >= self.extent)]
        if outside.size:
            raise OutOfBoundsError(
                f"{self.storage.label}: index {outside[0]} at run time is out of bounds; it must be 0 to "
                f"{self.extent - 1}"
            )
        return indices

    def _table(self) -> NkiTensor:
        """Return a view of all elements that the index can reach."""
        if self.gathers:
            shape, strides = (self.extent, *self.shape[1:]), (self.step, *self.strides[1:])
        elif self.storage.on_chip:
            shape, strides = (self.shape[0], self.extent, *self.shape[1:]), (self.strides[0], self.step)
            strides = (*strides, *self.strides[1:])
        else:
            shape, strides = (self.extent, *self.shape), (self.step, *self.strides)
        return NkiTensor(shape, self._dtype, self.storage, strides=strides, offset=self.offset)

    def _rectangle(self) -> Access:
        return self._table().access._replace(covers=False)

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> IndirectTensor:
        if self.gathers and (not shape or (shape[0], strides[0]) != (self.shape[0], self.strides[0])):
            raise NkiValidationError(
                f"{self.label}: dimension 0 is addressed by a vector of indices and cannot be sliced or moved"
            )
        view = NkiTensor(shape, self._dtype, self.storage, strides=strides, offset=offset)
        return IndirectTensor(view, self.index, self.step, self.extent, self.gathers)

    def view(self, dtype: object) -> NkiTensor:
        raise NkiValidationError(f"view of {self.label}: not possible on an indirect view; take it before the index")


class ColumnsTensor(IndirectTensor):
    """The view created by `NkiTensor.indirect`: individual columns of a tile, at offsets stored in SBUF.

    The offsets are stored in `group` partitions, in column-major order. The engine that uses the view sets `group`.
    """

    __slots__ = ("group",)

    def __init__(self, view: NkiTensor, index: Any, step: int, extent: int, gathers: bool) -> None:
        super().__init__(view, index, step, extent, gathers)
        self.group = 16

    def check_offsets(self, what: str) -> None:
        """Raise an error if there are more columns than offsets in the index."""
        rows, count = self.index.shape[0], self.shape[1]
        offsets = rows if rows < self.group else self.group * self.index.free_size
        if count > offsets:
            raise NkiValidationError(
                f"{what}: {self.label} has {count} columns, but its index {self.index.label} has {offsets} offsets, "
                f"index[i % {self.group}, i // {self.group}]; specify num_elem"
            )

    def offsets(self, first: int = 0) -> Array:
        """Return the offsets stored in the group of partitions that starts at `first`."""
        indices = self.index.values.reshape(self.index.shape[0], -1)[first : first + self.group]
        offsets: Array = indices.T.reshape(-1)[: self.shape[1]].astype(np.int64)
        return offsets

    @property
    def indices(self) -> Array:
        return self.offsets()

    @property
    def values(self) -> Array:
        return self._table().values[:, self._checked()]

    def write(self, values: Array) -> None:
        for i, column in enumerate(self.parts(known=True)):
            column.write(values[:, i : i + 1])

    def at(self, index: int) -> NkiTensor:
        shape = (self.shape[0], 1)
        return NkiTensor(shape, self._dtype, self.storage, strides=self.strides, offset=self.offset + int(index))

    def _table(self) -> NkiTensor:
        shape = (self.shape[0], self.extent)
        return NkiTensor(shape, self._dtype, self.storage, strides=self.strides, offset=self.offset)

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> NoReturn:
        raise NkiValidationError(f"{self.label}: columns at run-time offsets cannot be sliced or moved")
