"""Store columns in phases if their only consumer is a pool with a column stride above 1.

The Vector Engine computes maxima of adjacent 16-bit elements twice as fast as maxima of strided elements. Storing the
columns in phases costs nothing, because sums can be copied from PSUM in any order.
"""

from __future__ import annotations

from ...kernels.program import Memory
from ...kernels.tiling.windows import LONG_FOLD
from ...simulator.machine.chip import PSUM_BANK_FLOATS
from ..decisions import Ask, Decisions
from ..graph.graph import Graph, Node
from .base import Pass

ITEMSIZE = 2  # size in bytes of the elements that are processed at twice the rate


class SplitColumns(Pass):
    """Stores columns in phases if their only consumer is a pool with a column stride above 1."""

    name = "split_columns"
    needs = ("assign_memory",)

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return split_columns(graph)


def split_columns(graph: Graph) -> Graph:
    """Set the phases of the columns that convolutions compute."""
    nodes = list(graph.nodes)
    for number, node in enumerate(graph.nodes):
        readers = [graph.nodes[n] for n, _ in graph.readers(number)]
        if len(readers) == 1 and _can_be_split(graph, node) and _can_read(node, readers[0]):
            nodes[number] = node.changed(column_phases=readers[0].operation.stride[1])  # type: ignore[attr-defined]
    return graph.with_nodes(nodes)


def _can_be_split(graph: Graph, node: Node) -> bool:
    """True if a node is a convolution that writes whole rows of its value to SBUF directly."""
    operation = node.operation.convolved
    if operation is None or graph.itemsize != ITEMSIZE or operation.is_fp8:
        return False
    if operation.groups > 1 or operation.pool_size > 1 or len(operation.sources) > 1 or node.in_bands:
        return False
    in_sbuf = node.memory is Memory.SBUF and node.output is None
    return in_sbuf and operation.columns <= PSUM_BANK_FLOATS and len(graph.heights(operation.sources[0])) == 1


def _can_read(node: Node, reader: Node) -> bool:
    """True if a node is a pool that can read another node's columns in phases, with zeros as padding if it has any."""
    operation, source = reader.operation.folded, node.convolution
    if operation is None or len(operation.sources[0]) > 1:
        return False
    stride, taps = operation.stride[1], operation.kernel[1]
    if stride == 1 or source.columns % stride or not 1 < taps < LONG_FOLD:
        return False
    return source.activation.name == "relu" or not any(operation.reached(source.rows, source.columns))
