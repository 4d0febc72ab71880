"""Convert depthwise convolutions to convolutions of groups of rows, which the kernel computes
(kernels/convolution/row_blocks.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...kernels.convolution.row_blocks import RowBlocks, on_row_blocks
from ...simulator.machine.chip import PARTITIONS
from .graph import Graph, Node


def multiplied(graph: Graph, node: Node) -> tuple[Node, list[int]]:
    """Return the node with the convolution that the kernel actually computes, and the partitions of each tile that it
    reads."""
    filtered = node.operation.filtered
    heights = graph.heights(node.sources[0])
    if filtered is None or filtered.filter_form.rows == 1:
        return node, heights
    operation = node.convolution
    geometry = operation.row_blocks(PARTITIONS)
    blocks = geometry.blocks(heights)
    grouped = on_row_blocks(operation, len(blocks), PARTITIONS)
    starts = np.cumsum([0, *heights]).tolist()
    channels = [
        slice(starts[block.tile] + block.first, starts[block.tile] + block.first + block.size) for block in blocks
    ]
    assert node.filters is not None
    shape = (grouped.channels, PARTITIONS, *grouped.kernel)
    filters = node.filters.changed(shape, lambda array: _matrices(array, shape, channels, geometry))
    return (
        replace(
            node,
            operation=grouped,
            before=(grouped.channels, geometry.in_groups, node.before[2]),
            filters=filters,
            numbers=tuple(_on_partitions(numbers, channels, geometry) for numbers in node.numbers),
        ),
        [PARTITIONS] * len(blocks),
    )


def _matrices(filters: np.ndarray, shape: tuple[int, ...], channels: list[slice], geometry: RowBlocks) -> np.ndarray:
    """Convert filters [channels, 1, kh, kw] to filters for groups of rows: [outputs, inputs of a block, steps, kw]."""
    channels_per_row = geometry.channels
    matrices = np.zeros(
        (len(channels), geometry.rows, channels_per_row, geometry.rows, channels_per_row, *shape[2:]), filters.dtype
    )
    for number, tile_channels in enumerate(channels):
        lanes = np.arange(tile_channels.stop - tile_channels.start)
        for output, side, step, row in geometry.taps():
            matrices[number, output, lanes, side, lanes, step] = filters[tile_channels, 0, row]
    return matrices.reshape(shape)


def _on_partitions(numbers: np.ndarray, channels: list[slice], geometry: RowBlocks) -> np.ndarray:
    """Convert per-channel numbers to one number per partition of each block."""
    filled = np.zeros((len(channels), geometry.rows, geometry.channels), numbers.dtype)
    for number, tile_channels in enumerate(channels):
        filled[number, :, : tile_channels.stop - tile_channels.start] = numbers[tile_channels]
    return filled.ravel()
