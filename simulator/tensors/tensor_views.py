"""View operations of NKI tensors, which change the shape and strides without copying data.

Sources: nki/api/nki/language/__init__.py, nki/get-started/nki-language-guide.rst of aws-neuron-sdk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from ..machine.errors import NkiValidationError, OutOfBoundsError
from ..machine.objects import DynamicSlice
from ..machine.registers import is_known
from .tensor_operators import WithoutOperators
from .views import fill_ellipsis, infer, resolve_index, resolve_slice, shape_of, strides_of_reshape

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorViews(WithoutOperators):
    """View operations at addresses that are known during tracing. A subclass handles other addresses."""

    __slots__ = ()

    copy_into: ClassVar[Callable[[Any, Any], Any]]  # the instruction that copies a tile into a view
    check_reshape: ClassVar[Callable[[Any, tuple[int, ...]], None]]  # checks the reshape of a single partition

    def _item_at_run_time(self, keys: tuple[Any, ...], dim: int) -> Self:
        """Return `self[keys]`, where the key of dimension `dim` is known only at run time."""
        raise NotImplementedError

    def _select_at_run_time(self, dim: int, index: Any) -> Self:
        """Return `self` without dimension `dim`, at an index that is known only at run time."""
        raise NotImplementedError

    def _empty(self, shape: tuple[int, ...], strides: tuple[int, ...], key: Any) -> Self:
        """Return `self[key]` for a key that selects no elements."""
        raise NotImplementedError

    def _view(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Self:
        return type(self)(shape, self._dtype, self.storage, strides, offset)

    def __getitem__(self, key: Any) -> Self:
        keys = self._keys(key)
        shape, strides = self.shape, self.strides
        on_chip = self.storage.on_chip
        least = 1 + on_chip  # dimensions that a tensor must have
        offset = self.offset
        new_shape: list[int] = []
        new_strides: list[int] = []
        for dim, item in enumerate(keys):
            extent, stride = shape[dim], strides[dim]
            if type(item) is not slice and type(item) is not int:
                item = _known(item)
                if item is None:
                    return self._item_at_run_time(keys, dim)
            if type(item) is slice:
                start, count, step = resolve_slice(item, extent, dim, self)
                new_shape.append(count)
                new_strides.append(stride * step)
                offset += start * stride
                continue
            offset += resolve_index(item, extent, dim, self) * stride
            if (on_chip and dim == 0) or (dim == len(shape) - 1 and len(new_shape) < least):
                new_shape.append(1)
                new_strides.append(stride)
        if 0 in new_shape:
            return self._empty(tuple(new_shape), tuple(new_strides), key)
        return self._view(tuple(new_shape), tuple(new_strides), offset)

    def _keys(self, key: Any) -> tuple[Any, ...]:
        """Return a key for each dimension. Partitions cannot be sliced with a step."""
        keys = key if type(key) is tuple else (key,)
        if Ellipsis in keys or len(keys) != len(self.shape):
            keys = fill_ellipsis(keys, len(self.shape), self)
        first = keys[0]
        if type(first) is slice and first.step not in (None, 1) and self.storage.on_chip:
            raise NkiValidationError(f"{self.label}: partitions cannot be sliced with a step, got {first.step}")
        return keys

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy a tile into part of this tile, as in the examples of nki/migration/index.rst."""
        if not isinstance(value, TensorViews) or not self.storage.on_chip:
            raise NkiValidationError(
                f"{self.label}: cannot assign to a tensor; write to it with an instruction (nisa.tensor_copy, "
                "nisa.dma_copy). Assignment to a slice is supported only between tiles"
            )
        type(self).copy_into(self[key], value)

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> Self:
        dim = self._dim(dim, "slice")
        keys: list[Any] = [slice(None)] * self.ndim
        keys[dim] = slice(start, end, step)
        return self[tuple(keys)]

    def select(self, dim: int, index: Any) -> Self:
        dim = self._dim(dim, "select")
        self._not_partition(dim, "select")
        if not is_known(index):
            return self._select_at_run_time(dim, index)
        index = resolve_index(index, self.shape[dim], dim, self)
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
            self.offset + index * self.strides[dim],
        )

    def permute(self, dims: tuple[int, ...]) -> Self:
        if sorted(dims) != list(range(self.ndim)):
            raise NkiValidationError(
                f"permute of {self.label}: dims {tuple(dims)} are not a permutation of its dimensions"
            )
        if self.storage.on_chip and dims[0] != 0:
            raise NkiValidationError(
                f"permute of {self.label}: the partition dimension must stay first, got {tuple(dims)}"
            )
        return self._view(tuple(self.shape[d] for d in dims), tuple(self.strides[d] for d in dims), self.offset)

    def broadcast(self, dim: int, size: int) -> Self:
        dim = self._dim(dim, "broadcast")
        self._not_partition(dim, "broadcast")
        if self.shape[dim] != 1:
            raise NkiValidationError(f"broadcast of {self.label}: dimension {dim} must be 1, got {self.shape[dim]}")
        if size < 1:
            raise NkiValidationError(f"broadcast of {self.label}: size must be at least 1, got {size}")
        return self._view(
            (*self.shape[:dim], size, *self.shape[dim + 1 :]),
            (*self.strides[:dim], 0, *self.strides[dim + 1 :]),
            self.offset,
        )

    def expand_dim(self, dim: int) -> Self:
        if not 0 <= dim <= self.ndim:
            raise OutOfBoundsError(f"expand_dim of {self.label}: dimension {dim} is outside the range 0 to {self.ndim}")
        self._not_partition(dim, "expand_dim")
        stride = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        return self._view(
            (*self.shape[:dim], 1, *self.shape[dim:]), (*self.strides[:dim], stride, *self.strides[dim:]), self.offset
        )

    def squeeze_dim(self, dim: int) -> Self:
        dim = self._dim(dim, "squeeze_dim")
        self._not_partition(dim, "squeeze_dim")
        if self.shape[dim] != 1:
            raise NkiValidationError(f"squeeze_dim of {self.label}: dimension {dim} must be 1, got {self.shape[dim]}")
        return self._view(
            self.shape[:dim] + self.shape[dim + 1 :], self.strides[:dim] + self.strides[dim + 1 :], self.offset
        )

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> Self:
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

    def flatten_dims(self, start_dim: int, end_dim: int) -> Self:
        start, end = self._dim(start_dim, "flatten_dims"), self._dim(end_dim, "flatten_dims")
        self._not_partition(start, "flatten_dims")
        merged = 1
        for extent in self.shape[start : end + 1]:
            merged *= extent
        return self._reshape((*self.shape[:start], merged, *self.shape[end + 1 :]), "flatten_dims")

    def reshape(self, shape: tuple[int, ...]) -> Self:
        extents = infer(shape_of(shape), self.size, f"reshape of {self.label}")
        if self.storage.on_chip and extents[0] != self.shape[0]:
            raise NkiValidationError(
                f"reshape of {self.label}: the partition dimension must stay {self.shape[0]}, got {extents[0]}"
            )
        if self.storage.on_chip and extents[0] == 1:
            type(self).check_reshape(self, extents)
        return self._reshape(extents, "reshape")

    def _reshape(self, shape: tuple[int, ...], what: str) -> Self:
        strides = strides_of_reshape(self.shape, self.strides, shape)
        if strides is None:
            raise NkiValidationError(
                f"{what} of {self.label}: strides {self.strides} do not allow a view of shape {shape}"
            )
        return self._view(shape, strides, self.offset)

    def rearrange(
        self, src_pattern: tuple[Any, ...], dst_pattern: tuple[Any, ...], fixed_sizes: dict[str, int] | None = None
    ) -> Self:
        """Split, reorder and merge dimensions by name, like `einops.rearrange`."""
        sizes = dict(fixed_sizes or {})
        tensor, names = self, list[str]()
        for group in src_pattern:
            members = _members(group)
            dim = len(names)
            extents = infer(tuple(sizes.get(n, -1) for n in members), tensor.shape[dim], f"rearrange of {self.label}")
            tensor = tensor.reshape_dim(dim, extents) if len(members) > 1 else tensor
            names.extend(members)
        groups = list(map(_members, dst_pattern))
        result_names = [name for group in groups for name in group]
        if sorted(result_names) != sorted(names) or len(names) != tensor.ndim:
            raise NkiValidationError(
                f"rearrange of {self.label}: {dst_pattern} does not name the dimensions of {src_pattern}"
            )
        tensor = tensor.permute(tuple(names.index(n) for n in result_names))
        for position, group in enumerate(groups):
            if len(group) > 1:
                tensor = tensor.flatten_dims(position, position + len(group) - 1)
        return tensor

    def _dim(self, dim: int, what: str) -> int:
        if not -self.ndim <= dim < self.ndim:
            raise OutOfBoundsError(f"{what} of {self.label}: dimension {dim} is outside 0 to {self.ndim - 1}")
        return dim % self.ndim

    def _not_partition(self, dim: int, what: str) -> None:
        if dim == 0 and self.storage.on_chip:
            raise NkiValidationError(f"{what} of {self.label}: not possible on the partition dimension")


def _known(key: Any) -> Any:
    """Return a key as an integer or a slice, or None if it is known only at run time."""
    if not isinstance(key, DynamicSlice):
        return key if is_known(key) else None
    return slice(key.start, key.start + key.size) if is_known(key.start) else None


def _members(group: Any) -> tuple[str, ...]:
    """Return the names of a group of dimensions."""
    return (group,) if isinstance(group, str) else tuple(group)
