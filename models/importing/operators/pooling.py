"""Pooling, of windows and of whole images."""

from __future__ import annotations

from ...network import ModelError, Pool
from ..importer import Importer, without_height
from ..onnx_attributes import integer, integers
from ..onnx_file import Node
from .convolution import geometry
from .reducing import pool_axes


def _pool(importer: Importer, node: Node, method: str) -> None:
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


def _global(importer: Importer, node: Node, method: str) -> None:
    view = importer.image(node)
    importer.give(node, pool_axes(importer, view, tuple(range(1, len(view.axes))), method, True))


OPERATORS = {
    "MaxPool": lambda importer, node: _pool(importer, node, "max"),
    "AveragePool": lambda importer, node: _pool(importer, node, "average"),
    "GlobalAveragePool": lambda importer, node: _global(importer, node, "average"),
    "GlobalMaxPool": lambda importer, node: _global(importer, node, "max"),
}
