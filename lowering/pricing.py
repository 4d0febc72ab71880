"""Answers to the questions of passes by the prices of single operations."""

from __future__ import annotations

import math
from collections.abc import Collection

from ..kernels.tiling.packing import ceil_div
from .decisions import Choice, Option, Question
from .graph import DoesNotFit, Graph
from .price import Clock

MOST_PRICED = 4  # images for which an operation is priced: more take as long each


class Pricing:
    """Picks the cheapest options for a number of images along the free axis.

    `refused`: choices for which SBUF has no room. `made`: those that were picked.
    """

    def __init__(self, clock: Clock, images: int, refused: Collection[Choice] = ()) -> None:
        self.made: list[Choice] = []
        self._clock, self._refused = clock, refused
        self._images = max(1, min(images, MOST_PRICED))

    def answer(self, question: Question) -> Option:
        """Return the cheapest option, the default unless another gains enough."""
        best, *others = question.options
        if question.is_end and self._images > 1:
            return best
        least = self._price(question, best) / question.gain
        for option in others:
            if question.choice(option) not in self._refused:
                price = self._price(question, option)
                if price < least:
                    best, least = option, price
        if best is not question.options[0]:
            self.made.append(question.choice(best))
        return best

    def _price(self, question: Question, option: Option) -> float:
        """Return the nanoseconds of the nodes that an option changes; infinity where one of them does not fit."""
        graph = question.graph.replacing(option.changed)
        try:
            return sum(
                self._clock.price(question.foreseen(graph, number), number, self._images).nanoseconds
                for number in question.priced
            )
        except DoesNotFit:
            return math.inf

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
