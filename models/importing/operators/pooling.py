"""Pooling, and means and maxima over the height and width of an image."""

from __future__ import annotations

import math

from ...network import ModelError, Pool
from ..importer import Importer, without_height
from ..onnx_attributes import integer, integers
from ..onnx_constants import axes_of
from ..onnx_file import Node
from ..view import View
from .convolution import geometry


def _pool(importer: Importer, node: Node, method: str) -> None:
    view = importer.image(node)
    sides = view.shape[1:]
    kernel = integers(node, "kernel_shape", len(sides), ())
    if min(kernel) < 1:
        raise ModelError("its kernel_shape is not above 0")
    strides, dilations, pads = geometry(node, kernel, sides)
    if dilations != (1, 1):
        raise ModelError("dilations of a pool are not supported, only 1")
    if integer(node, "storage_order", 0) or any(node.outputs[1:]):
        raise ModelError("the indices of a maximum are not supported")
    layer = Pool(
        importer.name("pool"),
        method,
        (kernel[0], kernel[1]) if len(kernel) == 2 else (1, kernel[0]),
        strides,
        pads,
        bool(integer(node, "ceil_mode", 0)),
        bool(integer(node, "count_include_pad", 0)) and method == "average",
        inputs=(importer.planes(view),),
    )
    if layer.window == (1, 1) and layer.stride == (1, 1) and not any(pads):
        importer.give(node, view)
    else:
        importer.give(node, without_height(importer.add(layer), len(view.axes)))


def pool_axes(importer: Importer, view: View, axes: tuple[int, ...], method: str, keep: bool) -> View:
    """The mean or maximum of a view over axes (without the batch) that are its image's height, width or both."""
    rest = tuple(axis for axis in view.order() if axis not in axes)
    inner = tuple(axis for axis in view.order() if axis in axes)
    ordered = view.permuted((*rest, *inner))
    sizes = ordered.shape
    channels = math.prod(sizes[: len(rest)])
    if len(inner) == 2:
        image = (channels, *sizes[len(rest) :])
    elif ordered.arrangement() is None and len(rest) == 2:
        image = sizes  # over the width alone
    else:
        image = (channels, 1, math.prod(sizes[len(rest) :]))
    window = (image[1] if len(inner) == 2 else 1, image[2])
    source = importer.builder.arrange(ordered, (image[0], image[1], image[2]))
    made = importer.add(Pool(importer.name("pool"), method, window, window, inputs=(source,)))
    left = tuple(sizes[: len(rest)])
    spread = made.reshaped(left, view.batched)
    kept = spread.permuted(tuple(rest.index(axis) for axis in sorted(rest)))
    if not keep:
        return kept
    full = iter(kept.axes)
    return View(made.layer, tuple(() if axis in axes else next(full) for axis in range(len(view.axes))), view.batched)


def _global(importer: Importer, node: Node, method: str) -> None:
    view = importer.image(node)
    importer.give(node, pool_axes(importer, view, tuple(range(1, len(view.axes))), method, True))


def _reduce(importer: Importer, node: Node, method: str) -> None:
    view = importer.data(node)
    given = axes_of(node, [importer.constants.get(name) for name in node.inputs])
    if given is None:
        raise ModelError("works over all axes, the batch among them")
    axes = tuple(sorted({importer.axis(view, axis) for axis in given}))
    if not axes or len(axes) == len(view.axes) > 1:
        raise ModelError("supported over height, width or both of an image alone")
    if all(not view.axes[axis] for axis in axes):  # of one number each
        kept = tuple(axis for number, axis in enumerate(view.axes) if number not in axes)
        importer.give(node, view if integer(node, "keepdims", 1) else View(view.layer, kept, view.batched))
        return
    importer.give(node, pool_axes(importer, view, axes, method, bool(integer(node, "keepdims", 1))))


OPERATORS = {
    "MaxPool": lambda importer, node: _pool(importer, node, "max"),
    "AveragePool": lambda importer, node: _pool(importer, node, "average"),
    "GlobalAveragePool": lambda importer, node: _global(importer, node, "average"),
    "GlobalMaxPool": lambda importer, node: _global(importer, node, "max"),
    "ReduceMean": lambda importer, node: _reduce(importer, node, "average"),
    "ReduceMax": lambda importer, node: _reduce(importer, node, "max"),
}
