"""Check indices whose values are known from the source against the shape of a tensor.

The rules are those of `NkiTensor.__getitem__`: an index may count from the end, and a view keeps two dimensions on chip
and one in HBM.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from .scope import FunctionScope

Number = Callable[["ast.expr | None"], "int | None"]
RULE = "index-range"


def view_shape(shape: tuple[int, ...], on_chip: bool, view: ast.Subscript, number: Number) -> tuple[int, ...] | None:
    """Return the shape of a view, or None if it is unknown or if an index is out of range."""
    indices = _each_index(view, len(shape))
    if indices is None:
        return None
    extents: list[int] = []
    for dimension, (index, extent) in enumerate(zip(indices, shape)):
        count = _count(index, extent, number)
        if count is None:
            return None
        last = dimension == len(shape) - 1
        is_kept = (on_chip and dimension == 0) or (last and len(extents) < (2 if on_chip else 1))
        if isinstance(index, ast.Slice) or is_kept:
            extents.append(count)
    return tuple(extents)


def _count(index: ast.expr, extent: int, number: Number) -> int | None:
    """Return the number of elements that an index selects, or None if it is unknown or out of range."""
    if isinstance(index, ast.Slice):
        bounds = _bounds(index, extent, number)
        is_inside = bounds is not None and 0 <= bounds[0] < bounds[1] <= extent
        return -((bounds[0] - bounds[1]) // bounds[2]) if bounds is not None and is_inside else None
    position = number(index)
    return 1 if position is not None and -extent <= position < extent else None


def check_subscript(
    scope: FunctionScope, shape: tuple[int, ...], on_chip: bool, view: ast.Subscript, number: Number
) -> None:
    """Report indices of a tensor that lie outside its shape, and partitions that are sliced with a step."""
    first = next(iter(_each_index(view, len(shape)) or ()), None)
    step = number(first.step) if on_chip and isinstance(first, ast.Slice) and first.step is not None else None
    if step not in (None, 1):
        message = f"{ast.unparse(view)}: partitions cannot be sliced with a step, got {step}"
        scope.report(view, RULE, message)
    for message in _faults(shape, view, number):
        scope.report(view, RULE, f"{ast.unparse(view)} of a tensor {list(shape)}: {message}")


def _faults(shape: tuple[int, ...], view: ast.Subscript, number: Number) -> Iterator[str]:
    indices = _indices(view)
    count = sum(not _is_ellipsis(index) for index in indices)
    if count > len(shape) and not any(isinstance(index, ast.Starred) for index in indices):
        yield f"{count} indices for {len(shape)} dimensions"
        return
    for dimension, (index, extent) in enumerate(zip(_each_index(view, len(shape)) or (), shape)):
        if isinstance(index, ast.Slice):
            bounds = _bounds(index, extent, number)
            if bounds is not None and not 0 <= bounds[0] <= bounds[1] <= extent:
                yield f"{bounds[0]}:{bounds[1]} of dimension {dimension} must lie in 0:{extent}"
            continue
        position = number(index)
        if position is not None and not -extent <= position < extent:
            yield f"index {position} of dimension {dimension} is out of bounds; it must be 0 to {extent - 1}"


def _bounds(index: ast.Slice, extent: int, number: Number) -> tuple[int, int, int] | None:
    """Return the start, stop and step of a slice, or None if one of them is unknown."""
    start = 0 if index.lower is None else number(index.lower)
    stop = extent if index.upper is None else number(index.upper)
    step = 1 if index.step is None else number(index.step)
    if start is None or stop is None or step is None or step < 1:
        return None
    return start + extent * (start < 0), stop + extent * (stop < 0), step


def _each_index(view: ast.Subscript, rank: int) -> list[ast.expr] | None:
    """Return one index for each dimension, or None for a subscript that the simulator refuses or that is expanded."""
    indices = _indices(view)
    count = sum(not _is_ellipsis(index) for index in indices)
    if count > rank or len(indices) - count > 1 or any(isinstance(item, ast.Starred) for item in indices):
        return None
    at = next((position for position, index in enumerate(indices) if _is_ellipsis(index)), len(indices))
    filling: list[ast.expr] = [ast.Slice() for _ in range(rank - count)]
    return [*indices[:at], *filling, *indices[at + 1 :]]


def _indices(view: ast.Subscript) -> list[ast.expr]:
    return view.slice.elts if isinstance(view.slice, ast.Tuple) else [view.slice]


def _is_ellipsis(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and index.value is Ellipsis
