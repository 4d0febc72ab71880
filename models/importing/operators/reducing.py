"""Sums, means, maxima, norms and softmax over axes, such as the height and width of an image, channels or features."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from ...checks import Shape
from ...errors import ModelError
from ...layers import ChannelSoftmax, Conv2d, Dense, Pool, RowSoftmax
from ..importer import Importer
from ..onnx_attributes import axes_of, integer
from ..onnx_file import Node
from ..steps import activate, clip, combine_views, times, whole_shape
from ..view import Factor, View
from .rearranging import put_together, slice_axis

MAX_STACKED = 8  # maximum number of stacked images whose maximum is computed one by one
LEAST_NORM = 1e-12  # rows are divided by at least this number, as in PyTorch
MAX_IN_PLACE = 1 << 21  # maximum number of weights of a convolution that sums channels

Reduction = Callable[[Importer, View, tuple[int, ...], bool], View]


def _image_and_window(view: View, lead: int) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """Return (channels, rows, columns) and a window that pools all axes of a view except the first `lead`."""
    sizes = view.shape
    channels = math.prod(sizes[:lead])
    long = [size for size in sizes[lead:] if size > 1]
    if len(long) >= 2:
        rows, columns = long[0], math.prod(long[1:])
        return (channels, rows, columns), (rows, columns)
    if view.arrangement() is None and lead == 2:
        return (sizes[0], sizes[1], sizes[2]), (1, sizes[2])  # over the width only
    columns = math.prod(sizes[lead:])
    return (channels, 1, columns), (1, columns)


def pool_axes(importer: Importer, view: View, axes: tuple[int, ...], method: str, keep: bool) -> View:
    """Compute the mean or maximum of a view over some or all of its axes, which are numbered without the batch axis."""
    if method == "average" and _are_channels(importer, view, axes):
        return _mean_of_channels(importer, view, axes[0], keep)
    count = math.prod(view.shape[axis] for axis in axes)
    stacked = _sum_in_place(importer, view, axes, 1 / count) if method == "average" else None
    if stacked is not None:
        return _kept(stacked, axes, len(view.axes)) if keep else stacked
    if method == "average" and len(importer.shape(view)) == 1 and count == math.prod(view.shape):
        left = view.shape if keep else tuple(size for axis, size in enumerate(view.shape) if axis not in axes)
        return _mean_of_features(importer, view).reshaped((1,) * len(left), view.batched)
    rest = tuple(axis for axis in view.order() if axis not in axes)
    inner = tuple(axis for axis in view.order() if axis in axes)
    ordered = view.permuted((*rest, *inner))
    image, window = _image_and_window(ordered, len(rest))
    source = importer.builder.arrange(ordered, image)
    result = importer.add(Pool(importer.name("pool"), method, window, window, inputs=(source,)))
    spread = result.reshaped(ordered.shape[: len(rest)], view.batched)
    kept = spread.permuted(tuple(map(rest.index, sorted(rest))))
    return _kept(kept, axes, len(view.axes)) if keep else kept


def _sum_in_place(importer: Importer, view: View, axes: tuple[int, ...], factor: float) -> View | None:
    """Compute `factor` times the sum over channels with a constant stride, such as stacked branches.

    The sum is computed by a convolution whose weights are `factor`, without moving any data. Return None unless the
    axes are a contiguous part of the channels.
    """
    order = view.order()
    ordered, shape = view.permuted(order), importer.shape(view)
    places = sorted(order.index(axis) for axis in axes)
    if len(shape) != 3 or ordered.arrangement() is not None or places != list(range(places[0], places[-1] + 1)):
        return None
    outer, length, inner = (
        math.prod(ordered.shape[part])
        for part in (slice(0, places[0]), slice(places[0], places[-1] + 1), slice(places[-1] + 1, None))
    )
    inner, left = divmod(inner, math.prod(shape[1:]))
    if left or length == 1 or outer * inner == 1 or shape[0] * outer * inner > MAX_IN_PLACE:
        return None
    weight = np.kron(np.eye(outer), np.kron(np.full((1, length), factor), np.eye(inner)))
    source = importer.builder.arrange(View.of(view.layer, shape), shape)
    layer = Conv2d(importer.name("sum"), shape[0], outer * inner, (1, 1), inputs=(source,))
    tensors = {"weight": weight[:, :, None, None], "bias": np.zeros(outer * inner, np.float32)}
    rest = [axis for axis in order if axis not in axes]
    result = importer.add(layer, tensors).reshaped(tuple(view.shape[axis] for axis in rest), view.batched)
    return result.permuted(tuple(rest.index(axis) for axis in sorted(rest)))


def _kept(view: View, axes: tuple[int, ...], rank: int) -> View:
    """Return a view of `rank` axes, with axes of size 1 inserted in place of the reduced axes."""
    full = iter(view.axes)
    return View(view.layer, tuple(() if axis in axes else next(full) for axis in range(rank)), view.batched)


def _are_channels(importer: Importer, view: View, axes: tuple[int, ...]) -> bool:
    """Return whether `axes` is the single channel axis of an image, in the order in which the layer stores it."""
    shape = importer.shape(view)
    if len(view.axes) != 3 or len(shape) != 3 or len(axes) != 1 or shape[0] == 1:
        return False
    is_first = view.axes[axes[0]] == (Factor(shape[0], math.prod(shape[1:])),)
    return is_first and view.permuted(view.order()).arrangement() is None


def _mean_of_channels(importer: Importer, view: View, axis: int, keep: bool) -> View:
    """Compute the mean of all channels at each pixel by a convolution with 1 / channels, without moving any data."""
    order = view.order()
    channels = view.shape[axis]
    source = importer.builder.arrange(view.permuted(order), importer.shape(view))
    layer = Conv2d(importer.name("mean"), channels, 1, (1, 1), inputs=(source,))
    weight = np.full((1, channels, 1, 1), 1 / channels, np.float32)
    result = importer.add(layer, {"weight": weight, "bias": np.zeros(1, np.float32)})
    left = tuple(view.shape[other] for other in order if other != axis)
    rest = tuple(other for other in order if other != axis)
    spread = result.reshaped(left, view.batched)
    ordered = spread.permuted(tuple(rest.index(other) for other in sorted(rest)))
    return _kept(ordered, (axis,), len(view.axes)) if keep else ordered


def _mean_of_features(importer: Importer, view: View) -> View:
    """Compute the mean of a row by a dense layer with weights 1 / length, without moving any data."""
    count = math.prod(view.shape)
    layer = Dense(importer.name("mean"), count, 1, inputs=(importer.rows(view),))
    tensors = {"weight": np.full((count, 1), 1 / count, np.float32), "bias": np.zeros(1, np.float32)}
    return importer.add(layer, tensors)


def _mean(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    return pool_axes(importer, view, axes, "average", keep)


def largest_of(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    if len(axes) == 1 and _are_stacked(importer, view, axes[0]):
        parts = (slice_axis(importer, view, axes[0], entry, entry + 1) for entry in range(view.shape[axes[0]]))
        result = functools.reduce(functools.partial(combine_views, importer, "maximum"), parts)
        rest = tuple(extent for axis, extent in enumerate(result.shape) if axis not in axes)
        return result if keep else result.reshaped(rest, result.batched)
    return pool_axes(importer, view, axes, "max", keep)


def _are_stacked(importer: Importer, view: View, axis: int) -> bool:
    """Return True if an axis is the index of a few stacked images, each with several channels."""
    shape, count = importer.shape(view), view.shape[axis]
    pixels = math.prod(shape[1:])
    are_channels = all(factor.stride >= pixels for factor in view.axes[axis])
    return len(shape) == 3 and pixels > 1 and 1 < count <= MAX_STACKED and count < shape[0] and are_channels


def _smallest(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    return times(importer, largest_of(importer, times(importer, view, -1), axes, keep), -1)


def sum_axes(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    stacked = _sum_in_place(importer, view, axes, 1.0)
    if stacked is not None:
        return _kept(stacked, axes, len(view.axes)) if keep else stacked
    return times(importer, _mean(importer, view, axes, keep), _count(view, axes))


def absolute(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    """Compute the sum of absolute values."""
    return sum_axes(importer, activate(importer, view, "abs"), axes, keep)


def _squares(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    return sum_axes(importer, combine_views(importer, "multiply", view, view), axes, keep)


def norm(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    """Compute the root of the sum of squares from their mean, which is less likely to overflow in float16."""
    mean = _mean(importer, combine_views(importer, "multiply", view, view), axes, keep)
    return times(importer, activate(importer, mean, "sqrt"), math.sqrt(_count(view, axes)))


def _product(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    """Multiply the halves of each axis by each other until one entry is left."""
    result = view
    for axis in axes:
        while (length := result.shape[axis]) > 1:
            half = length // 2
            parts = [slice_axis(importer, result, axis, first, first + half) for first in (0, half)]
            product = combine_views(importer, "multiply", *parts)
            rest = [slice_axis(importer, result, axis, length - 1, length)] if length % 2 else []
            result = put_together(importer, [product, *rest], axis)
    left = result.shape if keep else tuple(size for axis, size in enumerate(result.shape) if axis not in axes)
    return result.reshaped(left, result.batched)


def _log_sum(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    return activate(importer, sum_axes(importer, view, axes, keep), "log")


def _log_sum_exp(importer: Importer, view: View, axes: tuple[int, ...], keep: bool) -> View:
    """Compute log-sum-exp; the maximum is subtracted before the exponential and added to the result."""
    largest = largest_of(importer, view, axes, True)
    powers = activate(importer, combine_views(importer, "subtract", view, largest), "exp")
    total = activate(importer, sum_axes(importer, powers, axes, True), "log")
    result = combine_views(importer, "add", total, largest)
    left = result.shape if keep else tuple(size for axis, size in enumerate(result.shape) if axis not in axes)
    return result.reshaped(left, result.batched)


def _count(view: View, axes: tuple[int, ...]) -> int:
    return math.prod(view.shape[axis] for axis in axes)


def softmax_over(importer: Importer, view: View, axes: tuple[int, ...], log: bool) -> View:
    """Compute a softmax over some axes, or its logarithm.

    The axes are used in place if the layer stores them as channels or rows; otherwise the data are rearranged first.
    """
    order = view.order()
    ordered = view.permuted(order)
    places = [order.index(axis) for axis in axes]
    is_run = sorted(places) == list(range(min(places), max(places) + 1))
    if not is_run or ordered.arrangement() is not None:
        rest = tuple(axis for axis in range(len(view.axes)) if axis not in axes)
        order = (*axes, *rest) if _count(view, rest) > _count(view, axes) else (*rest, *axes)
        shape = whole_shape(view.permuted(order).shape)
        ordered = View.of(importer.builder.arrange(view.permuted(order), shape), shape).reshaped(
            view.permuted(order).shape, view.batched
        )
        places = [order.index(axis) for axis in axes]
    before, length, after = (
        math.prod(ordered.shape[first:last])
        for first, last in ((0, min(places)), (min(places), max(places) + 1), (max(places) + 1, len(order)))
    )
    result = _softmax_in_place(importer, ordered, (before, length, after), log)
    return result.reshaped(ordered.shape, view.batched).permuted(tuple(order.index(axis) for axis in range(len(order))))


def _softmax_in_place(importer: Importer, view: View, split: tuple[int, int, int], log: bool) -> View:
    """Apply a softmax over the middle axis of a contiguous view that is split into three axes."""
    before, length, after = split
    shape = importer.shape(view)
    pixels = math.prod(shape[1:])
    if after % pixels:
        if after > 1:  # the softmax axis is not the innermost axis
            whole: Shape = (before, length, after)
            turned = View.of(view.layer, whole).permuted((1, 0, 2))
            source = importer.builder.arrange(turned, (length, 1, before * after))
            result = importer.add(ChannelSoftmax(importer.name("softmax"), length, log=log, inputs=(source,)))
            return result.reshaped((length, before, after), view.batched).permuted((1, 0, 2))
        rows = shape if shape[-1] == length else (before, 1, length)
        source = importer.builder.arrange(view, rows)
        return importer.add(RowSoftmax(importer.name("softmax"), log, inputs=(source,)))
    source = importer.builder.arrange(view, shape if len(shape) == 3 else (*shape, 1, 1))
    return importer.add(ChannelSoftmax(importer.name("softmax"), length, after // pixels, log, inputs=(source,)))


def _reducing(reduction: Reduction) -> Callable[[Importer, Node], None]:
    def operator(importer: Importer, node: Node) -> None:
        view = importer.data(node)
        requested = axes_of(node, [importer.constants.get(name) for name in node.inputs])
        if not requested and integer(node, "noop_with_empty_axes", 0):
            raise ModelError("has no axes")
        if not requested:
            requested = tuple(range(view.rank))
        if view.batched and any(axis % view.rank == 0 for axis in requested if -view.rank <= axis < view.rank):
            view = importer.own_batch(view, node)
        axes = tuple(sorted({importer.axis(view, axis) for axis in requested}))
        keep = bool(integer(node, "keepdims", 1))
        result = reduction(importer, view, axes, keep)
        if importer.stacks_batch(view) and not keep:
            batch_axis = view.place - sum(axis < view.place for axis in axes)
            result = dataclasses.replace(result, place=batch_axis, outside=view.outside)
        importer.give(node, result)

    return operator


def _normalize(importer: Importer, node: Node) -> None:
    """Divide the input by its norm along an axis."""
    view = importer.data(node)
    power = integer(node, "p", 2)
    if power not in (1, 2):
        raise ModelError(f"its p must be 1 or 2, got {power}")
    axis = importer.axis(view, integer(node, "axis", -1))
    length = (absolute if power == 1 else norm)(importer, view, (axis,), True)
    length = clip(importer, length, LEAST_NORM, math.inf)  # rows of zeros remain zeros
    importer.give(node, combine_views(importer, "divide", view, length))


OPERATORS = {
    "ReduceMean": _reducing(_mean),
    "ReduceMax": _reducing(largest_of),
    "ReduceMin": _reducing(_smallest),
    "ReduceProd": _reducing(_product),
    "ReduceSum": _reducing(sum_axes),
    "ReduceL1": _reducing(absolute),
    "ReduceL2": _reducing(norm),
    "ReduceSumSquare": _reducing(_squares),
    "ReduceLogSum": _reducing(_log_sum),
    "ReduceLogSumExp": _reducing(_log_sum_exp),
    "LpNormalization": _normalize,
}
