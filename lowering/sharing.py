"""Work shared by two cores on the same pictures: rows of early layers, whose weights are few, channels of late ones.

Each core computes half of the rows of a value, halos included, or half of its channels; then they exchange the halves.
An exchange waits for the loads that were issued before it, and both cores draw on one stack of HBM, so that it is not
worth it everywhere: a few ways to share are walked, and the quickest stands, if it is quicker than one core alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ..kernels.program import Convolution, Interleave, Memory, Scores
from ..simulator.machine.chip import PARTITIONS
from .bands import BandPlan, can_band, shares_of_rows
from .decisions import Decisions
from .graph import DoesNotFit, Graph
from .pipeline import LaunchPlan, Pipeline
from .placement import borders, can_run_in_bands
from .price import Clock
from .schedule import Split

LOADING_US = (32, 8, 2)  # of the weights of a node, from which on its channels are shared
MOST_ENDS = 5  # of what is shared by rows, that are walked before those beside the best
MOST_INSTRUCTIONS = 20_000  # of the neighbours of the best launch, that are walked
EXCHANGE_NS = 2500  # about, of rows around a border between two regions


def quickest_shared(pipeline: Pipeline, clock: Clock, alone: LaunchPlan) -> LaunchPlan | None:
    """Return the quickest launch in which two cores share pictures, by splits beside the decisions for one core alone;
    None where there is none."""
    search = _Search(pipeline, clock, alone)
    if _is_plain(alone):
        search.run()
    return search.best


def shared_alike(pipeline: Pipeline, clock: Clock, alone: LaunchPlan, other: LaunchPlan) -> LaunchPlan | None:
    """Return a launch that two cores share as they do another one, of fewer pictures; None where they do not, or where
    its operations are others."""
    search = _Search(pipeline, clock, alone)
    if _is_plain(alone) and _forms(alone) == _forms(other):
        search.walk(other.decisions.splits)
    return search.best


def _is_plain(plan: LaunchPlan) -> bool:
    """True if a launch packs no images and has all values in SBUF, whole."""
    return plan.graph.packed == 1 and not plan.decisions.regions and not plan.decisions.in_hbm


def _forms(plan: LaunchPlan) -> list[tuple[type, tuple[int, int, int]]]:
    """Return kind and shape of each operation of a launch's graph."""
    return [(type(node.operation), node.operation.shape) for node in plan.graph.nodes]


def can_share_channels(graph: Graph, number: int) -> bool:
    """True if each core can compute whole tiles of a convolution's output channels."""
    node = graph.nodes[number]
    operation = node.operation
    if not isinstance(operation, Convolution) or not _is_inner(graph, number):
        return False
    plain = operation.groups == operation.rows_at_once == operation.row_groups.count == 1
    return plain and graph.packed_in(node) == 1 and operation.channels % (2 * PARTITIONS) == 0


def can_share_scores(graph: Graph, number: int) -> bool:
    """True if each core can multiply some tiles of the input channels of a node's scores."""
    node = graph.nodes[number]
    operation = node.operation
    if not isinstance(operation, Scores) or operation.taps.count > 1 or graph.packed_in(node) > 1:
        return False
    return not graph.is_from_hbm(node) and len(graph.heights(node.sources[0])) > 1


def can_share_rows(graph: Graph, first: int, end: int) -> bool:
    """True if each core can compute half of the rows of node end - 1 from what there is before `first`."""
    node = graph.nodes[end - 1]
    if not _is_inner(graph, end - 1) or not can_run_in_bands(graph, first, end):
        return False
    try:
        shares_of_rows(node)
    except DoesNotFit:
        return False
    return True


def _is_inner(graph: Graph, number: int) -> bool:
    """True if a node's value is in SBUF for other nodes alone, none of which puts it together with others."""
    node = graph.nodes[number]
    readers = [graph.nodes[reader].operation for reader, _ in graph.readers(number)]
    inner = node.output is None and node.memory is Memory.SBUF and bool(readers)
    return inner and not any(isinstance(reader, Interleave) for reader in readers)


