"""Split convolutions into several nodes whose output channels are read separately."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...kernels.tiling.packing import ceil_div
from ...models.layers import Activation, Affine, ChannelShuffle, ChannelSlice, Concat, Conv2d, Pool, PRelu
from ...simulator.machine.chip import PARTITIONS
from ..builder import GraphBuilder
from ..graph.graph import Node


def can_split(node: Node, channels: np.ndarray) -> bool:
    """True if `channels`, some output channels of a convolution, can be computed by a separate node.

    Each group must contain the same number of them.
    """
    convolution = node.operation.convolved
    if convolution is None or convolution.pool_size > 1 or len(convolution.sources) > 1:
        return False
    groups = convolution.groups
    if len(channels) % groups:
        return False
    per_group = channels // (convolution.channels // groups)
    return bool((per_group == np.repeat(np.arange(groups), len(channels) // groups)).all())


def some_channels(node: Node, channels: np.ndarray) -> Node:
    """Return a convolution that computes some of the output channels of another one."""
    filters = node.filters
    assert filters is not None
    convolution_of_channels = replace(
        node,
        filters=filters.changed((len(channels), *filters.shape[1:]), lambda array: array[channels]),
        numbers=tuple(numbers[channels] for numbers in node.numbers),
    )
    return convolution_of_channels.changed(channels=len(channels))


def split_for_slices(builder: GraphBuilder, source: str) -> bool:
    """If only slices read a convolution, split it into one node per slice, provided that most slices would otherwise
    have to be rearranged. Return True if it was split."""
    network, channel_map = builder.model.network, builder.places[source]
    node = builder.nodes[channel_map.parts[0]] if channel_map.parts[0] >= 0 else None
    slices = [layer for layer in network.layers if source in layer.inputs]
    if node is None or node.name != source or not channel_map.are_plain or len(builder.shapes[source]) != 3:
        return False
    if any(output.layer == source for output in network.named_outputs) or len(network.shapes()[source]) != 3:
        return False
    parts = sorted((piece.first, piece.last, piece.name) for piece in slices if isinstance(piece, ChannelSlice))
    borders = [0, *(last for _, last, _ in parts)]
    if len(parts) < len(slices) or borders != [*(first for first, _, _ in parts), channel_map.total]:
        return False
    if 2 * sum(_is_laid_out(builder, name, last - first, channel_map.total) for first, last, name in parts) < len(
        parts
    ):
        return False
    if not all(can_split(node, np.arange(first, last)) for first, last, _ in parts):
        return False
    builder.move_to_end(channel_map.parts[0])
    unsplit = builder.nodes.pop()
    for first, last, name in parts:
        builder.add_node(some_channels(unsplit, np.arange(first, last)), name)
    return True


def _is_laid_out(builder: GraphBuilder, name: str, channels: int, total: int) -> bool:
    """True if a layer that reads `channels` of `total` channels requires them as a separate value, or may read them
    with packed rows."""
    fewer = ceil_div(channels, PARTITIONS) < ceil_div(total, PARTITIONS)
    for layer in (layer for layer in builder.model.network.layers if name in layer.inputs):
        if isinstance(layer, Conv2d):
            has_packed_rows = layer.groups == 1 < layer.kernel_size[0] and channels <= PARTITIONS // 2
            if has_packed_rows or (fewer and 1 < layer.groups == layer.in_channels):
                return True
        elif not isinstance(layer, (Activation, Affine, ChannelShuffle, ChannelSlice, Concat, Pool, PRelu)):
            return True
    return False
