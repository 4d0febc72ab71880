"""Operators that rearrange elements; most of them return another view of the same layer, at no cost."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ...checks import Shape
from ...errors import ModelError
from ...layers import ChannelSlice, Concat, Conv2d, Dense, Pad, Pool
from ..columns import beside_columns
from ..importer import Importer
from ..onnx_attributes import axes_of, integer, integers, slice_parts, split_sizes
from ..onnx_file import Node
from ..steps import affine_view, whole_shape, widen
from ..view import Factor, View

MAX_TILED = 1024  # maximum number of copies along an axis
MAX_SELECTED = 4096  # maximum number of entries of an axis before and after a selection


def reshape_view(importer: Importer, view: View, target: list[int]) -> View:
    """Reshape a view to an ONNX shape that includes the batch; the result keeps the batch axis only if it is first."""
    before = importer.extents(view)
    if target.count(-1) == 1:
        known = math.prod(size for size in target if size != -1)
        target[target.index(-1)] = math.prod(before) // known if known > 0 else 0
    if math.prod(target) != math.prod(before) or min(target, default=1) < 1:
        raise ModelError(f"cannot reshape {importer.describe(view)} to {target}")
    if target and target[0] == importer.batch and (view.batched or _is_outermost(importer, view)):
        return reshaped(importer, view, tuple(target[1:]), True)
    return _with_place(importer, view, target)


def _is_outermost(importer: Importer, view: View) -> bool:
    """Return True if the inputs of a fixed batch are stacked on the first axis, one after the other."""
    return importer.stacks_batch(view) and view.place == 0 and view.outside == 1


def _with_place(importer: Importer, view: View, target: list[int]) -> View:
    """Reshape a view to an ONNX shape in which the batch is not the first axis, or only a part of an axis."""
    if importer.batch == 1:
        return reshaped(importer, view, tuple(target), False)
    before = 1 if view.batched else math.prod(view.shape[: view.place]) * view.outside
    batch_axis = next((axis for axis in range(len(target)) if math.prod(target[: axis + 1]) > before), 0)
    outside, left = divmod(before, math.prod(target[:batch_axis]))
    parts, rest = divmod(target[batch_axis] if target else 1, importer.batch * outside)
    if left or rest:
        raise ModelError(
            f"cannot reshape a batch of {importer.batch} to {target}, because this would mix separate inputs"
        )
    shape = (*target[:batch_axis], parts * outside, *target[batch_axis + 1 :])
    return dataclasses.replace(reshaped(importer, view, shape, False), place=batch_axis, outside=outside)


def reshaped(importer: Importer, view: View, shape: Shape, batched: bool) -> View:
    """Reshape a view; make it contiguous first if its factors cannot be split."""
    try:
        return view.reshaped(shape, batched)
    except ModelError:
        full = whole_shape(view.shape)
        return View.of(importer.builder.arrange(view, full), full).reshaped(shape, batched)


def _reshape(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    sizes_given = importer.constant(node, 1)
    if sizes_given is None or sizes_given.ndim != 1 or sizes_given.dtype.kind != "i":
        raise ModelError("its shape is not a list of integers")
    target = sizes_given[:9].tolist()
    if not integer(node, "allowzero", 0):
        before = importer.extents(view)
        target = [before[i] if size == 0 and i < len(before) else size for i, size in enumerate(target)]
    importer.give(node, reshape_view(importer, view, target))


def _flatten(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    axis = integer(node, "axis", 1)
    axis = axis + view.rank if axis < 0 else axis
    if not 0 <= axis <= view.rank:
        raise ModelError(f"axis {axis} is out of bounds for an input of shape {importer.describe(view)}")
    if view.batched and axis == 1:
        importer.give(node, view.reshaped((math.prod(view.shape),), True))
        return
    view = importer.single(view)
    sizes = (math.prod(view.shape[:axis]), math.prod(view.shape[axis:]))
    importer.give(node, reshaped(importer, view, sizes, False).with_batch())


def _squeeze(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    requested = axes_of(node, [importer.constants.get(name) for name in node.inputs])
    extents = importer.extents(view)
    if requested is None:
        requested = tuple(axis for axis in range(view.batched, view.rank) if extents[axis] == 1)
    axes = {axis % view.rank for axis in requested if -view.rank <= axis < view.rank}
    if any(extents[axis] != 1 for axis in axes) or len(axes) != len(requested):
        raise ModelError(f"cannot squeeze axes {list(requested)} of {importer.describe(view)}")
    batched = view.batched and 0 not in axes
    remaining_axes = tuple(axis for number, axis in enumerate(view.axes, start=view.batched) if number not in axes)
    batch_axis = view.place - sum(axis < view.place for axis in axes) if importer.stacks_batch(view) else 0
    importer.give(node, View(view.layer, remaining_axes, batched, batch_axis, view.outside))


def _unsqueeze(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    requested = axes_of(node, [importer.constants.get(name) for name in node.inputs]) or ()
    rank = view.rank + len(requested)
    axes = {axis % rank for axis in requested if -rank <= axis < rank}
    if len(axes) != len(requested) or not requested:
        raise ModelError(f"cannot insert axes {list(requested)} into {importer.describe(view)}")
    if 0 in axes and view.batched:  # for example, stacked attention heads
        view = importer.single(view)
    old = iter(view.axes)
    new_axes = [() if axis in axes else next(old) for axis in range(view.batched, rank)]
    places = [axis for axis in range(rank) if axis not in axes]
    batch_axis = places[view.place] if importer.stacks_batch(view) else 0
    importer.give(node, View(view.layer, tuple(new_axes), view.batched, batch_axis, view.outside))


def _transpose(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    order = integers(node, "perm", view.rank, tuple(range(view.rank))[::-1])
    if sorted(order) != list(range(view.rank)):
        raise ModelError(f"its perm is {list(order)}, but its input is {importer.describe(view)}")
    if view.batched and order[0] != 0:  # time first, as recurrent layers expect
        view = importer.single(view)
    result = view.permuted(tuple(axis - view.batched for axis in order if axis >= view.batched))
    batch_axis = order.index(view.place) if importer.stacks_batch(view) else 0
    importer.give(node, dataclasses.replace(result, place=batch_axis))


def _leading(importer: Importer, view: View, order: tuple[int, ...]) -> str:
    """Return a layer whose output contains the axes of a view in `order`, the first of them as its channels."""
    ordered = view.permuted(order)
    shape = ordered.shape
    sizes = (shape[0], math.prod(shape[1:-1]), shape[-1]) if len(shape) > 1 else shape
    return importer.builder.arrange(ordered, sizes)


def _first(view: View, axis: int) -> tuple[int, ...]:
    """Return the order of the axes of a view with `axis` moved to the front and the others unchanged."""
    return (axis, *(other for other in view.order() if other != axis))


def _unordered(made: View, order: tuple[int, ...], shape: tuple[int, ...], batched: bool) -> View:
    """Return the output of a layer, whose axes are in `order`, as a view of `shape` in the original order."""
    spread = made.reshaped(tuple(shape[axis] for axis in order), batched)
    return spread.permuted(tuple(order.index(axis) for axis in range(len(order))))


def _concat(importer: Importer, node: Node) -> None:
    constants = importer.constants
    names = [name for name in node.inputs if name and (name not in constants or constants[name].size)]
    first = importer.data(node, next(position for position, name in enumerate(node.inputs) if name in importer.views))
    axis = integer(node, "axis", 1)
    columns = beside_columns(importer, names, first, axis)
    if columns is not None:
        importer.give(node, columns)
        return
    first = importer.with_axis(first, axis, node) if importer.is_open else first
    views = [importer.views.get(name) or _constant_beside(importer, first, axis, name) for name in names]
    if importer.is_open:
        views = [importer.with_axis(view, axis, node) for view in views]
    if len({view.batched for view in views}) > 1:
        views = [view.with_batch() for view in views]
    axis = importer.axis(views[0], axis)
    shape = views[0].shape
    for view in views:
        if len(view.shape) != len(shape) or any(
            size != other for position, (size, other) in enumerate(zip(view.shape, shape)) if position != axis
        ):
            raise ModelError(f"cannot concatenate {importer.describe(views[0])} and {importer.describe(view)}")
    importer.give(node, put_together(importer, views, axis))


def put_together(importer: Importer, views: list[View], axis: int) -> View:
    """Concatenate views along an axis; their other axes must be equal."""
    if len(views) == 1:
        return views[0]
    order, shape = _first(views[0], axis), list(views[0].shape)
    shapes = [importer.shape(view) for view in views]
    are_channels = all(len(each) == 3 and each[1:] == shapes[0][1:] for each in shapes)
    if are_channels and all(view.permuted(order).arrangement() is None for view in views):  # e.g. stacked images
        sources = tuple(importer.builder.arrange(View.of(view.layer, each), each) for view, each in zip(views, shapes))
    else:
        sources = tuple(_leading(importer, view, order) for view in views)
    shape[axis] = sum(view.shape[axis] for view in views)
    result = importer.add(Concat(importer.name("concat"), inputs=sources))
    return _unordered(result, order, tuple(shape), views[0].batched)


def _constant_beside(importer: Importer, beside: View, axis: int, name: str) -> View:
    """Convert a constant operand of Concat to a layer, which computes 0 * view + constant."""
    values = importer.constants.get(name)
    if values is None or values.ndim != beside.rank or not values.size:
        raise ModelError("cannot concatenate data with a constant whose other axes differ")
    values = importer.of_one_input(beside, values)
    if beside.batched and len(values) != 1:
        raise ModelError("cannot concatenate data with a constant that differs within a batch")
    axis_number = importer.axis(beside, axis)
    count = values.shape[axis_number + beside.batched]
    return filled_entries(importer, beside, axis_number, count, values.astype(np.float64))


def filled_entries(importer: Importer, view: View, axis: int, count: int, numbers: np.ndarray) -> View:
    """Return a view with `count` entries along an axis, all of which are filled with `numbers`."""
    entries = slice_axis(importer, view, axis, 0, min(count, view.shape[axis]))
    if count > view.shape[axis]:
        entries = select_entries(importer, entries, axis, [0] * count)
    return affine_view(importer, entries, np.zeros(1), numbers)


def slice_axis(importer: Importer, view: View, axis: int, first: int, last: int) -> View:
    """Select entries `first` to `last - 1` of an axis."""
    if (first, last) == (0, view.shape[axis]):
        return view
    order, extents, stride = _first(view, axis), importer.shape(view), 1
    shape = list(view.shape)
    shape[axis] = last - first
    if len(extents) == 3 and view.axes[axis] == (Factor(extents[2], 1),):  # whole columns, such as tokens
        cut = Pad(importer.name("crop"), (0, -first, 0, last - extents[2]), inputs=(view.layer,))
        order = (*(other for other in view.order() if other != axis), axis)
        source = importer.builder.arrange(view.permuted(order), extents)
        result = importer.add(dataclasses.replace(cut, inputs=(source,)))
        return _unordered(result, order, tuple(shape), view.batched)
    if len(extents) == 3 and all(factor.stride >= math.prod(extents[1:]) for factor in view.axes[axis]):  # channels
        source, stride = importer.builder.arrange(view.permuted(order), extents), extents[0] // view.shape[axis]
    else:
        source = _leading(importer, view, order)
    result = importer.add(ChannelSlice(importer.name("slice"), first * stride, last * stride, inputs=(source,)))
    return _unordered(result, order, tuple(shape), view.batched)


def _is_repeated_anyway(importer: Importer, node: Node, wide: View) -> bool:
    """Return whether all consumers of a node combine it with a value that has the shape of `wide`, which broadcasts
    it."""
    readers = importer.readers.get(node.outputs[0], ())
    for reader in readers:
        if reader.op not in ("Add", "Sub", "Mul", "Div") or len(reader.inputs) != 2:
            return False
        other = importer.views.get(next((name for name in reader.inputs if name != node.outputs[0]), ""))
        if other is None or (other.shape, other.batched) != (wide.shape, wide.batched):
            return False
    return bool(readers)


def select_entries(importer: Importer, view: View, axis: int, entries: list[int]) -> View:
    """Select entries of an axis in any order (blue, green, red, for example) by a product with ones and zeros."""
    extent = view.shape[axis]
    if max(extent, len(entries)) > MAX_SELECTED:
        raise ModelError(f"cannot select {len(entries)} of {extent} entries; the limit is {MAX_SELECTED}")
    matrix = np.zeros((len(entries), extent), np.float32)
    matrix[np.arange(len(entries)), entries] = 1
    return mix_entries(importer, view, axis, matrix)


def mix_entries(importer: Importer, view: View, axis: int, matrix: np.ndarray) -> View:
    """Multiply an axis by a matrix [new entries, old entries]."""
    order = _first(view, axis)
    source = _leading(importer, view, order)
    size, extent = matrix.shape
    zeros = np.zeros(size, np.float32)
    if len(importer.builder.shapes[source]) == 1:
        dense = Dense(importer.name("choose"), extent, size, inputs=(source,))
        result = importer.add(dense, {"weight": matrix.T, "bias": zeros})
    else:
        layer = Conv2d(importer.name("choose"), extent, size, (1, 1), inputs=(source,))
        result = importer.add(layer, {"weight": matrix[:, :, None, None], "bias": zeros})
    shape = list(view.shape)
    shape[axis] = size
    return _unordered(result, order, tuple(shape), view.batched)


def _split(importer: Importer, node: Node) -> None:
    view = importer.with_axis(importer.data(node), integer(node, "axis", 0), node)
    axis = importer.axis(view, integer(node, "axis", 0))
    sizes = split_sizes(node, [None, importer.constant(node, 1)], view.shape[axis])
    first = 0
    for position, size in enumerate(sizes):
        if node.outputs[position] in importer.wanted:
            importer.give(node, slice_axis(importer, view, axis, first, first + size), position)
        first += size


def _slice(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    arguments = [None, *(importer.constant(node, position) for position in range(1, len(node.inputs)))]
    for start, end, axis, step in zip(*slice_parts(node, arguments, view.rank)):
        if axis == (0 if view.batched else view.place) and (view.batched or importer.batch > 1):
            if (start, step) == (0, 1) and end >= importer.extents(view)[axis]:
                continue
            raise ModelError("cannot select only a part of the batch")
        if step > 0 and not range(*slice(start, end, step).indices(view.shape[axis - view.batched])):
            empty = [0 if other == axis else size for other, size in enumerate(importer.extents(view))]
            importer.give(node, np.empty(empty, np.float32))  # such as a shift of windows by 0
            return
        view = _slice_axis(importer, view, axis - view.batched, start, end, step)
    importer.give(node, view)


def _slice_axis(importer: Importer, view: View, axis: int, start: int, end: int, step: int) -> View:
    """Select entries of an axis, which is numbered without the batch axis."""
    extent = view.shape[axis]
    if step < 0:
        entries = list(range(extent))[slice(start, end, step)]
        if not entries:
            raise ModelError(f"entries {start} to {end} in steps of {step} select none of the {extent} entries")
        return select_entries(importer, view, axis, entries)
    first, last, _ = slice(start, end, max(1, step)).indices(extent)
    if step == 0 or first >= last:
        raise ModelError(
            f"selecting entries {start} to {end} in steps of {step} from {extent} entries is not supported"
        )
    return _part(importer, view, axis, first, last, step)


def _part(importer: Importer, view: View, axis: int, first: int, last: int, step: int) -> View:
    """Slice an axis, which may be the channels, height or width of an image."""
    extent = view.shape[axis]
    order = view.order()
    if len(view.axes) != 3 or order.index(axis) == 0:
        if step > 1:
            return select_entries(importer, view, axis, list(range(first, last, step)))
        return slice_axis(importer, view, axis, first, last)
    ordered = view.permuted(order)
    across = order.index(axis) == 2
    source = importer.builder.arrange(ordered, ordered.shape)
    if (first, last) != (0, extent):
        cut = (0, -first, 0, last - extent) if across else (-first, 0, last - extent, 0)
        source = importer.add(Pad(importer.name("crop"), cut, inputs=(source,))).layer
    if step > 1:  # this is a max-pooling of one pixel with a stride of `step`
        stride = (1, step) if across else (step, 1)
        source = importer.add(Pool(importer.name("pool"), "max", (1, 1), stride, inputs=(source,))).layer
    result = View.of(source, importer.builder.shapes[source], view.batched)
    return result.permuted(tuple(order.index(index) for index in range(3)))


def _expand(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    requested = importer.constant(node, 1)
    if requested is None or requested.ndim != 1:
        raise ModelError("its shape is not a list of integers")
    target = [int(size) for size in requested[:9]]
    _repeat(importer, node, view, [1] * (view.rank - len(target)) + target)


def _tile(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    repeats = importer.constant(node, 1)
    if repeats is None or repeats.shape != (view.rank,):
        raise ModelError("its repeats are not a list of one integer per axis")
    times = [int(count) for count in repeats]
    if min(times, default=1) < 1 or (view.batched and times[0] != 1):
        raise ModelError(f"repeats {importer.describe(view)} {times} times")
    if max(times, default=1) > MAX_TILED:
        raise ModelError(
            f"cannot repeat {importer.describe(view)} {times} times; at most {MAX_TILED} per axis are allowed"
        )
    wide = list(view.shape)
    for axis, count in enumerate(times[view.batched :]):
        if count > 1 and view.shape[axis] > 1:
            view = put_together(importer, [view] * count, axis)
        wide[axis] *= count
    first = [importer.batch] if view.batched else []
    _repeat(importer, node, view, [*first, *wide])


def _repeat(importer: Importer, node: Node, view: View, target: list[int]) -> None:
    """Broadcast axes of size 1 to `target`, which includes the batch axis; a size of 1 leaves an axis unchanged."""
    extents = importer.extents(view)
    if len(target) != len(extents) or any(size not in (1, old) and old != 1 for size, old in zip(target, extents)):
        raise ModelError(f"cannot reshape {importer.describe(view)} to {target}")
    if view.batched and target[0] not in (1, importer.batch):
        raise ModelError("repeats the batch")
    wide = tuple(map(max, target, extents))[view.batched :]
    if importer.stacks_batch(view):
        wide = tuple(view.shape[axis] if axis == view.place else size for axis, size in enumerate(wide))
    if wide == view.shape or _is_repeated_anyway(importer, node, View.of(view.layer, wide, view.batched)):
        importer.give(node, view)
        return
    importer.give(node, widen(importer, view, wide))


OPERATORS = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Expand": _expand,
    "Tile": _tile,
}
