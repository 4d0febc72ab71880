"""Divide a launch into stages.

Early nodes process few images per pass; later nodes, whose values are small, process many.

Between stages, a value is stored for the whole batch. The Tensor Engine then multiplies more columns per instruction
if feature maps are small, and the weights of dense layers are loaded only once per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ...kernels.program import Memory
from ...kernels.tiling.packing import ceil_div
from ..decisions import Decisions
from ..emission.schedule import Schedule, StageOf, with_stages
from ..graph.graph import Graph, Unsupported
from ..pipeline import LaunchPlan, Pipeline
from .footprint import Footprint
from .placement import borders, whole_bytes

SHARE = 4  # the value between two stages, for the whole batch, may occupy up to 1 / SHARE of the budget
SHRINK = 1.5  # the value at a candidate border must be smaller by this factor than at the previous one
MOST_BORDERS = 4  # maximum number of candidate borders that are tried


class Staging:
    """The possible stages of a launch, for a batch of `images` along the free axis of the input."""

    def __init__(self, pipeline: Pipeline, draft: LaunchPlan, pictures: int) -> None:
        self._pipeline, self._draft, self._pictures = pipeline, draft, pictures
        self.images = ceil_div(pictures, draft.graph.packed)
        self.nodes = len(draft.graph.nodes)

    def fits(self, decisions: Decisions) -> bool:
        """True if a launch with these decisions is estimated to fit in SBUF."""
        try:
            plan = self._pipeline.launch(decisions, self._pictures, self._draft.layout)
        except Unsupported:
            return False
        return Footprint(plan.emitted, plan.layout).peak[0] <= self._pipeline.budget_bytes

    def whole(self, decisions: Decisions) -> Decisions:
        """Return decisions with a single stage that processes as many images per pass as fit."""
        return self._filled(decisions, ())

    def split(self, decisions: Decisions) -> Iterator[Decisions]:
        """Yield decisions with two or three stages, none of which ends within a region."""
        graph = self._draft.graph
        regions = Schedule.of(decisions, graph).regions
        inside = {n for region in regions for n in range(region.first + 1, region.end)}
        ends = [end for end in candidates(graph, self.images, self._pipeline.budget_bytes) if end not in inside]
        for first, end in enumerate(ends):
            for cut in ((end,), *((end, later) for later in ends[first + 1 :])):
                candidate = self._filled(decisions, cut)
                stages = [stage.at_once for stage in Schedule.of(candidate, graph).stages]
                if sorted(set(stages)) == stages and self.fits(candidate):
                    yield candidate

    def loaded(self, decisions: Decisions) -> int:
        """Return the total number of weight bytes that all passes load into each partition."""
        sizes = [self._draft.layout.bytes_of(n)[0] for n in range(self.nodes)]
        stages = Schedule.of(decisions, self._draft.graph).stages
        starts = [0, *(stage.end for stage in stages)]
        return sum(
            ceil_div(self.images, stage.at_once) * sum(sizes[start : stage.end]) for start, stage in zip(starts, stages)
        )

    def _filled(self, decisions: Decisions, cut: tuple[int, ...]) -> Decisions:
        """Return decisions with stages that end at `cut`.

        Beginning with the last stage, each processes as many images per pass as fit.
        """
        ends = (*cut, self.nodes)
        stages = [StageOf(end, 1) for end in ends]
        for number in reversed(range(len(ends))):

            def with_images(count: int, number: int = number) -> Decisions:
                new_stages = [*stages[:number], replace(stages[number], at_once=count), *stages[number + 1 :]]
                return with_stages(decisions, self._draft.graph, new_stages)

            fitting = most(self.images, lambda count: self.fits(with_images(count)))
            even = ceil_div(self.images, ceil_div(self.images, fitting))
            stages[number] = replace(stages[number], at_once=even if cut else fitting)
        return with_stages(decisions, self._draft.graph, stages)


def candidates(graph: Graph, images: int, budget_bytes: int) -> list[int]:
    """Return the possible ends of stages: nodes whose values, for a whole batch, are smaller than at the previous
    ends by a factor of SHRINK."""
    cuts: list[tuple[int, int]] = []
    for number in borders(graph)[:-1]:
        node = graph.nodes[number]
        if node.memory is not Memory.SBUF or (node.operation.has_answers or node.operation.is_load):
            continue
        size = whole_bytes(graph, number) * images * (graph.packed // node.operation.packed)
        if size <= budget_bytes // SHARE and (not cuts or size * SHRINK <= cuts[-1][1]):
            cuts.append((number + 1, size))
    return [end for end, _ in cuts][:MOST_BORDERS]


def most(images: int, fits: Callable[[int], bool]) -> int:
    """Return the largest number of images that fits, at least one."""
    if fits(images):
        return images
    fitting, too_many = 1, images
    while too_many - fitting > 1:
        middle = (fitting + too_many) // 2
        fitting, too_many = (middle, too_many) if fits(middle) else (fitting, middle)
    return fitting
