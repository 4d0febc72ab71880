"""The graph of a single layer, which `--launches layer` runs if no single kernel computes the layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels.program import MAX_INPUTS, Load
from ..models.checks import Shape
from ..models.files import Model
from ..models.layers import Layer
from . import rules  # noqa: F401 (registers them)
from .builder import RULES, GraphBuilder
from .graph.channels import Channels
from .graph.graph import Graph, Node, Unsupported


def lower_layer(model: Model, dtype: np.dtype[Any], layer: Layer, shapes: dict[str, Shape]) -> Graph:
    """Return the graph of a layer.

    Each distinct input of the layer is an input of the launch. `shapes`: the shapes of all values.

    Raises Unsupported if the layer has no lowering rule, or cannot be lowered on its own.
    """
    names = list(dict.fromkeys(layer.inputs))
    if len(names) > MAX_INPUTS:
        raise Unsupported(f"layer {layer.name!r} reads {len(names)} values; a launch has at most {MAX_INPUTS} inputs")
    images = [as_image(shapes[name]) for name in names]
    builder = GraphBuilder(model, dtype, tuple(images), {}, {}, is_whole=False)
    for number, (name, image) in enumerate(zip(names, images)):
        builder.places[name], builder.shapes[name] = Channels.of(number, image[0]), image
        channels, rows, columns = image
        load = Load(name=layer.name, sources=((-1 - number,),), channels=channels, rows=rows, columns=columns)
        builder.nodes.append(Node(load, "load", image, (image, image)))
    if type(layer) not in RULES:
        raise Unsupported(f"layer {layer.name!r} ({layer.kind}) has no lowering rule")
    RULES[type(layer)](builder, layer)
    channel_map = builder.places[layer.name]
    if len(channel_map.parts) > 1 or not channel_map.are_plain:
        builder.gather(layer.name)
    builder.mark_output(layer.name, 0)
    return Graph(tuple(builder.nodes), images[0], dtype.itemsize, from_host=False, more_inputs=tuple(images[1:]))


def as_image(shape: Shape) -> Shape:
    """Return a shape as an image: features become (F, 1, 1), sequences (C, 1, L)."""
    if len(shape) == 3:
        return shape
    return (shape[0], 1, shape[1]) if len(shape) == 2 else (*shape, 1, 1)


def computes_nothing(graph: Graph) -> bool:
    """True if the value of a layer's graph is stored in HBM exactly like its only input, apart from the shape."""
    return len(graph.inputs) == 1 and all(node.operation.keeps_numbers(math.prod(node.before)) for node in graph.nodes)
