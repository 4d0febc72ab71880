"""Lowering rules for layers that only reorder channels or compute nothing: flatten, reshape, concat, slice, shuffle."""

import math

import numpy as np

from ...kernels.attention_operation import ReshapePixels
from ...models.checks import INPUT
from ...models.layers import ChannelShuffle, ChannelSlice, Concat, Flatten, Layer, Reshape
from ...simulator.machine.chip import PARTITIONS
from ..builder import GraphBuilder, lowers
from ..graph.channels import joined
from ..graph.graph import Unsupported
from .along_channels import is_read_along_channels
from .splitting import split_for_slices


def keep(builder: GraphBuilder, layer: Layer) -> None:
    """Map the layer's value to its input."""
    source = layer.inputs[0]
    builder.places[layer.name], builder.shapes[layer.name] = builder.places[source], builder.shapes[source]


@lowers(Flatten)
def flatten(builder: GraphBuilder, layer: Flatten) -> None:
    """Append nothing, because the window of the dense layer that follows covers the whole image."""
    keep(builder, layer)


@lowers(Reshape)
def reshape(builder: GraphBuilder, layer: Reshape) -> None:
    """Reshape an image.

    Features are already 1x1 images. If the number of channels stays the same, pixels are copied to other rows;
    otherwise, the image is copied through HBM.
    """
    shape = builder.shapes[layer.inputs[0]]
    if len(layer.shape) != 3 or layer.shape == shape or is_read_along_channels(builder, layer):
        keep(builder, layer)
        return
    is_input = builder.is_whole and layer.inputs[0] == INPUT
    if layer.shape[0] == shape[0] and not is_input:
        builder.add_by_channel(ReshapePixels, layer, layer.shape)
        return
    builder.cut(layer.name, layer.inputs[0], layer.shape, layer.kind)


@lowers(Concat)
def concat(builder: GraphBuilder, layer: Concat) -> None:
    """Concatenate the parts, which the consumers of the layer then read directly.

    Flattened images that are concatenated with features are copied through HBM to become features.
    """
    reads = list(layer.inputs)
    if len({builder.shapes[read][1:] for read in reads}) > 1:
        if len(builder.model.network.shapes()[layer.name]) != 1:
            raise Unsupported(
                f"layer {layer.name!r} ({layer.kind}) concatenates values with different rows and columns"
            )
        for number, read in enumerate(reads):
            shape = builder.shapes[read]
            if shape[1:] != (1, 1):
                reads[number] = f"{layer.name}.{number}"
                builder.cut(reads[number], read, (math.prod(shape), 1, 1), layer.kind)
    shapes = [builder.shapes[read] for read in reads]
    builder.places[layer.name] = joined([builder.places[read] for read in reads])
    builder.shapes[layer.name] = (sum(shape[0] for shape in shapes), *shapes[0][1:])


@lowers(ChannelSlice)
def channel_slice(builder: GraphBuilder, layer: ChannelSlice) -> None:
    """Select some channels of the parts. If a convolution can be split for the slice, a separate node computes them."""
    source = layer.inputs[0]
    if layer.name in builder.places or split_for_slices(builder, source):
        return
    window = builder.shapes[source][1:]
    pixels = (
        math.prod(window) if len(builder.model.network.shapes()[source]) == 1 else 1
    )  # pixels of flattened channels
    if layer.first % pixels or layer.last % pixels:
        raise Unsupported(f"layer {layer.name!r} ({layer.kind}) crops an image's rows")
    first, last = layer.first // pixels, layer.last // pixels
    readers = [other for other in builder.model.network.layers if layer.name in other.inputs]
    is_input = source == INPUT and builder.is_whole and builder.shapes[source][0] > PARTITIONS
    builder.places[layer.name] = builder.places[source].picked(np.arange(first, last))
    builder.shapes[layer.name] = (last - first, *window)
    if is_input and not all(isinstance(reader, Reshape) for reader in readers):  # one of several inputs
        builder.cut(layer.name, layer.name, builder.shapes[layer.name], layer.kind)


@lowers(ChannelShuffle)
def channel_shuffle(builder: GraphBuilder, layer: ChannelShuffle) -> None:
    """Permute the channels."""
    keep(builder, layer)
    order = np.arange(builder.shapes[layer.name][0]).reshape(layer.groups, -1).T.ravel()
    builder.places[layer.name] = builder.places[layer.name].picked(order)
