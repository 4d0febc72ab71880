"""Pooling over windows and over whole images."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...errors import ModelError
from ...layers import Pool
from ..importer import Importer, without_height
from ..onnx_attributes import integer, integers, listed, text
from ..onnx_file import Attribute, Node
from ..steps import activate
from ..view import View
from .arithmetic import power
from .convolution import convolve, geometry
from .rearranging import reshaped
from .reducing import pool_axes


def _pool(importer: Importer, node: Node, method: str) -> None:
    view = importer.data(node).with_batch()
    if len(view.axes) == 4 and not view.batched and len(listed(node, "kernel_shape")) == 2:
        importer.give(node, _pooled_each(importer, node, view, method))
    elif len(view.axes) == 4 and view.shape[1] == 1:
        importer.give(node, with_depth(_pooled(importer, *without_depth(node, view), method)))
    elif len(view.axes) == 4:
        importer.give(node, _pooled_by_sides(importer, node, view, method))
    else:
        importer.give(node, _pooled(importer, node, importer.image(node), method))


def _pooled_each(importer: Importer, node: Node, view: View, method: str) -> View:
    """Pool several images [images, C, H, W] of one example, such as windows, as the channels of a single image."""
    images, channels, *sides = view.shape
    result = _pooled(importer, node, reshaped(importer, view, (images * channels, *sides), True), method)
    return result.reshaped((images, channels, *result.shape[1:]), False)


def _pooled(importer: Importer, node: Node, view: View, method: str) -> View:
    sides = view.shape[1:]
    kernel = integers(node, "kernel_shape", len(sides), ())
    if min(kernel) < 1:
        raise ModelError("its kernel_shape is not positive")
    node, kernel = _within_image(node, kernel, sides)
    strides, dilations, pads = geometry(node, kernel, sides)
    if integer(node, "storage_order", 0) or any(node.outputs[1:]):
        raise ModelError("its second output, the indices of the maxima, is not supported")
    layer = Pool(
        name=importer.name("pool"),
        method=method,
        window=(kernel[0], kernel[1]) if len(kernel) == 2 else (1, kernel[0]),
        stride=strides,
        padding=pads,
        ceil_mode=bool(integer(node, "ceil_mode", 0)),
        count_include_pad=bool(integer(node, "count_include_pad", 0)) and method == "average",
        dilation=dilations,
        inputs=(importer.planes(view),),
    )
    if layer.window == (1, 1) and layer.stride == (1, 1) and not any(pads):
        return view
    return without_height(importer.add(layer), len(view.axes))


def _within_image(node: Node, kernel: tuple[int, ...], sides: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    """Limit the window of a pool to the padded image if it is larger and `ceil_mode` keeps it; return the pool and its
    window. The EfficientNet in the transformers package averages whole images with such windows."""
    if text(node, "auto_pad", "NOTSET").startswith("SAME"):
        return node, kernel
    rank = len(sides)
    strides, dilations = (list(integers(node, name, rank, (1,) * rank)) for name in ("strides", "dilations"))
    pads, sizes = integers(node, "pads", 2 * rank, (0,) * 2 * rank), list(kernel)
    for axis, side in enumerate(sides):
        extent = side + pads[axis] + pads[axis + rank]
        excess = (kernel[axis] - 1) * dilations[axis] + 1 - extent
        is_kept = integer(node, "ceil_mode", 0) and 0 < excess < strides[axis] and dilations[axis] > 0 < extent
        if is_kept and (extent - 1) % dilations[axis] == 0:  # else the smaller window would fit in more than one place
            sizes[axis], strides[axis] = (extent - 1) // dilations[axis] + 1, 1
    return replace(node, attributes={**node.attributes, "strides": tuple(strides)}), tuple(sizes)


def without_depth(node: Node, view: View) -> tuple[Node, View]:
    """Convert 3-D pooling to 2-D pooling if the depth is one pixel both before and after it."""
    attributes, depth = dict(node.attributes), {}
    for name, default in (("kernel_shape", 1), ("strides", 1), ("dilations", 1)):
        if name in attributes:
            first, *rest = integers(node, name, 3, ())
            depth[name], attributes[name] = first, tuple(rest)
        else:
            depth[name] = default
    pads = integers(node, "pads", 6, (0,) * 6)
    if "pads" in attributes:
        attributes["pads"] = (*pads[1:3], *pads[4:])
    depth_out = (pads[0] + pads[3] - (depth["kernel_shape"] - 1) * depth["dilations"]) // max(1, depth["strides"]) + 1
    if depth_out != 1 or (depth["kernel_shape"] > 1 and integer(node, "count_include_pad", 0)):
        raise ModelError(
            f"its depth changes from one pixel to {depth_out}; 3-D images are supported only if one side is 1"
        )
    flat = View(view.layer, (view.axes[0], *view.axes[2:]), view.batched)
    return replace(node, attributes=attributes), flat


def with_depth(view: View) -> View:
    """Return a 2-D image as a 3-D image with a depth of one pixel."""
    return View(view.layer, (view.axes[0], (), *view.axes[1:]), view.batched)


def _pooled_by_sides(importer: Importer, node: Node, view: View, method: str) -> View:
    """Pool a 3-D image by pooling each slice and then the depth, as a maximum of maxima or a mean of means."""
    channels, depth, *sides = view.shape
    slices = reshaped(importer, view, (channels * depth, *sides), view.batched)
    result = _pooled(importer, _along(node, (1, 2)), slices, method)
    sides = list(result.shape[1:])
    columns = reshaped(importer, result, (channels, depth, math.prod(sides)), view.batched)
    result = _pooled(importer, _along(node, (0, None)), columns, method)
    return result.reshaped((channels, result.shape[1], *sides), view.batched)


def _along(node: Node, sides: tuple[int | None, int | None]) -> Node:
    """Return a node that pools two of the three spatial axes of a 3-D pool; None in `sides` stands for an axis that is
    not pooled."""
    attributes = dict(node.attributes)
    for name in {"kernel_shape", "strides", "dilations"} & attributes.keys():
        values = integers(node, name, 3, ())
        attributes[name] = tuple(1 if side is None else values[side] for side in sides)
    if "pads" in attributes:
        pads = integers(node, "pads", 6, ())
        attributes["pads"] = tuple(0 if side is None else pads[side + end] for end in (0, 3) for side in sides)
    return replace(node, attributes=attributes)


def _global(importer: Importer, node: Node, method: str) -> None:
    view = importer.data(node).with_batch()
    if not view.batched or len(view.axes) < 2:
        raise ModelError(f"expects images, but its input is {importer.describe(view)}")
    importer.give(node, pool_axes(importer, view, tuple(range(1, len(view.axes))), method, True))


def _norm_pool(importer: Importer, node: Node) -> None:
    """Compute the p-norm of each window: the p-th root of the sum of powers, summed by a depthwise filter of ones."""
    view, p = importer.image(node), integer(node, "p", 2)
    attributes: dict[str, Attribute]
    if p < 1:
        raise ModelError(f"its p is {p}")
    if node.op == "GlobalLpPool":
        kernel, attributes = view.shape[1:], {"kernel_shape": view.shape[1:]}
    else:
        kernel, attributes = integers(node, "kernel_shape", len(view.shape) - 1, ()), dict(node.attributes)
    if min(kernel) < 1:
        raise ModelError("its kernel_shape is not positive")
    if integer(node, "ceil_mode", 0):
        raise ModelError("its ceil_mode is not supported")
    powers = activate(importer, view, "abs") if p % 2 else view
    powers = powers if p == 1 else power(importer, powers, p)
    channels = view.shape[0]
    sums = Node("Conv", node.name, node.inputs, node.outputs, {**attributes, "group": channels})
    result = convolve(importer, sums, powers, np.ones((channels, 1, *kernel), np.float32), None)
    importer.give(node, result if p == 1 else power(importer, result, 1 / p))


OPERATORS = {
    "LpPool": _norm_pool,
    "GlobalLpPool": _norm_pool,
    "MaxPool": lambda importer, node: _pool(importer, node, "max"),
    "AveragePool": lambda importer, node: _pool(importer, node, "average"),
    "GlobalAveragePool": lambda importer, node: _global(importer, node, "average"),
    "GlobalMaxPool": lambda importer, node: _global(importer, node, "max"),
}
