"""The quickest launch of some nodes for a batch."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..kernels.convolution.forms import Form
from ..kernels.nki_source import use_nki
from ..kernels.program import Convolution
from ..kernels.tiling.packing import ceil_div
from ..simulator.machine.host import uncollected
from .decide import PlanRequest, decide_elsewhere
from .decisions import Decisions, forms_of
from .footprint import Footprint
from .graph import DoesNotFit, Graph
from .passes.choose_forms import FormChoice
from .passes.pack_images import choices_of
from .passes.pack_rows import has_packed_expansions, has_packed_rows
from .passes.share_sums import shared_sums
from .passes.turn_scores import has_turned_scores
from .pipeline import LaunchPlan, Pipeline
from .placement import make_smaller
from .plan_cache import PlanCache, PlanRecord, key_of
from .price import Clock
from .pricing import Pricing
from .schedule import StageOf
from .search import UNBOUNDED, Search
from .show import LAYERS, ShownLaunch, show_passes, show_schedule
from .staging import Staging

_LOG = logging.getLogger(__name__)

MORE_PICTURES = (2, 4)  # whose plans are tried for one
MOST_TRIED_AS_MORE = 1_500  # instructions of a launch of one picture for which they are
PASS_COLUMNS = 8 * 1024  # about, that the first operation moves in a pass: its end is hidden behind the one after it


class LaunchPlanner:
    """Some nodes that are one launch; the input is an image (C, H, W).

    DoesNotFit where they cannot be one launch. `forms`: of convolutions, beside the direct one. `room`: bytes of a
    partition of SBUF. `most`: instructions, to which zeros that keep the Tensor Engine warm may bring a launch.
    """

    def __init__(
        self,
        graph: Graph,
        forms: Sequence[Form],
        room: int,
        clock: Clock,
        cache: PlanCache,
        most: int = UNBOUNDED,
    ) -> None:
        self._pipeline = Pipeline(graph, tuple(forms), room)
        self._clock, self._cache, self._most = clock, cache, most
        self._key = key_of(graph, clock.target, self._pipeline.forms, room, clock.cores, most)
        self._came = graph.image
        last = graph.nodes[-1]
        self.output, self.last = last.operation.shape, last.name
        self.plan = lru_cache(maxsize=64)(self._plan)
        self._operands: dict[Hashable, dict[str, np.ndarray]] = {}

    def arrange(self, value: Any, plan: LaunchPlan, dtype: np.dtype[Any]) -> Any:
        """Return inputs [pictures, ...] as the kernel takes them."""
        return plan.arrange(value, self._came, dtype)

    def operands(self, plan: LaunchPlan, dtype: np.dtype[Any]) -> dict[str, np.ndarray]:
        """Return the operands of `run_network` beside its inputs, by name, laid out once for all sizes of batches that
        arrange them alike.

        Nobody may write to them, so that a backend may keep them on the device.
        """
        key = plan.layout.arrangement, dtype
        if key not in self._operands:
            self._operands[key] = plan.layout.operands(dtype)
            for operand in self._operands[key].values():
                operand.setflags(write=False)
        return self._operands[key]

    def show(self, pictures: int) -> ShownLaunch:
        """Return the launch of some pictures with its graph after each pass."""
        plan = self.plan(pictures)
        first, last = self._pipeline.graph.nodes[0].name, self.last
        passes = self._pipeline.run(plan.decisions)
        graphs = [(LAYERS, self._pipeline.graph), *passes, ("lay_out", plan.graph)]
        return ShownLaunch(
            name=first if first == last else f"{first} to {last}",
            kernel="run_network",
            pictures=pictures,
            predicted_us=plan.nanoseconds / 1000,
            instructions=plan.instructions,
            decisions=plan.decisions.made(),
            passes=show_passes(graphs),
            schedule=show_schedule(plan),
        )

    @cached_property
    def _shapes(self) -> list[tuple[Decisions, Graph]]:
        """The decisions about rows and phases that apply, with the graph before images are packed.

        DoesNotFit where none does.
        """
        found: list[tuple[Decisions, Graph]] = []
        reason = DoesNotFit("nothing of it fits")
        expand = any(node.is_depthwise() for node in self._pipeline.graph.nodes)
        options = itertools.product((True, False), (True, False) if expand else (False,), (False, True), (True, False))
        for rows, expansions, wide, phases in options:
            if (wide or expansions) and not rows:
                continue
            if rows and not expansions and any(decisions.packs_expansions for decisions, _ in found):
                continue  # those with expansions take fewer matmuls
            tried = Decisions(packs_rows=rows, packs_expansions=expansions, pads_channels=wide, splits_phases=phases)
            try:
                passes = self._pipeline.run(tried)
            except DoesNotFit as why:
                reason = why
                continue
            graph = passes[-1][1]
            if not rows or (has_packed_expansions(graph) if expansions else has_packed_rows(graph)):
                found.append((tried, dict(passes)["load_taps"]))
        if not found:
            raise reason
        return found

    def _key_of(self, pictures: int) -> str:
        return f"{self._key[:40]}-{pictures}"

    def _plan(self, pictures: int) -> LaunchPlan:
        """Return the launch of a number of pictures as decided before, else the quickest of the candidates.

        Two cores have half of the pictures each.
        """
        cores = self._clock.cores
        record = self._cache.get(self._key_of(pictures))
        if record is not None:
            with contextlib.suppress(Exception):  # whatever is wrong with a record, the launch is planned anew
                return self._recorded(record, pictures)
        if use_nki() == "sim":
            with uncollected():
                plan = replace(self._quickest_way(pictures), cores=cores)
                if pictures == cores == 1:
                    plan = self._no_slower_than_more(plan)
        else:
            pipeline = self._pipeline
            request = PlanRequest(
                graph=pipeline.graph,
                forms=pipeline.forms,
                room=pipeline.room,
                target=self._clock.target,
                cores=self._clock.cores,
                pictures=pictures,
                most=self._most,
            )
            plan = self._recorded(decide_elsewhere(request), pictures)
        self._cache.put(self._key_of(pictures), PlanRecord(plan.decisions, plan.nanoseconds, plan.instructions))
        return plan

    def _no_slower_than_more(self, plan: LaunchPlan) -> LaunchPlan:
        """Return the plan of one picture, or that of a few pictures for one if it is quicker; of small networks, where
        what is tried first makes a difference."""
        if plan.instructions > MOST_TRIED_AS_MORE or not self._pipeline.graph.is_whole:
            return plan
        for pictures in MORE_PICTURES:
            try:
                more = self.plan(pictures)
            except Exception:
                _LOG.exception("no plan for %d images at a time", pictures)
                continue
            if more.nanoseconds < plan.nanoseconds:
                search = Search(self._pipeline, self._clock, 1, self._most)
                search.try_out(more.decisions)
                plan = min(filter(None, (plan, search.best)), key=lambda each: each.nanoseconds)
        return plan

    def _recorded(self, record: PlanRecord, pictures: int) -> LaunchPlan:
        cores = self._clock.cores
        plan = self._pipeline.launch(record.decisions, ceil_div(pictures, cores))
        plan = replace(plan, nanoseconds=record.nanoseconds, instructions=record.instructions, cores=cores)
        return plan.on_one_core() if pictures < cores else plan

    def _quickest_way(self, pictures: int) -> LaunchPlan:
        """Return the quickest launch for a number of pictures, of which each core has a share if there are enough."""
        clock, pipeline = self._clock, self._pipeline
        if pictures >= clock.cores:
            return self._quickest(ceil_div(pictures, clock.cores))
        one = LaunchPlanner(pipeline.graph, pipeline.forms, pipeline.room, clock.of_one_core, self._cache, self._most)
        return one.plan(pictures).on_one_core()

    def _quickest(self, pictures: int) -> LaunchPlan:
        """Return the quickest launch for a number of pictures."""
        reason = DoesNotFit("nothing of it fits")
        for eighths in range(8, 4, -1):  # of the room: an operation may need more than the footprint says
            room = self._pipeline.room * eighths // 8
            search = Search(self._pipeline, self._clock, pictures, self._most)
            for draft in self._drafts(pictures, room):
                if search.is_over:
                    break
                for decisions in self._schedules(draft, pictures, room):
                    search.try_out(decisions)
                    search.try_out(decisions.plainer())
            if search.best is not None:
                search.improve()
                search.load_ahead()
                search.keep_warm()
                return search.best
            reason = search.reason
        raise reason

    def _drafts(self, pictures: int, room: int) -> list[LaunchPlan]:
        """Return the candidates that fit, the cheapest first; DoesNotFit where there are none."""
        drafts: list[LaunchPlan] = []
        reason = DoesNotFit("nothing of it fits")
        for decisions, graph in self._shapes:
            for packed in (1, *choices_of(graph, pictures)):
                if packed == 1 and not decisions.packs_rows and any(d.decisions.packs_expansions for d in drafts):
                    continue  # packed rows of most of the network take fewer matmuls
                try:
                    drafts.append(self._draft(replace(decisions, packed=packed), pictures, room))
                except DoesNotFit as why:
                    reason = why
        if not drafts:
            raise reason
        return sorted(drafts, key=lambda draft: draft.nanoseconds)

    def _draft(self, decisions: Decisions, pictures: int, room: int) -> LaunchPlan:
        """Return a candidate whose forms, copies and places are decided by the prices of single operations."""
        images = ceil_div(pictures, decisions.packed)
        refused: list[FormChoice] = []
        while True:
            pricing = Pricing(self._clock, images, refused)
            plan = self._pipeline.launch(decisions, pictures, self._pipeline.lower(decisions, pricing))
            footprint = Footprint(plan.emitted, plan.layout)
            if footprint.peak[0] <= room:
                break
            decisions, refused = make_smaller(plan, footprint, refused, room)
        graph = plan.graph
        decided = replace(
            decisions,
            forms=forms_of(graph),
            copied=_copied(graph),
            narrow=_narrow(graph),
            sums=shared_sums(graph),
            turns_scores=has_turned_scores(graph),
        )
        price = pricing.total(plan.graph) * images + self._clock.loading(plan.layout.loaded_numbers)
        return replace(plan, decisions=decided, nanoseconds=price)

    def _schedules(self, draft: LaunchPlan, pictures: int, room: int) -> list[Decisions]:
        """Return a draft's decisions in three ways, as far as they fit.

        For as many images at a time as fit; with the weights staying in SBUF for passes of fewer images; in stages.
        """
        decisions, graph = draft.decisions, draft.graph
        staging = Staging(self._pipeline, draft, pictures, room)
        whole = staging.whole(decisions)
        if staging.images == 1:
            return [whole]
        found = [whole] if whole.stages[0].at_once == staging.images else [*staging.split(decisions), whole]
        found.sort(key=staging.loaded)
        computing = (node.operation for node in graph.nodes if not node.operation.is_load)
        first = next(computing, graph.nodes[-1].operation)
        columns = staging.images * first.rows * first.columns * getattr(first, "pool_size", 1) ** 2
        passes = max(1, (columns + PASS_COLUMNS // 2) // PASS_COLUMNS)
        held = sum(draft.layout.bytes_of(n)[0] for n in range(len(graph.nodes)))
        if passes > 1 and held <= room // 2:
            staying = staging.whole(replace(decisions, staying=(0,)))
            fitting = min(staying.stages[0].at_once, ceil_div(staging.images, passes))
            staying = replace(staying, stages=(StageOf(staging.nodes, fitting),))
            if staging.fits(staying):
                found.insert(0, staying)
        return found


def _narrow(graph: Graph) -> tuple[int, ...]:
    """Return the nodes whose value is in 8 bits, of those that may be."""
    return tuple(n for n, node in enumerate(graph.nodes) if node.may_be_narrow and node.operation.narrow)


def _copied(graph: Graph) -> tuple[int, ...]:
    """Return the nodes whose input has copies that its operation makes for them."""
    found = []
    for number, node in enumerate(graph.nodes):
        operation = node.operation
        if not isinstance(operation, Convolution) or operation.taps.count == 1 or graph.is_from_hbm(node):
            continue
        if isinstance(graph.nodes[operation.sources[0][0]].operation, Convolution):
            found.append(number)
    return tuple(found)
