"""Views whose address depends on values known only when the kernel runs: one index, or one for each row.

The index is read when an instruction uses the view, not when the view is made. For dependencies an indirect view
touches all that its index could reach. Sources: nki/api/nki/language/__init__.py (select, vector_select, ap),
nki/deep-dives/nki-aps.rst ("Dynamic Access") of aws-neuron-sdk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import cast_values, shaped
from .core import active
from .dtypes import Array
from .errors import NkiValidationError, OutOfBoundsError
from .instruction import Access
from .memory import SBUF
from .registers import VirtualRegister
from .tensor import DynamicSlice, NkiTensor
from .views import resolve_index

_INDEX_TYPES = ("int32", "uint32")


class IndirectTensor(NkiTensor):
    """A view at `offset + index * step` elements, where `index` may be 0 to `extent` - 1.

    `gathers`: the index is a column, and row i of the view (its dimension 0) lies at the i-th index.
    """

    __slots__ = ("extent", "gathers", "index", "step")

    def __init__(self, view: NkiTensor, index: Any, step: int, extent: int, gathers: bool) -> None:
        super().__init__(view.shape, view._dtype, view.storage, strides=view.strides, offset=view.offset)
        self.index = index
        self.step = step
        self.extent = extent
        self.gathers = gathers
        active("an indirect view").dynamic = True

    def is_indirect(self) -> bool:
        return True

    @property
    def indices(self) -> Array:
        """The index of each row [n], or [1]; column by column where a gathering index has several."""
        if isinstance(self.index, VirtualRegister):
            return np.array([self.index.read(f"the address of {self.label}")])
        count = self.shape[0] if self.gathers else 1
        indices: Array = self.index.values.reshape(self.index.shape[0], -1).T.reshape(-1)[:count].astype(np.int64)
        return indices

    def inside(self) -> Array:
        """Which of the indices are in bounds."""
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

    def at(self, index: int) -> NkiTensor:
        """What the view, or a row of it, is for one index."""
        first = 1 if self.gathers else 0
        offset = self.offset + int(index) * self.step
        return NkiTensor(self.shape[first:], self._dtype, self.storage, strides=self.strides[first:], offset=offset)

    def _checked(self) -> Array:
        indices = self.indices
        outside = indices[(indices < 0) | (indices >= self.extent)]
        if outside.size:
            raise OutOfBoundsError(
                f"{self.storage.label}: index {outside[0]} at run time is out of bounds, allowed 0 to {self.extent - 1}"
            )
        return indices

    def _table(self) -> NkiTensor:
        """All that the index can reach."""
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

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> NkiTensor:
        if self.gathers and (not shape or (shape[0], strides[0]) != (self.shape[0], self.strides[0])):
            raise NkiValidationError(
                f"{self.label}: dimension 0 is addressed by a vector of indices and can be neither cut nor moved"
            )
        view = NkiTensor(shape, self._dtype, self.storage, strides=strides, offset=offset)
        return IndirectTensor(view, self.index, self.step, self.extent, self.gathers)

    def view(self, dtype: object) -> NkiTensor:
        raise NkiValidationError(f"view of {self.label}: not possible on an indirect view; take it before the index")


def select(tensor: NkiTensor, dim: int, index: Any) -> NkiTensor:
    """`tensor` without dimension `dim`, at an index in SBUF or in a register."""
    _single(tensor, "select")
    _scalar(tensor, index, "select")
    base = tensor.select(dim, 0)
    return IndirectTensor(base, index, tensor.strides[dim], tensor.shape[dim], gathers=False)


def window(tensor: NkiTensor, dim: int, start: Any, size: int) -> NkiTensor:
    """`size` elements of dimension `dim` from a start in SBUF or in a register."""
    _single(tensor, "an index")
    _scalar(tensor, start, "an index")
    if dim == 0 and tensor.storage.on_chip:
        raise NkiValidationError(f"{tensor.label}: the partitions cannot be chosen at run time")
    base = tensor.slice(dim, 0, size)
    return IndirectTensor(base, start, tensor.strides[dim], tensor.shape[dim] - size + 1, gathers=False)


def item(tensor: NkiTensor, keys: tuple[Any, ...], dim: int) -> NkiTensor:
    """`tensor[keys]`, where the key of dimension `dim` is no number."""
    key = keys[dim]
    start = key.start if isinstance(key, DynamicSlice) else key
    if not isinstance(start, (VirtualRegister, NkiTensor)):
        resolve_index(start, tensor.shape[dim], dim, tensor)  # tells what is wrong with it
    on_chip = tensor.storage.on_chip
    others = (*keys[:dim], slice(None), *keys[dim + 1 :])
    rest = tensor[others]
    position = sum(isinstance(k, (slice, DynamicSlice)) or (on_chip and d == 0) for d, k in enumerate(keys[:dim]))
    if isinstance(key, DynamicSlice):
        return window(rest, position, start, key.size)
    if rest.ndim <= (2 if on_chip else 1):  # an index leaves two dimensions on chip, one in HBM
        return window(rest, position, start, 1)
    return select(rest, position, start)


def vector_select(tensor: NkiTensor, dim: int, index: NkiTensor) -> NkiTensor:
    """`tensor` with row index[i] as its row i."""
    if dim != 0:
        raise NkiValidationError(f"vector_select of {tensor.label}: dim must be 0, came {dim}")
    _single(tensor, "vector_select")
    _vector(tensor, index, "vector_select")
    shape = (index.shape[0] * index.free_size, *tensor.shape[1:])
    base = NkiTensor(shape, tensor._dtype, tensor.storage, strides=tensor.strides, offset=tensor.offset)
    return IndirectTensor(base, index, tensor.strides[0], tensor.shape[0], gathers=True)


def offset(tensor: NkiTensor, pattern: NkiTensor, scalar: Any, vector: Any, dim: int) -> NkiTensor:
    """`pattern`, a view that `tensor.ap` made, moved by an index on dimension `dim` of `tensor`."""
    _single(tensor, "ap")
    if scalar is not None and vector is not None:
        raise NkiValidationError(f"ap of {tensor.label}: scalar_offset and vector_offset exclude each other")
    dim = tensor._dim(dim, "ap")
    old, new = tensor._dtype.itemsize, pattern._dtype.itemsize
    if tensor.strides[dim] * old % new:
        raise NkiValidationError(
            f"ap of {tensor.label}: a step of dimension {dim} is no multiple of the {new} bytes of {pattern.dtype}"
        )
    step = tensor.strides[dim] * old // new
    shape, strides = pattern.shape, pattern.strides
    if step < 1:
        raise NkiValidationError(f"ap of {tensor.label}: dimension {dim} is broadcast and takes no offset")
    if vector is not None:
        _vector(tensor, vector, "ap")
        if dim != 0 or vector.shape[0] * vector.free_size < shape[0]:
            raise NkiValidationError(
                f"ap of {tensor.label}: vector_offset {vector.label} needs indirect_dim 0 (came {dim}) and an index "
                f"for each of the {shape[0]} rows of the pattern"
            )
        shape, strides = shape[1:], strides[1:]
        pattern = NkiTensor(
            pattern.shape, pattern._dtype, pattern.storage, strides=(step, *strides), offset=pattern.offset
        )
    else:
        _scalar(tensor, scalar, "ap")
        if dim == 0 and tensor.storage.on_chip:
            raise NkiValidationError(f"ap of {tensor.label}: the partitions cannot be chosen at run time")
    first = 1 if tensor.storage.on_chip else 0
    reach = sum(stride * (count - 1) for stride, count in zip(strides[first:], shape[first:]))
    room = pattern.row - 1 - reach - pattern.offset % pattern.row
    return IndirectTensor(pattern, vector if scalar is None else scalar, step, room // step + 1, vector is not None)


def move(dst: NkiTensor, src: NkiTensor, skip: bool) -> None:
    """dst = src where either is indirect; rows whose index is out of bounds are left alone (`skip`) or an error."""
    masks = [t.inside() for t in (dst, src) if isinstance(t, IndirectTensor)]
    if not skip or all(mask.all() for mask in masks):
        dst.write(shaped(cast_values(src, dst), dst.shape))
        return
    rows = max(mask.size for mask in masks)
    kept = np.logical_and.reduce([np.broadcast_to(mask, rows) for mask in masks])
    if not any(isinstance(t, IndirectTensor) and t.gathers for t in (dst, src)):
        return  # the one index is out of bounds: nothing is moved
    if dst.shape[0] != rows or src.shape[0] != rows:
        raise NkiValidationError(
            f"dma_copy: oob_mode skip needs dst {dst.label} and src {src.label} to have {rows} rows, one an index"
        )
    for row in np.flatnonzero(kept):
        target, source = _row(dst, int(row)), _row(src, int(row))
        target.write(shaped(cast_values(source, target), target.shape))


def _row(tensor: NkiTensor, row: int) -> NkiTensor:
    if isinstance(tensor, IndirectTensor) and tensor.gathers:
        return tensor.at(tensor.indices[row])
    return tensor[row : row + 1]


def _single(tensor: NkiTensor, what: str) -> None:
    if tensor.is_indirect():
        raise NkiValidationError(f"{what} of {tensor.label}: it is indirect already; one index at run time is possible")


def _scalar(tensor: NkiTensor, index: Any, what: str) -> None:
    if isinstance(index, VirtualRegister):
        return
    if not isinstance(index, NkiTensor):
        raise NkiValidationError(
            f"{what} of {tensor.label}: the index must be an integer, a register or a tensor of one element in SBUF, "
            f"came {type(index).__name__}"
        )
    if index.size != 1 or index.storage.region is not SBUF or index.dtype not in _INDEX_TYPES:
        raise NkiValidationError(
            f"{what} of {tensor.label}: index {index.label} must be one int32 or uint32 in SBUF, or a register"
        )


def _vector(tensor: NkiTensor, index: Any, what: str) -> None:
    if not isinstance(index, NkiTensor) or index.storage.region is not SBUF or index.dtype not in _INDEX_TYPES:
        shown = index.label if isinstance(index, NkiTensor) else type(index).__name__
        raise NkiValidationError(
            f"{what} of {tensor.label}: the indices must be int32 or uint32 in SBUF, [rows, 1], came {shown}"
        )
    if tensor.storage.on_chip:
        raise NkiValidationError(f"{what} of {tensor.label}: only a tensor in HBM takes a vector of indices")
