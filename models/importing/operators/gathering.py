"""Selection of entries by constant indices, along one axis or several."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ...errors import ModelError
from ..importer import Importer
from ..onnx_attributes import integer
from ..onnx_file import Node
from ..view import View
from .rearranging import MAX_SELECTED, reshaped, select_entries, slice_axis


def constant_indices(importer: Importer, node: Node) -> np.ndarray:
    """Return the indices of a node, its second operand. Raise ModelError unless they are constant integers."""
    indices = importer.constant(node, 1)
    if indices is None or indices.dtype.kind not in "iu" or not indices.size:
        raise ModelError("its indices are not a list of integers")
    return indices


def _check_count(indices: np.ndarray) -> None:
    """Raise ModelError if too many entries are selected."""
    if indices.size > MAX_SELECTED:
        raise ModelError(f"cannot select {indices.size} entries; the limit is {MAX_SELECTED}")


def _in_range(indices: np.ndarray, extent: int) -> np.ndarray:
    """Return indices counted from the start of an axis, given indices that may be negative."""
    entries: np.ndarray = indices + np.where(indices < 0, extent, 0)
    if not 0 <= entries.min() <= entries.max() < extent:
        raise ModelError(f"cannot select entries {entries.min()} to {entries.max()} of {extent}")
    return entries


def _selected(importer: Importer, view: View, axis: int, entries: np.ndarray) -> View:
    """Replace an axis by the axes of `entries`."""
    indices = entries.ravel().tolist()
    turned = view.strided(axis, indices)
    if indices == list(range(indices[0], indices[-1] + 1)):
        part = slice_axis(importer, view, axis, indices[0], indices[-1] + 1)
    elif turned is not None:
        part = turned
    else:
        part = select_entries(importer, view, axis, indices)
    return part.reshaped((*part.shape[:axis], *entries.shape, *part.shape[axis + 1 :]), part.batched)


def _gather(importer: Importer, node: Node) -> None:
    view = importer.with_axis(importer.data(node), integer(node, "axis", 0), node)
    axis = importer.axis(view, integer(node, "axis", 0))
    indices = constant_indices(importer, node)
    _check_count(indices)
    entries = _in_range(indices, view.shape[axis])
    result = _selected(importer, view, axis, entries)
    if importer.stacks_batch(view):  # the axes of the indices replace the selected one
        batch_axis = view.place + (entries.ndim - 1 if axis < view.place else 0)
        result = dataclasses.replace(result, place=batch_axis, outside=view.outside)
    importer.give(node, result)


def _gather_nd(importer: Importer, node: Node) -> None:
    """Select elements of the leading axes, counted as one axis, as PyTorch's indexing by several lists does."""
    view, indices = importer.data(node), constant_indices(importer, node)
    if not importer.is_open and importer.batch == 1:
        view = importer.single(view)
    count = indices.shape[-1]
    if integer(node, "batch_dims", 0):
        raise ModelError("its batch_dims must be 0")
    if view.batched or (importer.stacks_batch(view) and view.place < count):
        raise ModelError(
            "selecting from each example of a batch is not supported; export the network for a batch of one"
        )
    if not 1 <= count <= len(view.axes):
        raise ModelError(f"each of its indices has {count} coordinates, but its input is {importer.describe(view)}")
    sides, rest = view.shape[:count], view.shape[count:]
    entries = [_in_range(indices[..., axis], side) for axis, side in enumerate(sides)]
    lines = _lines(entries)
    if lines is not None:
        result = view
        for axis, line in enumerate(lines):
            result = _selected(importer, result, axis, line)
    else:
        _check_count(indices)
        merged = reshaped(importer, view, (math.prod(sides), *rest), False)
        result = _selected(importer, merged, 0, np.asarray(np.ravel_multi_index(entries, sides)))
    if importer.stacks_batch(view):  # the axes of the indices replace the leading axes
        batch_axis = view.place - count + indices.ndim - 1
        result = dataclasses.replace(result, place=batch_axis, outside=view.outside)
    importer.give(node, result)


def _lines(entries: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Return the entries of each axis if they form a grid, as in nearest-neighbour resizing of an image."""
    grid = entries[0].shape
    if not 1 < len(grid) == len(entries):
        return None
    lines = []
    for axis, entry in enumerate(entries):
        line = entry[tuple(slice(None) if other == axis else slice(1) for other in range(len(grid)))]
        if (entry != line).any():
            return None
        lines.append(line.ravel())
    return lines


OPERATORS = {
    "Gather": _gather,
    "GatherND": _gather_nd,
}
