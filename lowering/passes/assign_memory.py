"""Move values that do not fit in SBUF to HBM. Also mark values that are assembled from bands of rows."""

from __future__ import annotations

from collections.abc import Collection

from ...kernels.operation_fields import with_fields
from ...kernels.program import LAUNCH_INPUT, Memory
from ..decisions import Ask, Decisions, Kind
from ..graph.graph import Graph, Node, NodeId
from .base import Pass
from .stream_input import GROUP_BYTES


class AssignMemory(Pass):
    """Moves values that do not fit in SBUF to HBM."""

    name = "assign_memory"
    needs = ("pack_images",)
    kinds = (Kind.SPILL, Kind.BANDS)

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return assign_memory(graph, decisions.of(Kind.SPILL), decisions.of(Kind.BANDS))


def assign_memory(graph: Graph, spilled: Collection[NodeId | None], ends: Collection[NodeId | None] = ()) -> Graph:
    """Place the values of `spilled` nodes in HBM, from which convolutions read them in groups of rows.

    `ends`: the last nodes of regions that run in bands.
    """
    assigned = graph.with_nodes(
        with_fields(node, memory=Memory.HBM if node.id in spilled else node.memory, in_bands=node.id in ends)
        for node in graph.nodes
    )
    return assigned.with_nodes(
        node.changed(group_bytes=GROUP_BYTES) if _streams(assigned, node) else node for node in assigned.nodes
    )


def _streams(graph: Graph, node: Node) -> bool:
    """True if a node is a convolution that reads the value of another node from HBM."""
    is_of_node = node.sources[0] != (LAUNCH_INPUT,)
    return node.operation.convolved is not None and is_of_node and graph.is_from_hbm(node)
