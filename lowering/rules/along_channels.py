"""Lower a convolution along the channels of a feature vector, such as the gate of an ECA block, to a 1x1 convolution.

The network reshapes the features to a row of pixels, filters the row, and reshapes the result back. Both reshapes would
copy the value through HBM. Instead, a 1x1 convolution multiplies the features by a band matrix. Only the tiles of the
matrix that contain non-zero numbers are loaded and multiplied (`LazyArray.reach`).
"""

from __future__ import annotations

import math

import numpy as np

from ...kernels.program import Activation, Convolution
from ...models.checks import Shape
from ...models.layers import Conv2d, Flatten, Layer, Reshape
from ..builder import MOST_GATHERED, GraphBuilder
from ..graph.lazy import LazyArray


def is_read_along_channels(builder: GraphBuilder, layer: Reshape) -> bool:
    """True if a layer reshapes features only for a convolution along their channels."""
    readers = _readers(builder, layer)
    return len(readers) == 1 and is_along_channels(builder, readers[0])


def _readers(builder: GraphBuilder, layer: Layer) -> list[Layer]:
    return [reader for reader in builder.model.network.layers if layer.name in reader.inputs]


def is_along_channels(builder: GraphBuilder, layer: Layer) -> bool:
    """True if a layer convolves a row of pixels that was reshaped from features and is reshaped back to features."""
    if not builder.is_whole or not isinstance(layer, Conv2d) or layer.in_channels != 1 or layer.out_channels != 1:
        return False
    network = builder.model.network
    before, shapes = builder.layers.get(layer.inputs[0]), network.shapes()
    if not isinstance(before, Reshape) or not builder.is_read_once(before.name):
        return False
    row = shapes[before.name]
    is_row = len(row) == 3 and row[:2] == (1, 1) and 1 < row[2] <= MOST_GATHERED
    is_plain = layer.pool_size == 1 and layer.stride == (1, 1) and layer.kernel_size[0] == 1
    if not is_row or not is_plain or layer.padding[::2] != (0, 0) or shapes[layer.name] != row:
        return False
    readers = _readers(builder, layer)
    are_reshaped = all(isinstance(reader, Reshape | Flatten) for reader in readers)
    values = [shapes[before.inputs[0]], *(shapes[reader.name] for reader in readers)]
    is_returned = any(output.layer == layer.name for output in network.named_outputs)
    return are_reshaped and bool(readers) and not is_returned and all(_is_features(value, row[2]) for value in values)


def _is_features(shape: Shape, count: int) -> bool:
    """True if a value consists of `count` channels of one pixel each."""
    return shape[0] == count == math.prod(shape)


def convolve_along_channels(builder: GraphBuilder, layer: Conv2d) -> None:
    """Append the 1x1 convolution that replaces a convolution along channels."""
    (read,) = layer.inputs
    builder.make_plain(read)
    count, taps = builder.shapes[read][0], layer.kernel_size[1]
    distances = np.arange(taps) * layer.dilation[1] - layer.padding[1]
    weights = builder.filters(layer)
    shape = (count, count, 1, 1)

    def make() -> np.ndarray:
        matrix = np.zeros((count, count), np.float32)
        for distance, weight in zip(distances.tolist(), weights.make().ravel()):
            outputs = np.arange(max(0, -distance), min(count, count - distance))
            matrix[outputs, outputs + distance] = weight
        return matrix.reshape(shape)

    builder.add(
        Convolution,
        layer.name,
        layer.inputs,
        (count, 1, 1),
        kind=layer.kind,
        filters=LazyArray(shape, make, int(abs(distances).max())),
        numbers=(np.repeat(builder.tensor(layer, "bias"), count),),
        activation=Activation(layer.activation, layer.activation_parameters),
    )
