"""Split off the last channels of an expansion, if they fill only part of a tile, as separate nodes.

A depthwise convolution multiplies by diagonal matrices: a tile of 16 channels uses one eighth of the Tensor Engine's
rows, which takes as much time as using all 128 rows and keeps the clock rate low. If such a tile, together with the
part of the convolution that feeds it, is a separate node, copies of the tile can be stored on later partitions, so that
one matmul covers several taps (pack_taps.py).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...kernels.program import Memory, Parts
from ...kernels.tiling.packing import copies_in_partitions
from ...simulator.machine.chip import PARTITIONS
from ..graph.graph import Graph, Node


def split_partial_tiles(graph: Graph, only: Collection[int] | None = None) -> Graph:
    """Split depthwise convolutions, and the convolutions that feed them, into two nodes of the same name each.

    `only`: the depthwise convolutions to split; None for all.
    """
    cut = {n for pair in _pairs(graph) if only is None or pair[1] in only for n in pair}
    new_nodes: list[Node] = []
    places: dict[int, tuple[int, ...]] = {}
    for n, node in enumerate(graph.nodes):
        sources = tuple(tuple(new for part in parts for new in places.get(part, (part,))) for parts in node.sources)
        first = len(new_nodes)
        new_nodes += _whole_and_tail(node, sources[0]) if n in cut else [node.changed(sources=sources)]
        places[n] = tuple(range(first, len(new_nodes)))
    return graph.with_nodes(new_nodes)


def _whole_and_tail(node: Node, parts: Parts) -> list[Node]:
    """Return the two parts of a node. The tail is copied while the next node processes the rest."""
    channels = node.operation.channels
    border = channels // PARTITIONS * PARTITIONS
    read = (parts[:1], parts[1:]) if node.is_depthwise() else (parts, parts)
    return [
        _part(node, slice(0, border), read[0], "whole"),
        _part(node, slice(border, channels), read[1], "tail"),
    ]


def _pairs(graph: Graph) -> list[tuple[int, int]]:
    """Return pairs of a convolution and its only consumer, a depthwise convolution, that can be split."""
    pairs = []
    for n, node in enumerate(graph.nodes):
        operation = node.operation
        if not node.is_depthwise() or node.output is not None or sum(map(len, operation.sources)) > 1:
            continue
        operation = node.convolution
        source, tail = operation.sources[0][0], operation.channels % PARTITIONS
        copies = copies_in_partitions(tail or PARTITIONS, operation.kernel[0], PARTITIONS)
        if copies.rows > 1 and operation.channels > PARTITIONS and source >= 0 and _can_be_cut(graph, source):
            pairs.append((source, n))
    return pairs


def _can_be_cut(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    operation = node.operation.convolved
    if operation is None or node.memory is not Memory.SBUF or node.output is not None:
        return False
    return operation.groups == len(operation.sources) == len(graph.readers(number)) == 1


def _part(node: Node, channels: slice, parts: tuple[int, ...], name: str) -> Node:
    count = channels.stop - channels.start
    grouped = node.is_depthwise()
    assert node.filters is not None
    part = replace(
        node,
        id=node.id.part(name),
        before=(count, *node.before[1:]) if grouped else node.before,
        filters=node.filters.changed((count, *node.filters.shape[1:]), lambda array: array[channels]),
        numbers=tuple(numbers[channels] for numbers in node.numbers),
    )
    return part.changed(sources=(parts,), channels=count, groups=count if grouped else 1)