class _Search:
    """Ways to share a launch, the best of them so far."""

    def __init__(self, pipeline: Pipeline, clock: Clock, alone: LaunchPlan) -> None:
        self.best: LaunchPlan | None = None
        self._walked = set[tuple[Split, ...]]()
        self._pipeline, self._clock = pipeline, clock
        self._graph, self._pictures = alone.graph, alone.program.pictures
        # a core loads a part of the weights, and waits elsewhere
        self._decisions: Decisions = replace(alone.decisions, ahead=0, warming=())

    def run(self) -> None:
        """Walk channels of the nodes with most weights, then rows of those before them, and then channels again."""
        self._walk_channels(())
        first = next((n for n, node in enumerate(self._graph.nodes) if can_band(node)), 0)
        ends = [last + 1 for last in borders(self._graph) if last >= first]
        cuts = _Cuts(self._graph, self._clock.of_one_core, first, ends)
        ends = [end for end in ends if cuts.best(end) is not None]
        tried, best, near = set[int](), first, _spread(ends)
        while near:
            for end in near:
                if self.walk((*cuts.splits(end), *self._channels(end))):
                    best = end
            tried.update(near)
            place = ends.index(best) if best in ends else -1
            near = [end for end in ends[max(0, place - 1) : place + 2] if end not in tried] if place >= 0 else []
        if best > first:
            self._walk_channels(cuts.splits(best))
        if self.best is not None:
            self.walk(tuple(replace(split, beside=False) for split in self.best.decisions.splits))
            self._improve([first, *ends])

    def _improve(self, ends: Sequence[int]) -> None:
        """Walk neighbours of the best launch, as many as its instructions allow: fewer channels, cuts elsewhere."""
        assert self.best is not None
        walks = MOST_INSTRUCTIONS // max(1, self.best.instructions)
        moved = (partial(_moved, ends=ends, cut=cut) for cut in (-2, -3, -4))
        changes: list[Callable[[tuple[Split, ...]], list[tuple[Split, ...]]]] = [_without_last, *moved, _without_first]
        for change in changes:
            for tried in change(self.best.decisions.splits):
                if walks == 0:
                    return
                walks -= 1
                self.walk(tried)

    def _walk_channels(self, before: tuple[Split, ...]) -> None:
        """Walk channels of the nodes with most weights behind some splits."""
        start = before[-1].end if before else 0
        found = {self._of_channels(start, 1000 * least) for least in LOADING_US}
        for splits in sorted(found, key=len):
            self.walk((*before, *splits))

    def _channels(self, start: int) -> tuple[Split, ...]:
        """Return the splits by channels from node `start` on of the best launch so far, or those of most weights."""
        kept = () if self.best is None else self.best.decisions.splits
        found = tuple(split for split in kept if split.first >= start and split.by_channels)
        return found or self._of_channels(start, 1000 * LOADING_US[-1])

    def _of_channels(self, start: int, nanoseconds: float) -> tuple[Split, ...]:
        """Return a split of each node from `start` on whose weights take at least so long to load."""
        return tuple(Split(n, n + 1, by_channels=True) for n in self._loading(nanoseconds) if n >= start)

    def _loading(self, nanoseconds: float) -> list[int]:
        """Return the nodes whose weights take at least so long to load, and whose channels can be shared."""
        graph = self._graph
        return [
            number
            for number in range(len(graph.nodes))
            if (can_share_channels(graph, number) or can_share_scores(graph, number))
            and self._clock.loading(self._numbers(number)) >= nanoseconds
        ]

    def _numbers(self, number: int) -> int:
        node = self._graph.nodes[number]
        return 0 if node.filters is None else math.prod(node.filters.shape)

    def walk(self, splits: tuple[Split, ...]) -> bool:
        """Walk a launch with some splits, unless it has been, and keep it if it is the best; true if it is."""
        ends = [stage.end for stage in self._decisions.stages]
        if not splits or splits in self._walked:
            return False
        self._walked.add(splits)
        if any(split.first < end < split.end for split in splits for end in ends):
            return False
        decisions = replace(self._decisions, splits=splits, shares=True)
        try:
            plan = self._pipeline.launch(decisions, self._pictures)
            price = self._clock.walk(plan.program, plan.layout)
        except DoesNotFit:
            return False
        if self.best is not None and price.nanoseconds >= self.best.nanoseconds:
            return False
        self.best = replace(plan, nanoseconds=price.nanoseconds, instructions=price.instructions)
        return True


