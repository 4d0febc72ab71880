"""Compute the shape and strides of views after indexing, slicing or reshaping."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any

from ..machine.errors import NkiValidationError, OutOfBoundsError


@lru_cache(maxsize=4096)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a dense tensor in which the last dimension is innermost."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def is_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def dimensions(tensor: Any) -> int:
    """Count the dimensions of a view's access pattern after merging contiguous dimensions."""
    first = 1 if tensor.storage.on_chip else 0
    count = first  # the partition dimension
    inner = 0
    for extent, stride in zip(reversed(tensor.shape[first:]), reversed(tensor.strides[first:])):
        if extent == 1:
            continue
        count += stride != inner
        inner = stride * extent
    return count


def comb(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return (step, run) if the elements are the first `run` of every `step` elements, otherwise (0, 0)."""
    run = 1
    step = 0
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent == 1 or stride == 0:
            continue
        if stride == run and not step:
            run *= extent
        elif not step:
            step = stride
        elif stride % step:
            return 0, 0
    return (step, run) if step > run else (0, 0)


def fill_ellipsis(keys: tuple[Any, ...], ndim: int, tensor: Any) -> tuple[Any, ...]:
    explicit = [key for key in keys if key is not Ellipsis]
    if len(explicit) > ndim:
        raise OutOfBoundsError(f"{tensor.label}: got {len(explicit)} indices for {ndim} dimensions")
    if len(keys) - len(explicit) > 1:
        raise OutOfBoundsError(f"{tensor.label}: only one index may be `...`, got {len(keys) - len(explicit)}")
    at = keys.index(Ellipsis) if len(explicit) < len(keys) else len(keys)
    return (*keys[:at], *[slice(None)] * (ndim - len(explicit)), *keys[at + 1 :])


def resolve_slice(item: slice, extent: int, dim: int, tensor: Any) -> tuple[int, int, int]:
    start, stop, step = item.start, item.stop, item.step
    start = 0 if start is None else start
    stop = extent if stop is None else stop
    if step is None and type(start) is int and type(stop) is int and 0 <= start <= stop <= extent:
        return start, stop - start, 1
    step = 1 if step is None else step
    if start < 0:
        start += extent
    if stop < 0:
        stop += extent
    if step < 1:
        raise NkiValidationError(f"{tensor.label}: slices must have a positive step, got {step} in dimension {dim}")
    if not 0 <= start <= stop <= extent:
        raise OutOfBoundsError(f"{tensor.label}: {start}:{stop} of dimension {dim} must lie in 0:{extent}")
    count = (stop - start + step - 1) // step
    if type(count) is not int:
        start, count, step = integers((start, count, step), f"{tensor.label}: slice of dimension {dim}")
    return start, count, step


def integers(values: Any, what: str) -> tuple[int, ...]:
    """Convert a sequence to Python integers. Raise NkiValidationError if it is not a sequence of integers."""
    try:
        return tuple(index(value) for value in values)
    except TypeError:
        raise NkiValidationError(f"{what}: {values!r} must be integers") from None


def shape_of(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple. A single number is a shape with one dimension."""
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def resolve_index(item: Any, extent: int, dim: int, tensor: Any) -> int:
    try:
        index = item.__index__()
    except AttributeError:
        raise NkiValidationError(
            f"{tensor.label}: index {item!r} of dimension {dim} must be an integer, a slice, `...` or nl.ds"
        ) from None
    if not -extent <= index < extent:
        raise OutOfBoundsError(
            f"{tensor.label}: index {index} of dimension {dim} is out of bounds; it must be 0 to {extent - 1}"
        )
    return int(index) % extent


def infer(shape: tuple[int, ...], size: int, what: str) -> tuple[int, ...]:
    if type(sum(shape)) is not int:
        shape = integers(shape, f"{what}: shape")
    known = 1
    for extent in shape:
        known *= extent if extent != -1 else 1
    if shape.count(-1) == 1 and known > 0 and size % known == 0:
        shape = tuple(size // known if extent == -1 else extent for extent in shape)
        known = size
    if known != size or min(shape, default=1) < 1:
        raise NkiValidationError(f"{what}: shape {shape} does not hold {size} elements")
    return shape


def _dense_runs(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Merge dimensions into runs of (elements, innermost stride)."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides):
        if extent == 1:
            continue
        if runs and runs[-1][1] == stride * extent:
            runs[-1] = (runs[-1][0] * extent, stride)
        else:
            runs.append((extent, stride))
    return runs


def strides_of_reshape(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the strides of the same elements with shape `new`, or None if that would require a copy."""
    runs = _dense_runs(shape, strides)
    result: list[int] = []
    left, inner = runs.pop() if runs else (1, 1)
    for extent in reversed(new):
        if extent == 1:
            result.append(inner)
            continue
        if left == 1 and runs:
            left, inner = runs.pop()
        if left % extent:
            return None
        result.append(inner)
        left //= extent
        inner *= extent
    return tuple(reversed(result))


def reaches_outside(view: Any, shape: Sequence[int], strides: Sequence[int], start: int) -> bool:
    """Return True if an access pattern that begins at element `start` extends beyond the storage."""
    first = 1 if view.storage.on_chip else 0
    reach = sum(stride * (count - 1) for stride, count in zip(strides[first:], shape[first:]))
    if not first:
        return start + reach >= view.row
    partition, element = divmod(start, view.row)
    return partition + shape[0] > view.storage.shape[0] or element + reach >= view.row
