"""Compute weighted means of pixels, as in global context blocks, without attention.

The import represents such a mean as linear attention with a constant query. Attention would transpose all pixels to
multiply them by a single row of weights. Instead, the weights are repeated for each channel, multiplied by the image,
and the products are averaged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ..checks import Shape
from ..layers import Affine, Attention, Combine, Conv2d, Flatten, Layer, Pool, Reshape
from .layer_table import free_name


def average_by_weights(
    layers: Mapping[str, Layer], tensors: Mapping[str, np.ndarray], shapes: dict[str, Shape]
) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    """Return the layers and tensors in which linear attention with a constant query is replaced. The shapes of new
    layers are added to `shapes`."""
    result, all_tensors = dict[str, Layer](), dict(tensors)
    for layer in layers.values():
        query = _constant_query(layer, layers, tensors, shapes)
        if not isinstance(layer, Attention) or query is None:
            result[layer.name] = layer
            continue
        _, keys, values = layer.inputs
        new_layers = _weighted_mean(layer, _without_reshapes(keys, layers), _image(values, layers, shapes), shapes)
        repeat, scale = (next(each for each in new_layers if isinstance(each, kind)) for kind in (Conv2d, Affine))
        channels, pixels = shapes[values][0], math.prod(shapes[keys])
        root = math.sqrt(pixels)  # keeps both factors, and thus the products, within the range of float16
        all_tensors |= {
            f"{repeat.name}.weight": np.full((channels, 1, 1, 1), query * layer.scale * root, np.float32),
            f"{repeat.name}.bias": np.zeros(channels, np.float32),
            f"{scale.name}.scale": np.full(channels, root, np.float32),
            f"{scale.name}.shift": np.zeros(channels, np.float32),
        }
        for new in new_layers:
            result[new.name] = new
            shapes[new.name] = new.output_shape(*(shapes[read] for read in new.inputs))
    return result, all_tensors


def _weighted_mean(layer: Attention, weights: str, image: str, shapes: Mapping[str, Shape]) -> list[Layer]:
    """Return the layers that replace `layer`, the last of which has its name."""
    channels, *window = shapes[image]
    names = [free_name(f"{layer.name}.{name}", shapes) for name in ("row", "weights", "product", "mean")]
    reshaped: list[Layer] = []
    if shapes[weights] != (1, *window):
        reshaped = [Reshape(names[0], (1, *window), inputs=(weights,))]
        weights = names[0]
    sides = (window[0], window[1])
    return [
        *reshaped,
        Conv2d(names[1], 1, channels, (1, 1), inputs=(weights,)),
        Combine(names[2], "multiply", inputs=(image, names[1])),
        Pool(names[3], "average", sides, sides, inputs=(names[2],)),
        Affine(layer.name, (channels,), inputs=(names[3],)),
    ]


def _constant_query(
    layer: Layer, layers: Mapping[str, Layer], tensors: Mapping[str, np.ndarray], shapes: Mapping[str, Shape]
) -> float | None:
    """Return the constant that is the only query of a linear attention over one feature, or None."""
    if not isinstance(layer, Attention) or not layer.is_linear or layer.heads > 1 or layer.by_rows:
        return None
    query, keys, values = layer.inputs
    affine = layers.get(query)
    if not isinstance(affine, Affine) or affine.activation != "identity" or math.prod(shapes[query]) != 1:
        return None
    is_constant = not tensors[f"{query}.scale"].any() and shapes[keys][0] == 1
    if not is_constant or len(shapes[_image(values, layers, shapes)]) != 3:
        return None
    return float(tensors[f"{query}.shift"].ravel()[0])


def _without_reshapes(name: str, layers: Mapping[str, Layer]) -> str:
    """Return the value that a value is reshaped from."""
    while isinstance(layers.get(name), Reshape | Flatten):
        name = layers[name].inputs[0]
    return name


def _image(name: str, layers: Mapping[str, Layer], shapes: Mapping[str, Shape]) -> str:
    """Return the image that a value is reshaped from, if it has the same channels."""
    source = _without_reshapes(name, layers)
    return source if len(shapes[source]) == 3 and shapes[source][0] == shapes[name][0] else name
