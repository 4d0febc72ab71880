"""Reserve the zero padding that the consumers of each value require, regardless of their convolution form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...kernels.convolution.forms import Form
from ...kernels.program import NO_SIDES, Sides
from ..decisions import Ask, Decisions
from ..graph.graph import Graph, Node
from .base import Pass


class AddMargins(Pass):
    """Reserves the zero padding that the consumers of each value require in any of `forms`."""

    name = "add_margins"
    needs = ("stream_input", "split_columns")

    def __init__(self, forms: Sequence[Form]) -> None:
        self._with_forms = any(form.is_minimal for form in forms)

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return add_margins(graph, self._with_forms)


def add_margins(graph: Graph, with_forms: bool) -> Graph:
    """Set the margin of each node; `with_forms`: whether 3x3 filters may be combined."""
    return graph.with_nodes(
        node.changed(margin=margin) for node, margin in zip(graph.nodes, wanted_margins(graph, with_forms))
    )


def wanted_margins(graph: Graph, with_forms: bool = False) -> list[Sides]:
    """Return the zero padding that the consumers of each value require in any form, or only in their current form."""
    margins: list[list[Sides]] = [[NO_SIDES] for _ in graph.nodes]
    for node in graph.nodes:
        wide = with_wide_weights(graph, node) if with_forms else None
        for part in node.sources[0]:
            if part >= 0:
                source = graph.nodes[part].operation
                zeros = node.operation.zeros_around(source) if wide is None else wide.operation.widest_zeros(source)
                margins[part].append(zeros)
    return [
        (max(top), max(left), max(bottom), max(right))
        for top, left, bottom, right in (zip(*zeros) for zeros in margins)
    ]


def with_wide_weights(graph: Graph, node: Node) -> Node | None:
    """Return a node whose weights may be combined for minimal filtering, and are therefore not in 8 bits.

    Return None if the node reads values that only 8-bit weights can multiply.
    """
    if not node.has_fp8_weights:
        return node
    read = [graph.nodes[part] for parts in node.sources for part in parts if part >= 0]
    convolution = node.operation.convolved
    if convolution is None or any(reader.operation.is_fp8 or reader.may_be_fp8 for reader in read):
        return None
    return node.changed(weights=replace(convolution.weights, is_fp8=False))
