"""Let the Tensor Engine add the addend to some banks of a sum, if it would otherwise wait for the Vector Engine to add
to all of them.

This occurs in convolutions with one matmul per bank, and in the last bank of other convolutions, for which the next
operation waits. The cost model determines which engine is faster.
"""

from __future__ import annotations

from ...kernels.convolution.adding import ALONE, Adding
from ...kernels.convolution.forms import Form
from ..decisions import Ask, Decisions, Kind, Option, Question, one_of
from ..graph import Graph
from ..weights import steps_of
from .base import Pass

ITEMSIZE = 2  # bytes of the elements that a matmul processes at full rate

END_GAIN = 1.03  # minimum speedup; a smaller gain at the end of an operation may be lost before the next one


class SplitAccumulation(Pass):
    """Lets the Tensor Engine add some of the addends of convolutions."""

    name = "split_accumulation"
    needs = ("pack_taps",)
    kinds = (Kind.SPLIT_ACCUMULATION,)
    asks = True

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return split_accumulation(graph, ask)


def split_accumulation(graph: Graph, ask: Ask) -> Graph:
    """Choose the engines that add the addends of convolutions."""
    for number, node in enumerate(graph.nodes):
        adding = _adding(graph, number)
        if adding is not Adding.VECTOR:
            options = [Option(None, {}), Option(True, {number: node.changed(adding=adding)})]
            is_end = adding is Adding.LAST
            gain = END_GAIN if is_end else 1.0
            question = Question(Kind.SPLIT_ACCUMULATION, graph, number, options, (number,), gain=gain, is_end=is_end)
            graph = one_of(ask, question)
    return graph


def _adding(graph: Graph, number: int) -> Adding:
    """Return the engines that may add to the banks of a node.

    Matmuls fill these banks directly. The next operation waits for the last bank if there is a single tile of channels.
    """
    node = graph.nodes[number]
    operation = node.operation.convolved
    if operation is None or len(operation.sources) == 1 or graph.itemsize != ITEMSIZE:
        return Adding.VECTOR
    if operation.is_scaled or operation.form is not Form.DIRECT or operation.activation.name not in ALONE:
        return Adding.VECTOR
    if len(graph.heights(operation.sources[0])) == steps_of(operation) == 1:
        return Adding.SHARED
    return Adding.LAST if len(graph.heights((number,))) == 1 else Adding.VECTOR
