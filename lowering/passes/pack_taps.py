"""Let filter taps share the partitions if there are few input channels, so that one matmul covers several taps.

An input in HBM is loaded once for each tap. For a value in SBUF, the operation that computes it also writes copies to
later partitions, shifted up by rows. In this case, only rows of a filter share the partitions, and only if the saved
matmuls take longer than the copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...kernels.convolution.forms import Form
from ...kernels.program import Copies, Memory
from ...kernels.tiling.packing import Taps, ceil_div, copies_in_partitions, taps_in_partitions
from ...simulator.machine.chip import PARTITIONS
from ..decisions import Ask, Choice, Decisions, Kind, Option, Question, one_of
from ..graph.graph import Graph, Node
from .base import Pass


class PackTaps(Pass):
    """Lets taps share the partitions if possible. Copies of values in SBUF are used if they are worth their cost."""

    name = "pack_taps"
    needs = ("store_as_fp8",)
    kinds = (Kind.COPIES, Kind.FILL_TAPS)
    asks = True

    def apply(self, graph: Graph, decisions: Decisions, ask: Ask) -> Graph:
        """See `Pass`."""
        return pack_taps(graph, ask)

    def near(self, graph: Graph, decisions: Decisions) -> Iterator[Decisions]:
        """See `Pass`."""
        load = graph.nodes[0].id
        for stride in strides_of_filled(graph):
            if stride != decisions.value(Kind.FILL_TAPS, load):
                yield decisions.having(Choice(Kind.FILL_TAPS, load, stride))
        for node in graph.nodes:
            choice = Choice(Kind.COPIES, node.id)
            if choice in decisions.choices:
                yield decisions.without_choice(choice)
            elif _could_have_copies(graph, node):
                yield decisions.having(choice)


def pack_taps(graph: Graph, ask: Ask) -> Graph:
    """Set the taps of convolutions, and the copies of the values that they read."""
    for number, node in enumerate(graph.nodes):
        if node.operation.filtered is None:
            continue
        taps, copies = possible_taps(graph, node)
        if copies is None:
            graph = graph.replacing({number: node.changed(taps=taps)})
            continue
        source = node.sources[0][0]
        copied, reader = graph.nodes[source].changed(copies=copies), node.changed(taps=taps)
        if copied.operation.taps_load is not None:
            graph = graph.replacing({source: copied, number: reader})
            filled = [Option(stride, _filled(graph, stride)) for stride in strides_of_filled(graph)]
            options = [Option(None, {}), *filled]
            graph = one_of(ask, Question(Kind.FILL_TAPS, graph, source, options, (number, source)))
            continue
        graph = graph.replacing({number: node.changed(taps=Taps(1, 1, graph.heights(node.sources[0])[0]))})
        if node.operation.filtered.filter_form is Form.DIRECT:
            options = [Option(None, {}), Option(True, {source: copied, number: reader})]
            graph = one_of(ask, Question(Kind.COPIES, graph, number, options, (number, source)))
    return graph


def foresee_taps(graph: Graph, number: int) -> Graph:
    """Return the graph in which node `number` has the taps, and its input the copies, that would be chosen if copies
    were free."""
    node = graph.nodes[number]
    operation = node.operation.convolved
    if operation is None:
        return graph
    if operation.form is Form.DIRECT:
        taps, _ = possible_taps(graph, node)
    else:
        taps = loaded_taps(graph, node) if graph.is_from_hbm(node) else Taps(1, 1, graph.heights(node.sources[0])[0])
    changed = {number: node.changed(taps=taps)}
    if taps.count > 1 and not graph.is_from_hbm(node):
        source = node.sources[0][0]
        changed[source] = graph.nodes[source].changed(copies=Copies(taps.rows, operation.dilation[0], taps.stride))
    return graph.replacing(changed)


def strides_of_filled(graph: Graph) -> list[int]:
    """Return the possible distances in partitions between adjacent taps of the input if one DMA loads all of them.

    The taps either have no gaps between them, or use more than half of all partitions. The result is empty if the first
    node does not load taps for all rows of a filter.
    """
    load, reader = graph.nodes[0].operation.taps_load, graph.nodes[min(1, len(graph.nodes) - 1)].operation.convolved
    if load is None or reader is None:
        return []
    copies, lanes = load.copies, load.channels * load.packed
    if copies.count == 1 or copies.count < reader.kernel[0]:
        return []
    half = ceil_div(PARTITIONS // 2 - lanes + 1, (copies.count - 1) * lanes) * lanes
    return [lanes, half] if lanes < half <= PARTITIONS // copies.count else [lanes]


def _filled(graph: Graph, stride: int) -> dict[int, Node]:
    """Return a load of taps that also fills the partitions between the copies, and the convolution that reads it."""
    load, reader = graph.nodes[:2]
    operation = load.operation.taps_load
    assert operation is not None
    return {
        0: load.changed(copies=replace(operation.copies, stride=stride), fills=True),
        1: reader.changed(taps=replace(reader.convolution.taps, stride=stride)),
    }


def loaded_taps(graph: Graph, node: Node) -> Taps:
    """Return the taps of a convolution whose input is loaded from HBM."""
    operation = node.operation.filtered
    assert operation is not None
    rows = graph.heights(operation.sources[0])
    return taps_in_partitions(rows[0], operation.kernel, PARTITIONS) if len(rows) == 1 else Taps(1, 1, rows[0])


def possible_taps(graph: Graph, node: Node) -> tuple[Taps, Copies | None]:
    """Return the largest set of a node's taps that can share the partitions, and the copies of its input that this
    requires (None if it requires none)."""
    operation = node.operation.filtered
    assert operation is not None
    if graph.is_from_hbm(node):
        return loaded_taps(graph, node), None
    rows = graph.heights(operation.sources[0])
    alone = Taps(1, 1, rows[0])
    source = operation.sources[0][0]
    if len(rows) > 1:
        return alone, None
    dilation = 1 if operation.convolved is None else operation.convolved.dilation[0]
    if graph.nodes[source].operation.taps_load is not None:
        taps = taps_in_partitions(rows[0], operation.kernel, PARTITIONS)
        return taps, Copies(taps.rows, dilation, taps.stride)
    taps = copies_in_partitions(rows[0], operation.kernel[0], PARTITIONS)
    copies = Copies(taps.rows, dilation, taps.stride)
    if taps.rows == 1 or operation.convolved is None or not _can_copy(graph, source, copies):
        return alone, None
    return taps, copies


def _could_have_copies(graph: Graph, node: Node) -> bool:
    """True if a convolution in the direct form uses fewer taps than copies of its input would allow."""
    operation = node.operation.convolved
    if operation is None or operation.form is not Form.DIRECT:
        return False
    source = operation.sources[0][0]
    return (
        source >= 0
        and graph.nodes[source].operation.copies_made is not None
        and possible_taps(graph, node)[0] != operation.taps
    )


def _can_copy(graph: Graph, number: int, copies: Copies) -> bool:
    """True if a node can create these copies and all of its consumers access its value partition by partition."""
    node = graph.nodes[number]
    if node.operation.copies_made not in (Copies(), copies) or node.memory is not Memory.SBUF or node.in_bands:
        return False
    readers = [graph.nodes[n].operation for n, _ in graph.readers(number)]
    return all(other.convolved is not None and (number,) in other.sources for other in readers)
