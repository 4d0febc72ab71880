"""Padding along any axis except the batch axis, with a constant or with entries of the axis itself."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...errors import ModelError
from ...layers import Pad
from ...layers.pad import MODES
from ..importer import Importer
from ..onnx_attributes import integer, padded_entries, text
from ..onnx_file import Node
from ..onnx_patterns import ROLL
from ..steps import finite
from ..view import View
from .convolution import Movement, add_convolution
from .rearranging import filled_entries, put_together, select_entries, slice_axis


def _pad(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    pads = padded_entries(node, [None, *(importer.constant(node, position) for position in range(1, 4))], view.rank)
    value = float(node.attributes.get("value", 0.0)) if "pads" in node.attributes else importer.scalar(node, 2, 0.0)  # type: ignore[arg-type]
    if not (pads[0] or pads[view.rank]):
        view = view.with_batch()
    value = float(finite(np.array(value)))  # for example, padding before a max-pooling
    if not any(pads):
        importer.give(node, view)
        return
    rank = view.rank
    if view.batched and (pads[0] or pads[rank]):
        raise ModelError("pads the batch")
    mode = text(node, "mode", "constant")
    if mode != "constant":
        importer.give(node, _pad_by_pixels(importer, view, pads, mode))
        return
    before, after = pads[view.batched : rank], pads[rank + view.batched :]
    if len(view.axes) == 1 or len(view.axes) > 3:
        importer.give(node, _pad_many_axes(importer, view, before, after, value))
    else:
        importer.give(node, _pad_with(importer, view, before, after, value))


def _pad_many_axes(importer: Importer, view: View, before: list[int], after: list[int], value: float) -> View:
    """Pad a view that is not an image: without its unpadded axes of size 1, or else axis by axis."""
    axes_kept = [axis for axis, extent in enumerate(view.shape) if extent > 1 or before[axis] or after[axis]]
    if len(axes_kept) not in (2, 3):
        return _pad_each_axis(importer, view, before, after, value)
    inner = View(view.layer, tuple(view.axes[axis] for axis in axes_kept), view.batched)
    padded = _pad_with(
        importer, inner, [before[axis] for axis in axes_kept], [after[axis] for axis in axes_kept], value
    )
    axes = dict(zip(axes_kept, padded.axes))
    return View(padded.layer, tuple(axes.get(axis, ()) for axis in range(len(view.axes))), view.batched)


def _pad_each_axis(importer: Importer, view: View, before: list[int], after: list[int], value: float) -> View:
    """Pad each axis with a constant by concatenation, or crop it."""
    for axis, (first, last) in enumerate(zip(before, after)):
        if view.shape[axis] + min(first, 0) + min(last, 0) < 1:
            raise ModelError(f"cannot crop all {view.shape[axis]} entries of an axis")
        view = slice_axis(importer, view, axis, max(0, -first), view.shape[axis] - max(0, -last))
        sides = [filled_entries(importer, view, axis, side, np.full(1, value)) for side in (first, last) if side > 0]
        if sides:
            parts = [*sides[: first > 0], view, *sides[first > 0 :]]
            view = put_together(importer, parts, axis)
    return view


def _pad_with(
    importer: Importer, view: View, before: list[int], after: list[int], value: float, mode: str = "constant"
) -> View:
    """Pad each axis of a view with a constant or, in the other modes, with entries of the axis itself."""
    order = view.order()
    if len(order) not in (2, 3):
        raise ModelError(f"cannot pad {importer.describe(view)}; only images can be padded")
    ordered = view.permuted(order)
    shape = ordered.shape if len(order) == 3 else (ordered.shape[0], 1, ordered.shape[1])
    source = importer.builder.arrange(ordered, shape)
    sides = [(before[axis], after[axis]) for axis in order]
    sides = sides if len(order) == 3 else [sides[0], (0, 0), sides[1]]
    if any(sides[0]):
        source = _pad_channels(importer, source, sides[0], value)
    padding = (sides[1][0], sides[2][0], sides[1][1], sides[2][1])
    if any(padding):
        source = importer.add(Pad(importer.name("pad"), padding, value, mode, inputs=(source,))).layer
    result = View.of(source, importer.builder.shapes[source], view.batched)
    if len(order) == 2:
        result = View(result.layer, (result.axes[0], result.axes[2]), result.batched)
    return result.permuted(tuple(order.index(axis) for axis in range(len(order))))


def _pad_channels(importer: Importer, source: str, sides: tuple[int, int], value: float) -> str:
    """Add constant channels before and after the channels of an image, using a 1x1 convolution that copies the
    latter."""
    channels = importer.builder.shapes[source][0]
    if min(sides) < 0 or channels + sum(sides) > 4096:
        raise ModelError("channels can be padded to at most 4096, but not cropped")
    bias = np.full(channels + sum(sides), value, np.float32)
    bias[sides[0] : sides[0] + channels] = 0
    weight = np.zeros((channels + sum(sides), channels, 1, 1), np.float32)
    weight[np.arange(channels) + sides[0], np.arange(channels)] = 1
    return add_convolution(importer, source, weight, bias, Movement()).layer


def _pad_by_pixels(importer: Importer, view: View, pads: list[int], mode: str) -> View:
    """Pad a view [batch, ...] with its own entries.

    `pads` contains the pads before all axes, followed by the pads after all axes; both include the batch axis.
    """
    if mode not in MODES:
        raise ModelError(f"its mode {mode!r} is unknown")
    sides = list(zip(pads[view.batched :], pads[view.batched + view.rank :]))
    order = view.order()
    by_matrix = order[:1] if len(order) in (2, 3) else order
    for axis, (extent, (before, after)) in enumerate(zip(view.shape, sides)):
        if min(before, after) < 0:
            raise ModelError(f"its pads {before} and {after} crop an axis, which is supported only in constant mode")
        if max(before, after) > extent - (mode == "reflect"):
            raise ModelError(
                f"an axis of {extent} entries is too short to be padded with {before} and {after} of its own entries"
            )
        if axis in by_matrix and (before or after):
            entries = np.pad(np.arange(extent), (before, after), mode=mode)  # type: ignore[call-overload]
            view = select_entries(importer, view, axis, entries.tolist())
    other_sides = [(0, 0) if axis in by_matrix else pair for axis, pair in enumerate(sides)]
    if not any(map(any, other_sides)):
        return view
    befores, afters = map(list, zip(*other_sides))
    return _pad_with(importer, view, befores, afters, 0.0, mode)


def _roll(importer: Importer, node: Node) -> None:
    """Roll an axis. Rows or columns of an image are rolled by padding one end in wrap mode and cropping the other."""
    view = importer.data(node).with_batch()
    axis, first = importer.axis(view, integer(node, "axis", 0)), integer(node, "first", 0)
    extent = view.shape[axis]
    if not 0 < abs(first) <= extent:
        raise ModelError(f"cannot roll an axis of {extent} entries to start at entry {first}")
    first %= extent
    channels = view.order()[0]
    if first == 0:
        importer.give(node, view)
    elif len(view.axes) == 3 and axis != channels:
        order = (channels, *view.around(channels))
        rolled = view.permuted(order)
        source = importer.builder.arrange(rolled, rolled.shape)
        down, across = (first, 0) if order[1] == axis else (0, first)
        layer = Pad(importer.name("roll"), (0, 0, down, across), mode="wrap", inputs=(source,))
        source = importer.add(layer).layer
        result = importer.add(Pad(importer.name("crop"), (-down, -across, 0, 0), inputs=(source,)))
        back = tuple(order.index(axis_number) for axis_number in range(len(order)))
        importer.give(node, dataclasses.replace(result, batched=view.batched).permuted(back))
    else:
        parts = [slice_axis(importer, view, axis, first, extent), slice_axis(importer, view, axis, 0, first)]
        importer.give(node, put_together(importer, parts, axis))


OPERATORS = {"Pad": _pad, ROLL: _roll}
