"""Place values that SBUF has no room for in HBM, and mark those that are put together from bands of rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...kernels.program import LAUNCH_INPUT, Convolution, Memory
from ..graph import Graph, Node
from ..schedule import Region
from .group_input import GROUP_BYTES


def place(graph: Graph, in_hbm: Collection[int], regions: Sequence[Region] = ()) -> Graph:
    """Let the values of some nodes be in HBM, from which convolutions read them in groups of rows."""
    nodes = list(graph.nodes)
    ends = {region.end - 1 for region in regions}
    for number, node in enumerate(graph.nodes):
        if number in in_hbm or number in ends:
            memory = Memory.HBM if number in in_hbm else node.memory
            nodes[number] = replace(node, memory=memory, in_bands=number in ends)
    placed = graph.with_nodes(nodes)
    return placed.with_nodes(
        node.changed(group_bytes=GROUP_BYTES) if _streams(placed, node) else node for node in placed.nodes
    )


def _streams(graph: Graph, node: Node) -> bool:
    """True if a node is a convolution that reads another node's value from HBM."""
    is_of_node = node.sources[0] != (LAUNCH_INPUT,)
    return isinstance(node.operation, Convolution) and is_of_node and graph.is_from_hbm(node)
