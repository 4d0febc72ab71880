"""The order in which the nodes of a graph run, and the images and rows that each node processes per pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..decisions import Choice, Decisions, Kind
from ..graph.graph import Graph, NodeId


@dataclass(frozen=True)
class StageOf:
    """A stage: the nodes up to `end`, which run in passes of `at_once` images along the free axis of the input."""

    end: int
    at_once: int


@dataclass(frozen=True)
class Region:
    """Nodes [first, end) that run band by band, in `bands` bands of the last node's rows."""

    first: int
    end: int
    bands: int


@dataclass(frozen=True)
class Schedule:
    """The stages of a graph in order, by node number, and the regions that run in bands."""

    stages: tuple[StageOf, ...]
    regions: tuple[Region, ...] = ()

    @staticmethod
    def of(decisions: Decisions, graph: Graph) -> Schedule:
        """Return the schedule of a graph that the decisions specify.

        By default, it has one stage that processes one image per pass.
        """

        def end_of(node: NodeId | None) -> int:
            return len(graph.nodes) if node is None else graph.numbers[node] + 1

        at_once = {end_of(node): images for node, images in {None: 1, **decisions.of(Kind.STAGE)}.items()}
        ends = sorted(at_once)
        regions = regions_of(decisions, graph)
        return Schedule(tuple(StageOf(end, at_once[end]) for end in ends), regions)

    def stage_of(self, number: int) -> int:
        """Return the number of the stage that runs a node."""
        return next(n for n, stage in enumerate(self.stages) if number < stage.end)

    def region_of(self, number: int) -> Region | None:
        """Return the region that contains a node, or None if there is none."""
        return next((region for region in self.regions if region.first <= number < region.end), None)


def regions_of(decisions: Decisions, graph: Graph) -> tuple[Region, ...]:
    """Return the regions that run in bands, in graph order."""
    numbers = graph.numbers
    regions = [
        Region(numbers[first], numbers[last] + 1, count)
        for last, (first, count) in decisions.of(Kind.BANDS).items()
        if last is not None
    ]
    return tuple(sorted(regions, key=lambda region: region.first))


def region_choice(graph: Graph, region: Region) -> Choice:
    """Return the choice that represents a region."""
    return Choice(Kind.BANDS, graph.nodes[region.end - 1].id, (graph.nodes[region.first].id, region.bands))


def with_stages(decisions: Decisions, graph: Graph, stages: Sequence[StageOf]) -> Decisions:
    """Return the decisions with different stages, the last of which ends with the graph."""
    ids = [None if stage.end == len(graph.nodes) else graph.nodes[stage.end - 1].id for stage in stages]
    choices = (Choice(Kind.STAGE, node, stage.at_once) for node, stage in zip(ids, stages))
    return decisions.without(Kind.STAGE).having(*choices)


def scaled(decisions: Decisions, more: int, less: int) -> Decisions:
    """Return the decisions with the images per pass of each stage scaled by more / less, to at least one image."""
    stages = decisions.of(Kind.STAGE).items()
    return decisions.having(*(Choice(Kind.STAGE, node, max(1, at_once * more // less)) for node, at_once in stages))
