"""Invariants that a graph satisfies after every pass."""

from __future__ import annotations

from ...kernels.tiling.packing import tile_sizes
from ...simulator.machine.chip import PARTITIONS
from ..graph.graph import Graph, Unsupported
from .add_margins import wanted_margins


def check_order(graph: Graph) -> None:
    """Raise AssertionError if two nodes have the same id, or if a node precedes one that it reads."""
    assert len(graph.numbers) == len(graph.nodes), "two nodes have the same id"
    for number, node in enumerate(graph.nodes):
        assert all(part < number for parts in node.sources for part in parts), f"node {node.id} precedes its operand"


def check_tiles(graph: Graph) -> None:
    """Raise Unsupported if an operation combines values whose channels are tiled differently."""
    for node in graph.nodes:
        operation = node.operation
        if not operation.combines:
            continue
        channels = operation.channels * operation.packed
        sizes = tile_sizes(channels, PARTITIONS) if operation.cuts_channels else graph.heights(operation.sources[0])
        if sizes != graph.heights(operation.sources[1]):
            raise Unsupported(f"the channels that layer {node.name!r} ({node.kind}) combines are in different tiles")


def check_margins(graph: Graph) -> None:
    """Raise AssertionError if an operation reads more zero padding around a value than is reserved."""
    for node, required in zip(graph.nodes, wanted_margins(graph)):
        enough = all(reserved >= side for reserved, side in zip(node.operation.margin, required))
        assert enough, f"node {node.id} has margins {node.operation.margin}; its readers need {required}"
