"""Building blocks for operators: activations, constants applied to a view, and combinations of two views."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..checks import MAX_ELEMENTS, Shape
from ..errors import ModelError
from ..layers import Activation, Affine, Combine
from .importer import Importer
from .onnx_file import Node
from .spread import spread
from .view import View

LARGEST = 30_000.0  # replaces infinity in masks and padding: fits in float16, even twice, and exp(-LARGEST) is 0
LEAST_INFINITE = 1e30  # larger numbers are treated as infinity, such as the largest float32, which overflows bfloat16


def finite(values: np.ndarray) -> np.ndarray:
    """Return values with +-LARGEST instead of infinity: 0 times infinity is NaN, and overflows in 16 bits give
    infinity."""
    return np.where(np.abs(values) >= LEAST_INFINITE, np.copysign(LARGEST, values), values)


def activate(importer: Importer, view: View, activation: str, parameters: tuple[float, ...] = ()) -> View:
    """Apply an activation to a view."""
    layer = Activation(importer.name(activation), activation, parameters, inputs=(view.layer,))
    return dataclasses.replace(view, layer=importer.add(layer).layer)


def clip(importer: Importer, view: View, low: float, high: float) -> View:
    """Clip a view to `low` and `high`; either may be infinite."""
    largest = float(np.finfo(np.float32).max)
    low, high = max(low, -largest), min(high, largest)
    if not low <= high:
        raise ModelError(f"the range of the clip, {low:g} to {high:g}, is empty")
    if (low, high) == (-largest, largest):
        return view
    return (
        activate(importer, view, "relu")
        if (low, high) == (0, largest)
        else activate(importer, view, "clip", (low, high))
    )


def chosen_everywhere(importer: Importer, node: Node) -> View | None:
    """Return the input that a Where with a constant condition selects everywhere, or None if there is no such input."""
    condition = importer.constants.get(node.inputs[0])
    if condition is None or condition.any() != condition.all():
        return None
    selected, other = (node.inputs[1], node.inputs[2]) if condition.all() else (node.inputs[2], node.inputs[1])
    if selected not in importer.views:
        return None
    view = importer.views[selected]
    shapes = [importer.extents(value) for value in (view, importer.views.get(other)) if value is not None]
    shapes += [condition.shape, *(importer.constants[name].shape for name in (other,) if name in importer.constants)]
    return view if np.broadcast_shapes(*shapes) == shapes[0] else None


def _with_axes_of(importer: Importer, view: View, values: np.ndarray) -> np.ndarray:
    """Return values that broadcast over a view, reshaped to as many axes as the view has without the batch axis."""
    if math.prod(values.shape[: max(0, values.ndim - view.rank)]) != 1:
        raise ModelError(f"{list(values.shape)} cannot be broadcast to {importer.describe(view)}")
    values = values.reshape(((1,) * view.rank + values.shape)[-view.rank :] if view.rank else ())
    values = importer.of_one_input(view, values) if view.rank else values
    if view.batched:
        if len(values) != 1:
            raise ModelError(f"its constant {list(values.shape)} differs among the entries of a batch")
        values = values[0]
    if any(extent not in (1, size) for extent, size in zip(values.shape, view.shape)):
        raise ModelError(f"{list(values.shape)} cannot be broadcast to {importer.describe(view)}")
    return values


def channel_numbers(
    importer: Importer, view: View, values: np.ndarray
) -> tuple[str, np.ndarray, Callable[[View], View]]:
    """Convert values that broadcast over a view to values for a layer: one per channel if possible.

    Returns the layer to read, the values in the shape [C] or the full shape of the layer, and a function that restores
    the view.
    """
    values, shape = _with_axes_of(importer, view, values), view.shape
    order = view.order()
    ordered = view.permuted(order)
    full_shape = importer.shape(view)
    if ordered.arrangement() is not None:  # the view is not contiguous, for example after a channel shuffle
        full_shape = whole_shape(shape)
        order = tuple(range(len(shape)))
        ordered = View.of(importer.builder.arrange(view, full_shape), full_shape).reshaped(shape, view.batched)
    values = values.transpose(order)
    back = tuple(order.index(axis) for axis in range(len(order)))

    def again(made: View) -> View:
        return dataclasses.replace(ordered, layer=made.layer).permuted(back)

    extents = ordered.shape
    lead = next((axis for axis, extent in enumerate(extents) if extent > 1), 0)
    if values.size == 1:
        return ordered.layer, np.broadcast_to(values.reshape(-1), full_shape[:1]), again
    if extents and extents[lead] == full_shape[0] and values.size == full_shape[0] == values.shape[lead]:
        return ordered.layer, values.reshape(-1), again
    if math.prod(full_shape) > MAX_ELEMENTS:
        raise ModelError(f"its constant has too many elements ({math.prod(full_shape)})")
    return ordered.layer, np.broadcast_to(values, extents).reshape(full_shape), again


def affine_view(importer: Importer, view: View, scale: np.ndarray, shift: np.ndarray) -> View:
    """Compute view * scale + shift, where scale and shift broadcast over the view; the shift may be infinite (see
    `finite`)."""
    shift = finite(shift)
    rank = max(scale.ndim, shift.ndim)
    scale, shift = (values.reshape((1,) * (rank - values.ndim) + values.shape) for values in (scale, shift))
    if scale.size == shift.size == 1 and rank <= view.rank:  # the order of elements does not matter
        shape = importer.shape(view)[:1]
        layer = Affine(importer.name("affine"), shape, inputs=(view.layer,))
        numbers = {"scale": np.broadcast_to(scale.ravel(), shape), "shift": np.broadcast_to(shift.ravel(), shape)}
        return dataclasses.replace(view, layer=importer.add(layer, numbers).layer)
    view = _as_wide_as(importer, view, scale, shift)
    source, scales, again = channel_numbers(importer, view, scale.astype(np.float64))
    other, shifts, _ = channel_numbers(importer, view, shift.astype(np.float64))
    if other != source:
        raise ModelError("its constant cannot be broadcast to its input")
    if scales.ndim != shifts.ndim:
        shape = importer.builder.shapes[source]
        scales, shifts = (
            np.broadcast_to(values.reshape(values.shape + (1,) * (len(shape) - values.ndim)), shape)
            for values in (scales, shifts)
        )
    layer = Affine(importer.name("affine"), tuple(scales.shape), inputs=(source,))
    return again(importer.add(layer, {"scale": scales, "shift": shifts}))


def times(importer: Importer, view: View, factor: float) -> View:
    """Compute view * factor."""
    return affine_view(importer, view, np.full(1, factor), np.zeros(1)) if factor != 1 else view


def combine_views(importer: Importer, operation: str, first: View, second: View) -> View:
    """Combine two views elementwise with ONNX's broadcasting."""
    if first.rank == second.rank and first.batched != second.batched:
        first, second = first.with_batch(), second.with_batch()
    if first.batched != second.batched or len(first.axes) != len(second.axes):
        first, second = _aligned(importer, first, second)
    if any(a != b and 1 not in (a, b) for a, b in zip(first.shape, second.shape)):
        raise ModelError(f"cannot combine {importer.describe(first)} and {importer.describe(second)}")
    if first.axes == second.axes and importer.shape(first) == importer.shape(second):
        layer = Combine(importer.name(operation), operation, inputs=(first.layer, second.layer))
        return dataclasses.replace(first, layer=importer.add(layer).layer)
    if math.prod(first.shape) < math.prod(second.shape):
        if operation == "subtract":
            swapped = combine_views(importer, operation, second, first)
            return affine_view(importer, swapped, -np.ones(1), np.zeros(1))
        if operation == "divide":
            operation, second = "multiply", activate(importer, second, "reciprocal")
        first, second = second, first
    return _combine_repeated(importer, operation, first, second)


