"""Let the Tensor Engine add to some banks of a sum, where it would wait for the Vector Engine to add to all.

That is so where a convolution takes one matmul a bank. Which is quicker the clock says.
"""

from __future__ import annotations

from collections.abc import Callable

from ...kernels.convolution.adding import ALONE, Adding
from ...kernels.convolution.forms import Form
from ...kernels.program import Convolution
from ..graph import Graph, Node, matches
from ..weights import steps_of

ITEMSIZE = 2  # bytes of numbers that a matmul takes at its full rate

IsQuicker = Callable[[Graph, int, Node], bool]  # of a graph and a node, if another node in its place is


def share_sums(graph: Graph, is_quicker: IsQuicker) -> Graph:
    """Set the engines that add the addends of convolutions."""
    nodes = list(graph.nodes)
    for number, node in enumerate(graph.nodes):
        if _can_share(graph, node):
            shared = node.changed(adding=Adding.SHARED)
            nodes[number] = shared if is_quicker(graph, number, shared) else node
    return graph.with_nodes(nodes)


def shared_sums(graph: Graph) -> tuple[int, ...]:
    """Return the nodes of whose addends the Tensor Engine adds a part."""
    return tuple(n for n, node in enumerate(graph.nodes) if matches(node.operation, Convolution, adding=Adding.SHARED))


def _can_share(graph: Graph, node: Node) -> bool:
    """True if a node adds to banks of one matmul each."""
    operation = node.operation
    if not isinstance(operation, Convolution) or len(operation.sources) == 1 or graph.itemsize != ITEMSIZE:
        return False
    if operation.is_scaled or operation.form is not Form.DIRECT or operation.activation.name not in ALONE:
        return False
    return len(graph.heights(operation.sources[0])) == steps_of(node) == 1
