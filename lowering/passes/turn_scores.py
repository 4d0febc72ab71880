"""Put the classes of one picture's scores on the partitions, where that is quicker."""

from __future__ import annotations

from collections.abc import Callable

from ...kernels.program import Ending, Scores
from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_BYTES
from ..graph import Graph, Node

AreQuicker = Callable[[Graph, int, Node], bool]  # of a graph, the number of its scores, and the scores turned


def turn_scores(graph: Graph, are_quicker: AreQuicker) -> Graph:
    """Compute scores of one picture with classes on the partitions."""
    nodes = list(graph.nodes)
    for number, node in enumerate(graph.nodes):
        if _can_turn(graph, node):
            turned = node.changed(by_columns=True)
            if are_quicker(graph.with_nodes(nodes), number, turned):
                nodes[number] = turned
    return graph.with_nodes(nodes)


def has_turned_scores(graph: Graph) -> bool:
    """True if any scores have their classes on the partitions."""
    return any(isinstance(node.operation, Scores) and node.operation.by_columns for node in graph.nodes)


def _can_turn(graph: Graph, node: Node) -> bool:
    """True if a node is scores as they are, of more than a tile of classes, whose columns are in one bank of PSUM."""
    operation = node.operation
    if not isinstance(operation, Scores) or graph.packed > 1:
        return False
    plain = operation.ending is Ending.RAW and operation.activation.is_identity and not operation.weights.narrow
    return plain and PARTITIONS < operation.channels <= PARTITIONS * PSUM_BANK_BYTES // 4
