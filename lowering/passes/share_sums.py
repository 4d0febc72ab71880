"""Let the Tensor Engine add to some banks of a sum, where it would wait for the Vector Engine to add to all.

That is so where a convolution takes one matmul a bank, and for the last bank of others, behind which the next operation
waits. Which is quicker the clock says.
"""

from __future__ import annotations

from collections.abc import Callable

from ...kernels.convolution.adding import ALONE, Adding
from ...kernels.convolution.forms import Form
from ...kernels.program import Convolution
from ..graph import Graph, Node
from ..weights import steps_of

ITEMSIZE = 2  # bytes of numbers that a matmul takes at its full rate

IsQuicker = Callable[[Graph, int, Node], bool]  # of a graph and a node, if another node in its place is


def share_sums(graph: Graph, is_quicker: IsQuicker) -> Graph:
    """Set the engines that add the addends of convolutions."""
    nodes = list(graph.nodes)
    for number, node in enumerate(graph.nodes):
        adding = _adding(graph, number)
        if adding is not Adding.VECTOR:
            shared = node.changed(adding=adding)
            nodes[number] = shared if is_quicker(graph, number, shared) else node
    return graph.with_nodes(nodes)


def shared_sums(graph: Graph) -> tuple[int, ...]:
    """Return the nodes of whose addends the Tensor Engine adds a part."""
    operations = [node.operation for node in graph.nodes]
    return tuple(n for n, each in enumerate(operations) if getattr(each, "adding", Adding.VECTOR) is not Adding.VECTOR)


def _adding(graph: Graph, number: int) -> Adding:
    """Return the engines that may add to banks of a node, which matmuls fill directly. The next operation waits for the
    last bank where there is one tile of channels."""
    node = graph.nodes[number]
    operation = node.operation
    if not isinstance(operation, Convolution) or len(operation.sources) == 1 or graph.itemsize != ITEMSIZE:
        return Adding.VECTOR
    if operation.is_scaled or operation.form is not Form.DIRECT or operation.activation.name not in ALONE:
        return Adding.VECTOR
    if len(graph.heights(operation.sources[0])) == steps_of(operation) == 1:
        return Adding.SHARED
    return Adding.LAST if len(graph.heights((number,))) == 1 else Adding.VECTOR
