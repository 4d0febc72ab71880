"""Assignment to a slice of a value, as exporters write PyTorch's `x[..., :2] = y` with constant indices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...errors import ModelError
from ..importer import Importer
from ..onnx_attributes import integer, text
from ..onnx_file import Node
from ..view import View
from .gathering import constant_indices
from .rearranging import filled_entries, put_together, reshaped, slice_axis

_SCATTERED = "assigns to elements that are not a slice of one axis, which is not supported"


class Span(NamedTuple):
    """The first index of a slice, the one after the last, and the distance between its entries."""

    first: int
    last: int
    step: int = 1


def _indices(importer: Importer, node: Node) -> np.ndarray:
    indices = constant_indices(importer, node)
    if text(node, "reduction", "none") != "none":
        raise ModelError("its reduction is not supported")
    if importer.is_open and importer.data(node).batched:
        if node.inputs[1] in importer.literals:
            raise ModelError(
                "assigns to the first input of a batch, whose size is not fixed; export the network for a batch of one"
            )
        importer.doubt = "its assignments to a batch, whose size is not fixed, may leave out some of its inputs"
    return indices


def _span(entries: np.ndarray, size: int) -> Span:
    """Return the span of entries that are consecutive, or that are every second, third, ... entry of the axis."""
    entries = np.where(entries < 0, entries + size, entries)
    ordered = entries.reshape(len(entries), -1)[:, 0]
    first, count = int(ordered[0]), len(ordered)
    step = int(ordered[1]) - first if count > 1 else 1
    span = Span(first, first + (count - 1) * step + 1, step)
    expected = (first + step * np.arange(count)).reshape(-1, *[1] * (entries.ndim - 1))
    is_regular = step == 1 or (step > 1 and size == count * step and first < step)
    if not is_regular or (entries != expected).any() or span.last > size:
        raise ModelError(_SCATTERED)
    return span


def _scatter_nd(importer: Importer, node: Node) -> None:
    """Assign to a slice of the leading axes, whose elements are listed in order."""
    view, indices = importer.data(node), _indices(importer, node)
    sizes = (importer.batch, *view.shape) if view.batched else view.shape
    count = indices.shape[-1]
    places = indices.reshape(-1, count)
    extents = [len(np.unique(places[:, axis])) for axis in range(count)]
    if not 1 <= count <= len(sizes) or np.prod(extents) != len(places):
        raise ModelError(_SCATTERED)
    grid = np.moveaxis(places.reshape(*extents, count), -1, 0)
    spans = [_span(np.moveaxis(grid[axis], axis, 0), sizes[axis]) for axis in range(count)]
    parts = [axis for axis, span in enumerate(spans) if span != Span(0, sizes[axis])]
    if len(parts) > 1 or (view.batched and 0 in parts):
        raise ModelError(_SCATTERED)
    axis = parts[0] if parts else int(view.batched)
    span = spans[axis] if parts else Span(0, sizes[axis])
    importer.give(node, _assigned(importer, node, view, axis - view.batched, span))


def _scatter_elements(importer: Importer, node: Node) -> None:
    """Assign to entries of an axis; the entries must be the same for all indices of the other axes."""
    view, indices = importer.data(node), _indices(importer, node)
    axis = importer.axis(view, integer(node, "axis", 0))
    entries = np.moveaxis(indices, axis + view.batched, 0)
    sizes = [size for index, size in enumerate(view.shape) if index != axis]
    if entries.shape[1:] != ((importer.batch, *sizes) if view.batched else tuple(sizes)):
        raise ModelError(_SCATTERED)
    importer.give(node, _assigned(importer, node, view, axis, _span(entries, view.shape[axis])))


def _assigned(importer: Importer, node: Node, view: View, axis: int, span: Span) -> View:
    """Return a view in which a span of an axis is replaced by the third operand of a node."""
    first, last, step = span
    if step > 1:  # the slice is one column of the axis, split into rows of `step` entries
        split = (*view.shape[:axis], view.shape[axis] // step, step, *view.shape[axis + 1 :])
        table = reshaped(importer, view, split, view.batched)
        first_part = _assigned(importer, node, table, axis + 1, Span(first, first + 1))
        return reshaped(importer, first_part, view.shape, view.batched)
    shape = (*view.shape[:axis], last - first, *view.shape[axis + 1 :])
    numbers = importer.constants.get(node.inputs[2])
    if numbers is not None:
        rows = numbers.reshape(-1, *shape)
        if (rows != rows[:1]).any():
            raise ModelError("assigns values that differ between the inputs of a batch")
        part = filled_entries(importer, view, axis, last - first, rows[:1] if view.batched else rows[0])
    else:
        updates = importer.data(node, 2)
        updates = updates.with_batch() if view.batched else importer.single(updates) if updates.batched else updates
        part = reshaped(importer, updates, shape, view.batched)
    pieces = [part]
    if first > 0:
        pieces.insert(0, slice_axis(importer, view, axis, 0, first))
    if last < view.shape[axis]:
        pieces.append(slice_axis(importer, view, axis, last, view.shape[axis]))
    return put_together(importer, pieces, axis)


OPERATORS = {
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
}
