"""Load a large input from HBM in groups of rows, loading each group while the previous one is computed."""

from __future__ import annotations

from ...kernels.program import LAUNCH_INPUT
from ...kernels.tiling.packing import ceil_div
from ...simulator.machine.chip import PARTITIONS
from ..decisions import Ask, Decisions
from ..graph.graph import Graph, Node
from .base import Pass

WHOLE_BYTES = 8 * 1024  # maximum bytes per partition of an image that is loaded as a whole
GROUP_BYTES = 48 * 1024  # bytes per partition for a group of input rows and the values computed from them


class StreamInput(Pass):
    """Loads a large input from HBM in groups of rows."""

    name = "stream_input"
    needs = ("assign_memory",)

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return stream_input(graph)


def stream_input(graph: Graph) -> Graph:
    """Set the buffer size for groups in convolutions that read a large input."""
    return graph.with_nodes(
        node.changed(group_bytes=GROUP_BYTES) if _reads_large_input(graph, node) else node for node in graph.nodes
    )


def _reads_large_input(graph: Graph, node: Node) -> bool:
    operation = node.operation.convolved
    if operation is None or operation.sources[0] != (LAUNCH_INPUT,):
        return False
    channels, rows, columns = node.before
    top, left, bottom, right = operation.padding
    tiles = ceil_div(graph.packed * channels, PARTITIONS)
    size = tiles * (rows + top + bottom) * (columns + left + right) * graph.itemsize
    return (rows, columns) != (1, 1) and size > WHOLE_BYTES
