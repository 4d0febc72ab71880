"""Choose between the options that passes offer for a node, according to the costs of the operations that they
change."""

from __future__ import annotations

import math
from collections.abc import Collection

from ...kernels.tiling.packing import ceil_div
from ..decisions import Choice, Option, Question
from ..graph.graph import Graph, Unsupported
from .cost_model import MOST_PRICED, CostModel


class CheapestOptions:
    """Selects the cheapest options for a given number of images along the free axis.

    `refused`: choices that did not fit in SBUF. `made`: the choices selected so far.
    """

    def __init__(self, cost_model: CostModel, images: int, refused: Collection[Choice] = ()) -> None:
        self.made: list[Choice] = []
        self._cost_model, self._refused = cost_model, refused
        self._images = max(1, min(images, MOST_PRICED))

    def answer(self, question: Question) -> Option:
        """Return the cheapest option that is sufficiently faster than the default, or the default if there is none."""
        best, *others = question.options
        if question.is_end and self._images > 1:
            return best
        least = self._cost(question, best)
        for option in others:
            if question.choice(option) not in self._refused:
                cost = self._cost(question, option)
                if cost < least / option.gain:
                    best, least = option, cost * option.gain
        if best is not question.options[0]:
            self.made.append(question.choice(best))
        return best

    def _cost(self, question: Question, option: Option) -> float:
        """Return the time in nanoseconds of the nodes that an option changes; infinity if one of them does not fit."""
        graph = question.graph.replacing(option.changed)
        try:
            return sum(
                self._cost_model.cost(question.foreseen(graph, number), number, self._images).nanoseconds
                for number in question.priced
            )
        except Unsupported:
            return math.inf

    def total(self, graph: Graph) -> float:
        """Return the sum of the costs of all operations, for one image along the free axis of the input."""
        return sum(self._nanoseconds(graph, number) for number in range(len(graph.nodes)))

    def _nanoseconds(self, graph: Graph, number: int) -> float:
        """Return the time of an operation in nanoseconds, per image along the free axis of the launch.

        If not all images fit in SBUF, the time is determined with fewer images.
        """
        more = graph.free_images(graph.nodes[number])
        images = min(self._images * more, MOST_PRICED)
        while True:
            try:
                return self._cost_model.cost(graph, number, images).nanoseconds * more / images
            except Unsupported:
                if images == 1:
                    raise
            images = ceil_div(images, 2)
