"""The advisor that prices candidates for single operations."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernels.convolution.adding import Adding
from ..kernels.convolution.forms import Form
from ..kernels.program import Convolution, Copies
from ..kernels.tiling.packing import Taps, ceil_div
from .graph import DoesNotFit, Graph, Node, matches
from .passes.choose_forms import FormChoice
from .passes.pack_taps import loaded_taps, possible_taps
from .price import Clock

MOST_PRICED = 4  # images for which an operation is priced: more take as long each
END_GAIN = 1.03  # below which a quicker end of an operation may be lost on the way to the next one
FORM_GAIN = 1.03  # below which a form is not worth its errors
NARROW_GAIN = 1.02  # below which 8 bits are not


class Pricing:
    """Prices candidates for a number of images along the free axis. `refused`: forms for which SBUF has no room."""

    def __init__(self, clock: Clock, images: int, refused: Sequence[FormChoice] = ()) -> None:
        self._clock, self._refused = clock, refused
        self._images = max(1, min(images, MOST_PRICED))

    def pick_form(self, graph: Graph, number: int, candidates: Sequence[Node]) -> Node:
        """See `Advisor`."""
        direct, *others = candidates
        best = direct
        least = self._priced(graph, number, _with_taps(graph, direct)) / FORM_GAIN
        for node in others:
            operation = node.convolution
            if FormChoice(number, operation.form, operation.group_bytes) in self._refused:
                continue
            try:
                price = self._priced(graph, number, _with_taps(graph, node))
            except DoesNotFit:
                continue
            if price < least:
                best, least = node, price
        return best

    def are_worth_copies(self, graph: Graph, number: int, source: int, taps: Taps) -> bool:
        """See `Advisor`."""
        alone, sharing = (graph.nodes[number].changed(taps=each) for each in (Taps(1, 1, taps.stride), taps))
        copying = self._copying(graph, source, sharing)
        return self._priced(graph, number, sharing) + copying < self._priced(graph, number, alone)

    def is_quicker_narrow(self, graph: Graph, narrow: Graph, number: int, others: Sequence[int]) -> bool:
        """See `Advisor`."""

        def price(of: Graph, other: int) -> float:
            node = of.nodes[other]
            if isinstance(node.operation, Convolution):
                return self._priced(of, other, _with_taps(of, node))
            return self._clock.price(of, other, self._images).nanoseconds

        def total(of: Graph) -> float:
            return sum(price(of, other) for other in others)

        try:
            return total(narrow) * NARROW_GAIN < total(graph)
        except DoesNotFit:
            return False

    def are_quicker_turned(self, graph: Graph, number: int, turned: Node) -> bool:
        """See `Advisor`."""
        if self._images > 1:
            return False
        nodes = list(graph.nodes)
        nodes[number] = turned
        quicker = self._clock.price(graph.with_nodes(nodes), number, 1).nanoseconds
        return quicker < self._clock.price(graph, number, 1).nanoseconds

    def is_quicker_shared(self, graph: Graph, number: int, shared: Node) -> bool:
        """See `Advisor`. Of several images the end of one operation is hidden behind the next image."""
        is_end = matches(shared.operation, Convolution, adding=Adding.LAST)
        if is_end and self._images > 1:
            return False
        alone = self._clock.price(graph, number, self._images).nanoseconds
        nodes = [*graph.nodes[:number], shared, *graph.nodes[number + 1 :]]
        price = self._clock.price(graph.with_nodes(nodes), number, self._images).nanoseconds
        return price < (alone / END_GAIN if is_end else alone)

    def total(self, graph: Graph) -> float:
        """Return the sum of the prices of all operations, for one image along the free axis of the input."""
        return sum(self._nanoseconds(graph, number) for number in range(len(graph.nodes)))

    def _nanoseconds(self, graph: Graph, number: int) -> float:
        """Return the price of an operation for one of the images, in passes of fewer where all are too many."""
        images = self._images
        while True:
            try:
                return self._clock.price(graph, number, images).nanoseconds / images
            except DoesNotFit:
                if images == 1:
                    raise
            images = ceil_div(images, 2)

    def _priced(self, graph: Graph, number: int, node: Node) -> float:
        """Return the price of a convolution in place of node `number`, its input having the copies that it reads."""
        nodes = list(graph.nodes)
        nodes[number] = node
        operation = node.convolution
        source = operation.sources[0][0]
        if operation.taps.count > 1 and not graph.is_from_hbm(node):
            nodes[source] = nodes[source].changed(copies=_copies(operation))
        return self._clock.price(graph.with_nodes(nodes), number, self._images).nanoseconds

    def _copying(self, graph: Graph, number: int, reader: Node) -> float:
        """Return what the copies for a reader add to the price of a node."""
        operation = reader.convolution
        nodes = list(graph.nodes)
        nodes[number] = nodes[number].changed(copies=_copies(operation))
        with_copies = self._clock.price(graph.with_nodes(nodes), number, self._images).nanoseconds
        return with_copies - self._clock.price(graph, number, self._images).nanoseconds


def _with_taps(graph: Graph, node: Node) -> Node:
    """Return a convolution with the taps that it would have."""
    operation = node.convolution
    if operation.form is Form.DIRECT:
        return node.changed(taps=possible_taps(graph, node)[0])
    rows = graph.heights(operation.sources[0])
    return node.changed(taps=loaded_taps(graph, node) if graph.is_from_hbm(node) else Taps(1, 1, rows[0]))


def _copies(operation: Convolution) -> Copies:
    return Copies(operation.taps.rows, operation.dilation[0], operation.taps.stride)