def _without_last(splits: tuple[Split, ...]) -> list[tuple[Split, ...]]:
    """Return splits without the last one, if it is by channels."""
    return [splits[:-1]] if splits[-1].by_channels else []


def _without_first(splits: tuple[Split, ...]) -> list[tuple[Split, ...]]:
    """Return splits without the first one by channels."""
    rows = tuple(split for split in splits if not split.by_channels)
    return [(*rows, *splits[len(rows) + 1 :])] if len(rows) < len(splits) else []


def _moved(splits: tuple[Split, ...], ends: Sequence[int], cut: int) -> list[tuple[Split, ...]]:
    """Return splits whose region of rows number `cut`, counted from the end, ends at an end before or behind."""
    rows = [split for split in splits if not split.by_channels]
    if len(rows) < -cut or rows[cut].end not in ends:
        return []
    before, behind = rows[cut], rows[cut + 1]
    place = ends.index(before.end)
    near = [end for end in ends[max(0, place - 1) : place + 2] if before.first < end < behind.end and end != before.end]
    return [
        (
            *rows[:cut],
            replace(before, end=end),
            replace(behind, first=end),
            *rows[len(rows) + cut + 2 :],
            *splits[len(rows) :],
        )
        for end in near
    ]


class _Cuts:
    """Ways to cut nodes from `first` on into regions of whose rows each core computes half: short ones exchange often,
    long ones compute many rows twice. `ends`: where regions may end."""

    def __init__(self, graph: Graph, clock: Clock, first: int, ends: Sequence[int]) -> None:
        self._graph, self._clock, self._first, self._ends = graph, clock, first, ends
        self._best: dict[int, tuple[float, int] | None] = {first: (0.0, first)}
        for end in ends:
            self._best[end] = self._found(end)

    def best(self, end: int) -> tuple[float, int] | None:
        """Return the least nanoseconds, about, up to an end, and where its last region begins; None where there is no
        way."""
        return self._best[end]

    def splits(self, end: int) -> tuple[Split, ...]:
        """Return the regions up to an end."""
        found = self._best[end]
        assert found is not None
        return () if end == self._first else (*self.splits(found[1]), Split(found[1], end))

    def _found(self, end: int) -> tuple[float, int] | None:
        ways = []
        for start in (self._first, *(other for other in self._ends if other < end)):
            before = self._best[start]
            if before is not None and can_share_rows(self._graph, start, end):
                ways.append((before[0] + EXCHANGE_NS + self._computing(start, end), start))
        return min(ways, default=None)

    def _computing(self, first: int, end: int) -> float:
        """Return the nanoseconds, about, that the slower core takes for its rows of a region."""
        nodes = self._graph.nodes
        times = []
        for rows in shares_of_rows(nodes[end - 1])[0]:
            plan = BandPlan(self._graph, first, end, rows)
            times.append(
                sum((last - top) / nodes[n].operation.rows * self._price(n) for n, (top, last) in plan.rows.items())
            )
        return max(times)

    def _price(self, number: int) -> float:
        return self._clock.price(self._graph, number, 1).nanoseconds


def _spread(ends: Sequence[int]) -> list[int]:
    """Return at most MOST_ENDS of some numbers, spread evenly, the last among them."""
    if len(ends) <= MOST_ENDS:
        return list(ends)
    return [ends[(n + 1) * len(ends) // MOST_ENDS - 1] for n in range(MOST_ENDS)]
