"""Store more values in 8 bits, with the weights of grouped layers that read them, if that is faster.

On the Vector Engine, a clip takes up to four times as long for an 8-bit value as for a 16-bit value; other activations
take the same time for both. However, a layer with 8-bit weights that reads the value contracts over two taps, or two
tiles, per matmul.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from ..decisions import Ask, Decisions, Kind, Option, Question, one_of
from ..eight_bits import fp8_together
from ..graph.graph import Graph, Node
from .base import Pass
from .pack_taps import foresee_taps

FP8_GAIN = 1.02  # minimum speedup that justifies the errors of 8 bits


class StoreAsFp8(Pass):
    """Stores more values and weights in 8 bits."""

    name = "store_as_fp8"
    needs = ("choose_forms",)
    kinds = (Kind.FP8,)
    asks = True

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return store_as_fp8(graph, ask)


def store_as_fp8(graph: Graph, ask: Ask) -> Graph:
    """Return the graph with more values and weights in 8 bits; grouped layers multiply such weights directly."""
    for number in range(len(graph.nodes)):
        together = _together(graph, number)
        readers = list(dict.fromkeys(reader for part in together for reader, _ in graph.readers(part)))
        if not any(_may_gain(graph, reader) for reader in readers):
            continue
        stored = _stored_as_fp8(graph, together)
        slower = [part for part in together if stored[part].convolution.bounds > 0]
        options = [Option(None, {}), Option(True, stored, FP8_GAIN)]
        priced = (*slower, *readers)
        question = Question(Kind.FP8, graph, number, options, priced, foreseen=foresee_taps)
        graph = one_of(ask, question)
    return graph


def _may_gain(graph: Graph, reader: int) -> bool:
    """True if a consumer of 8-bit values may contract over two taps or two tiles per matmul."""
    node = graph.nodes[reader]
    kernel = getattr(node.operation, "kernel", (1, 1))
    heights = graph.heights(node.sources[0])
    return kernel[0] * kernel[1] > 1 or any(height == other for height, other in itertools.pairwise(heights))


def _together(graph: Graph, number: int) -> list[int]:
    """Return the nodes, beginning with `number`, such that either all of their values or none must be in 8 bits. The
    result is
    empty if none can be in 8 bits."""
    if not _may(graph.nodes[number]):
        return []
    numbers = sorted(fp8_together(graph, number))
    return numbers if numbers and numbers[0] == number and all(_may(graph.nodes[n]) for n in numbers) else []


def _may(node: Node) -> bool:
    operation = node.operation
    is_single = operation.convolved is not None and operation.convolved.form.rows == 1
    return node.may_be_fp8 and not operation.is_fp8 and is_single


def _stored_as_fp8(graph: Graph, together: Sequence[int]) -> dict[int, Node]:
    """Return the nodes that change if the given values, and the weights of grouped layers that read them, are in 8
    bits."""
    nodes: dict[int, Node] = {}
    for number in together:
        nodes[number] = nodes.get(number, graph.nodes[number]).changed(is_fp8=True)
        for reader, _ in graph.readers(number):
            node = nodes.get(reader, graph.nodes[reader])
            if not node.has_fp8_weights:
                nodes[reader] = _with_fp8_weights(node)
    return nodes


def _with_fp8_weights(node: Node) -> Node:
    plain = replace(node, operation=node.direct or node.operation, direct=None)
    return plain.changed(weights=replace(plain.convolution.weights, is_fp8=True))
