"""Search for the fastest launch: simulate candidates as whole launches, then improve the best one choice by choice."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from ...kernels.operation_fields import Pair
from ...kernels.program import Program
from ...kernels.tiling.packing import ceil_div
from ...simulator import Run
from ..decisions import Decisions, Kind
from ..emission.schedule import scaled
from ..emission.warmup import added, with_zeros
from ..graph.graph import Unsupported
from ..pipeline import LaunchPlan, Pipeline
from .candidates import without_minimal_filtering
from .cost_model import Cost, CostModel

UNBOUNDED = 2**31  # no limit on the instructions of a launch
WALKED_INSTRUCTIONS = 16_000  # budget: total instructions of all candidates that are simulated as whole launches
WARMUP_ROUNDS = (0.995, 0.98)  # zeros are added in rounds; maximum predicted time of each round, relative to the launch
FAR_TOO_MANY = 1.5  # a launch with this many times the maximum number of instructions ends the search
FEWEST_WALKED = 2  # number of candidates that are simulated regardless of the budget
FINALISTS = 3  # number of fast candidates that are improved choice by choice, within the budget
SMALL = 1_000  # for launches of up to this many instructions, other padding is tried even after the budget is spent

Finalist = tuple[LaunchPlan, Run | None]


class Search:
    """The state of a search: the fastest launch simulated so far (`best`), and the error of the last candidate that
    failed (`reason`).

    Several of the fastest candidates are improved choice by choice, because the second best may have faster neighbours
    than the best. A budget of instructions limits the search, but the first candidates are simulated regardless of it.
    A candidate whose matmuls alone take longer than the best launch is not simulated but still counts against the
    budget.
    """

    def __init__(self, pipeline: Pipeline, cost_model: CostModel, pictures: int, most: int = UNBOUNDED) -> None:
        self.best: LaunchPlan | None = None
        self.reason = Unsupported("no part of it fits")
        self._pipeline, self._cost_model, self._pictures, self._most = pipeline, cost_model, pictures, most
        self._tried: set[Decisions] = set()
        self._spent: dict[Program, int] = {}  # simulated programs, and their numbers of instructions
        self._finalists: list[Finalist] = []  # the fastest launches, with their runs
        self._run: Run | None = None  # the run of the fastest launch, if it is small
        self._last: Run | None = None  # the run of the candidate that was tried last
        self._left = WALKED_INSTRUCTIONS

    @property
    def is_over(self) -> bool:
        """True if the budget is spent."""
        return self._left < 0 and self.best is not None and len(self._tried) >= FEWEST_WALKED

    def find(self, candidates: Iterable[Decisions]) -> LaunchPlan:
        """Return the fastest of the candidates and their neighbours. Raise Unsupported if none can be simulated.

        If the first launch has far too many instructions, so do all others, and it is returned without a search. If it
        processes several pictures, it is not even simulated, because the launches will have to process fewer pictures.
        """
        for decisions in candidates:
            self.try_out(decisions)
            if self.best is not None and self.best.instructions > FAR_TOO_MANY * self._most:
                return self.best
            if self.is_over:
                break
        if self.best is None:
            raise self.reason
        for plan, _ in tuple(self._finalists):
            self.try_out(without_minimal_filtering(plan.decisions))
        improved = []
        finalists = tuple(self._finalists)
        for plan, run in finalists:
            self.best, self._run = plan, run
            for offered in (self._near, self._warm):
                self.improve(offered)
            improved.append(self.best)
            if self.is_over:
                improved += self._padded_otherwise(improved[0], finalists)
                break
        self.best = min(improved, key=lambda plan: plan.nanoseconds)
        return self.best

    def _padded_otherwise(self, best: LaunchPlan, finalists: Iterable[Finalist]) -> list[LaunchPlan]:
        """Return the fastest small finalist whose channels are padded in a different way, with warm-up matmuls added.

        Warm-up matmuls save more time if fewer channels leave the Tensor Engine idle for longer.
        """
        padding = best.decisions.value(Kind.PAD_CHANNELS)
        for plan, run in finalists:
            if plan.instructions <= SMALL and plan.decisions.value(Kind.PAD_CHANNELS) != padding:
                self.best, self._run = plan, run
                self.improve(self._warm)
                return [self.best]
        return []

    def improve(self, offered: Callable[[LaunchPlan], Iterator[Decisions]]) -> None:
        """Try the decisions offered for the best launch until none of them makes it faster."""
        improved = True
        while improved:
            assert self.best is not None
            improved = any([self.try_out(decisions) for decisions in offered(self.best)])

    def try_out(self, decisions: Decisions) -> bool:
        """Simulate a candidate unless the budget is spent, and return True if it is the fastest so far."""
        is_last = bool(decisions.of(Kind.WARM_UP))  # tried even after the budget is spent
        if decisions in self._tried or (self.is_over and not is_last):
            return False
        self._tried.add(decisions)
        self._last, left = None, self._left
        try:
            plan = self._pipeline.launch(decisions, self._pictures)
            least = self._least(plan)
            if plan.program in self._spent or (self.best is not None and least.nanoseconds >= self.best.nanoseconds):
                self._left -= self._spent.get(plan.program, least.instructions)
                return False
            if self.best is None and self._pictures > 1 and least.instructions > FAR_TOO_MANY * self._most:
                self.best = replace(plan, nanoseconds=least.nanoseconds, instructions=least.instructions)
                return True
            program, plan = plan.program, self._walk(plan)
            self._spent[program] = left - self._left
        except Unsupported as why:
            self.reason = why
            return False
        self._last = self._cost_model.walked()
        if self.best is not None and plan.instructions > max(self._most, self.best.instructions):
            return False
        self._finalists = _fastest([*self._finalists, (plan, self._last)])
        if self.best is not None and plan.nanoseconds >= self.best.nanoseconds:
            return False
        self.best, self._run = plan, self._last
        return True

    def _near(self, best: LaunchPlan) -> Iterator[Decisions]:
        """Yield the neighbours of a launch, which differ from it in one choice."""
        for each in self._pipeline.passes:
            yield from each.near(best.graph, best.decisions)
        if max(best.passes) > 1:
            yield scaled(best.decisions, 1, 2)
            yield scaled(best.decisions, 2, 1)

    def _warm(self, best: LaunchPlan) -> Iterator[Decisions]:
        """Yield decisions that add warm-up matmuls while the Tensor Engine waits."""
        if best.decisions.of(Kind.WARM_UP):
            return
        zeros: tuple[Pair, ...] = ()
        run = self._run
        for most in WARMUP_ROUNDS:
            if run is None:
                break
            more, share = self._cost_model.zeros(best.program, run)
            if not more or share > most:
                break
            zeros = added(zeros, more)
            yield with_zeros(best.decisions, zeros, best.emitted, best.graph)
            run = self._last

    def _least(self, plan: LaunchPlan) -> Cost:
        """Return a lower bound for the time of a launch (0 if there is none) and its approximate number of
        instructions."""
        packed = plan.program.packed
        least = self._cost_model.least(plan.graph, ceil_div(self._pictures, packed))
        is_one_pass = max(plan.passes) == 1 and self._pictures % packed == 0 and not plan.decisions.of(Kind.BANDS)
        return least if is_one_pass else replace(least, nanoseconds=0.0)

    def _walk(self, plan: LaunchPlan) -> LaunchPlan:
        """Return a launch with its cost, which is extrapolated from two passes if there are many identical passes.

        Raise Unsupported if it exceeds SBUF despite its estimated footprint.
        """
        program = plan.program
        period = math.lcm(*(stage.at_once for stage in program.stages)) * program.packed
        if program.pictures <= 2 * period:
            cost = self._cost(plan, program.pictures)
            return replace(plan, nanoseconds=cost.nanoseconds, instructions=cost.instructions)
        once, twice = (self._cost(plan, count * period) for count in (1, 2))
        more = program.pictures / period - 1
        return replace(
            plan,
            nanoseconds=once.nanoseconds + (twice.nanoseconds - once.nanoseconds) * more,
            instructions=round(once.instructions + (twice.instructions - once.instructions) * more),
        )

    def _cost(self, plan: LaunchPlan, pictures: int) -> Cost:
        cost = self._cost_model.walk(replace(plan.program, pictures=pictures), plan.layout)
        self._left -= cost.instructions
        return cost


def _fastest(plans: Iterable[Finalist]) -> list[Finalist]:
    """Return the fastest plans, sorted by time, with at least one plan for each way of padding channels."""
    finalists: list[Finalist] = []
    paddings = set()
    for each in sorted(plans, key=lambda each: each[0].nanoseconds):
        padding = each[0].decisions.value(Kind.PAD_CHANNELS)
        if len(finalists) < FINALISTS or padding not in paddings:
            finalists.append(each)
        paddings.add(padding)
    return finalists
