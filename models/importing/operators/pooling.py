"""Pooling, of windows and of whole images."""

from __future__ import annotations

from ...errors import ModelError
from ...layers import Pool
from ..importer import Importer, without_height
from ..onnx_attributes import integer, integers
from ..onnx_file import Node
from .convolution import geometry
from .rearranging import reshaped
from .reducing import pool_axes


def _pool(importer: Importer, node: Node, method: str) -> None:
    if len(importer.data(node).axes) == 4:
        _pool_first_side(importer, node, method)
        return
    view = importer.image(node)
    sides = view.shape[1:]
    kernel = integers(node, "kernel_shape", len(sides), ())
    if min(kernel) < 1:
        raise ModelError("its kernel_shape is not above 0")
    strides, dilations, pads = geometry(node, kernel, sides)
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
        dilations,
        inputs=(importer.planes(view),),
    )
    if layer.window == (1, 1) and layer.stride == (1, 1) and not any(pads):
        importer.give(node, view)
    else:
        importer.give(node, without_height(importer.add(layer), len(view.axes)))


def _pool_first_side(importer: Importer, node: Node, method: str) -> None:
    """Windows along the first of three sides, as PyTorch spells local response normalisation."""
    view, strides = importer.data(node), integers(node, "strides", 3, (1, 1, 1))
    kernel, dilations = (integers(node, name, 3, (1, 1, 1)) for name in ("kernel_shape", "dilations"))
    if kernel[0] < 1 or {*kernel[1:], *strides, *dilations} != {1} or any(integers(node, "pads", 6, (0,) * 6)):
        raise ModelError("pools images of three sides; windows of one side are supported, without strides and pads")
    channels, depth, height, width = view.shape
    source = importer.planes(reshaped(importer, view, (channels, depth, height * width), view.batched))
    made = importer.add(Pool(importer.name("pool"), method, (kernel[0], 1), (1, 1), inputs=(source,)))
    importer.give(node, made.reshaped((channels, made.shape[1], height, width), view.batched))


def _global(importer: Importer, node: Node, method: str) -> None:
    view = importer.image(node)
    importer.give(node, pool_axes(importer, view, tuple(range(1, len(view.axes))), method, True))


OPERATORS = {
    "MaxPool": lambda importer, node: _pool(importer, node, "max"),
    "AveragePool": lambda importer, node: _pool(importer, node, "average"),
    "GlobalAveragePool": lambda importer, node: _global(importer, node, "average"),
    "GlobalMaxPool": lambda importer, node: _global(importer, node, "max"),
}
