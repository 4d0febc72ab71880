"""Compute the scores of a single picture with one class per partition, if that is faster."""

from __future__ import annotations

from ...simulator.machine.chip import PARTITIONS, PSUM_BANK_BYTES
from ..decisions import Ask, Decisions, Kind, Option, Question, one_of
from ..graph.graph import Graph, Node
from .base import Pass


class PutClassesOnPartitions(Pass):
    """Lays out the scores of a single picture with one class per partition."""

    name = "put_classes_on_partitions"
    needs = ("pack_taps",)
    kinds = (Kind.CLASSES_ON_PARTITIONS,)
    asks = True

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return put_classes_on_partitions(graph, ask)


def put_classes_on_partitions(graph: Graph, ask: Ask) -> Graph:
    """Compute the scores of a single picture with one class per partition."""
    for number, node in enumerate(graph.nodes):
        if _can_turn(graph, node):
            options = [Option(None, {}), Option(True, {number: node.changed(by_columns=True)})]
            graph = one_of(ask, Question(Kind.CLASSES_ON_PARTITIONS, graph, number, options, (number,), is_end=True))
    return graph


def _can_turn(graph: Graph, node: Node) -> bool:
    """True if a node computes raw scores of more classes than a tile can hold, and the columns fit in one PSUM bank."""
    operation = node.operation
    can = operation.can_put_classes_on_partitions and graph.packed == 1
    return can and PARTITIONS < operation.channels <= PARTITIONS * PSUM_BANK_BYTES // 4