def _combine_repeated(importer: Importer, operation: str, first: View, second: View) -> View:
    """Combine two views of equal rank, the second with no more elements than the first."""
    extents = tuple(map(max, first.shape, second.shape))
    order = first.order()
    large, small = first.permuted(order), second.permuted(order)
    if large.arrangement() is not None and first.shape == second.shape:  # try the memory order of the second view
        order = second.order()
        large, small = first.permuted(order), second.permuted(order)
    if large.arrangement() is not None and small.arrangement() is not None:
        order = tuple(range(len(order)))
        large, small = first, second
    outer = full = tuple(extents[axis] for axis in order)
    if len(full) > 3:
        large, small, full = _fewer_axes(large, small, full)
    if len(full) > 3 and not large.shape == small.shape == full:
        order = tuple(range(len(extents)))  # try the order of the file, in which more axes may be mergeable
        outer = extents
        large, small, full = _fewer_axes(first, second, extents)
    if len(full) > 3 and not large.shape == small.shape == full:
        raise ModelError(
            f"cannot combine {importer.describe(first)} and {importer.describe(second)}; with more than three axes "
            f"besides the batch axis, the shapes must be equal"
        )
    shape = whole_shape(full)
    source = spread(importer, importer.builder.arrange(large, whole_shape(large.shape)), shape)
    target = whole_shape(small.shape)
    other = importer.builder.arrange(small, target)
    is_image = len(shape) == len(target) == 3
    if is_image and (
        target[1:] == (1, 1) or operation in ("multiply", "divide")
    ):  # the kernel repeats rows and columns
        other = spread(importer, other, (shape[0], *target[1:]))
    else:
        other = spread(importer, other, shape)
    result = importer.add(Combine(importer.name(operation), operation, inputs=(source, other)))
    back = tuple(order.index(axis) for axis in range(len(order)))
    return result.reshaped(outer, first.batched).permuted(back)


