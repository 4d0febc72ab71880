"""Concatenate tokens, such as a class token and the tokens of an image, as columns of one image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import ModelError
from ..layers import Affine, Combine, Pad
from .importer import Importer
from .view import Factor, View


def _add_padded(importer: Importer, total: str, inner: str, padding: tuple[int, int, int, int]) -> str:
    """Pad a layer with zeros, add it to the layer `total` ("" for none), and return the result."""
    padded = importer.add(Pad(importer.name("beside"), padding, inputs=(inner,))).layer
    if not total:
        return padded
    return importer.add(Combine(importer.name("add"), "add", inputs=(total, padded))).layer


def beside_columns(importer: Importer, names: Sequence[str], first: View, axis: int) -> View | None:
    """Concatenate values along an axis that corresponds to the pixels of their layers; return None for other axes.

    Each value is padded with zeros to the total number of columns, and the padded images and constants are added.
    """
    views = [importer.views.get(name) for name in names]
    present = [view for view in views if view is not None]
    inner_axis = axis % first.rank - first.batched
    if len(names) < 2 or inner_axis < 0 or not all(_are_columns(importer, view, first, inner_axis) for view in present):
        return None
    order = (*(other for other in present[0].order() if other != inner_axis), inner_axis)
    operands: list[View | np.ndarray | None] = [
        _constant(importer, name, first) if view is None else view for name, view in zip(names, views)
    ]
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands):
        return None
    sizes = [first.shape[axis] for axis in order[:-1]]
    counts = [operand.shape[inner_axis] for operand in known]
    channels, total = math.prod(sizes), sum(counts)
    numbers, start, source = np.zeros((channels, 1, total), np.float32), 0, ""
    for operand, count in zip(known, counts):
        if isinstance(operand, View):
            inner = importer.builder.arrange(operand.permuted(order), (channels, 1, count))
            source = _add_padded(importer, source, inner, (0, start, 0, total - start - count))
        else:
            fitting = np.broadcast_to(operand.transpose(order), (*sizes, count))
            numbers[:, 0, start : start + count] = fitting.reshape(channels, count)
        start += count
    if len(present) < len(views):
        layer = Affine(importer.name("affine"), numbers.shape, inputs=(source,))
        source = importer.add(layer, {"scale": np.ones_like(numbers), "shift": numbers}).layer
    spread = View.of(source, (channels, 1, total)).reshaped((*sizes, total), first.batched)
    return spread.permuted(tuple(order.index(axis) for axis in range(len(order))))


def _are_columns(importer: Importer, view: View, first: View, place: int) -> bool:
    """Return True if an axis of a view contains all pixels of its layer, and the other axes match the first view."""
    shape, extent = importer.builder.shapes.get(view.layer, ()), view.shape[place] if place < len(view.axes) else 0
    alike = len(view.axes) == len(first.axes) and view.batched == first.batched
    alike = alike and all(a == b for axis, (a, b) in enumerate(zip(view.shape, first.shape)) if axis != place)
    is_plane = len(shape) == 3 and extent > 1 and math.prod(shape[1:]) == extent
    return alike and is_plane and view.axes[place] == (Factor(extent, 1),)


def _constant(importer: Importer, name: str, first: View) -> np.ndarray | None:
    """Return a constant without its batch axis, or None if its shape does not fit."""
    values = importer.constants.get(name)
    if values is None or values.ndim != first.rank:
        return None
    values = importer.of_one_input(first, values)
    if first.batched and len(values) != 1:
        return None
    if not np.isfinite(values).all():
        raise ModelError("cannot concatenate data with a constant that contains NaN or infinity")
    return values[0] if first.batched else values