def _as_wide_as(importer: Importer, view: View, *numbers: np.ndarray) -> View:
    """Repeat the axes of size 1 of a view if the arrays are larger along these axes."""
    extents = (1, *view.shape) if view.batched else view.shape
    shapes = [values.shape for values in numbers if values.ndim <= view.rank]
    fits = all(
        size in (1, extent) or extent == 1 for shape in shapes for size, extent in zip(shape[::-1], extents[::-1])
    )
    wide = np.broadcast_shapes(extents, *shapes) if fits else extents
    return view if wide == extents or wide[0] != extents[0] else widen(importer, view, wide[view.batched :])


def widen(importer: Importer, view: View, wide: Shape) -> View:
    """Broadcast a view to the shape `wide`, which excludes the batch."""
    narrow, _, full = _fewer_axes(view, view, wide) if len(wide) > 3 else (view, view, wide)
    if len(full) > 3:
        raise ModelError(
            f"cannot broadcast an input of {importer.describe(view)} to {list(wide)}; at most three axes are supported"
        )
    result = spread(importer, importer.builder.arrange(narrow, whole_shape(narrow.shape)), whole_shape(full))
    return View.of(result, importer.builder.shapes[result]).reshaped(wide, view.batched)


def _fewer_axes(large: View, small: View, full: Shape) -> tuple[View, View, Shape]:
    """Merge adjacent axes along which two views are broadcast in the same way to the result shape `full`."""
    groups: list[list[int]] = []
    last: tuple[bool, bool] | None = None
    for axis, (large_side, other, extent) in enumerate(zip(large.shape, small.shape, full)):
        kind = (large_side == extent, other == extent) if extent > 1 else None
        if groups and (kind is None or last in (None, kind)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last = kind or last

    def merged(shape: Shape) -> Shape:
        return tuple(math.prod(shape[axis] for axis in group) for group in groups)

    return (
        large.reshaped(merged(large.shape), large.batched),
        small.reshaped(merged(small.shape), small.batched),
        merged(full),
    )


def _aligned(importer: Importer, first: View, second: View) -> tuple[View, View]:
    """Align two views of different ranks according to ONNX, starting from the last axes."""
    rank = max(first.rank, second.rank)
    views = []
    for view in (first, second):
        if view.rank < rank and view.batched:
            raise ModelError(
                f"cannot combine {importer.describe(first)} and {importer.describe(second)}, which have different ranks"
            )
        views.append(View(view.layer, ((),) * (rank - view.rank) + view.axes, view.batched).with_batch())
    return views[0], views[1]


def whole_shape(shape: Shape) -> Shape:
    """Return the shape in which a layer can represent a view of `shape`: an image or features."""
    if len(shape) == 2:
        return (shape[0], 1, shape[1])
    return shape if len(shape) == 3 else (math.prod(shape),)
