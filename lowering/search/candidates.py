"""The candidates for a launch, in increasing order of the summed costs of their operations.

Each pass in turn offers choices that apply to the whole launch; every useful combination of them yields a draft. To
complete a draft, the cheapest option is selected for each node, regions that do not fit in SBUF are divided into bands
or spilled, and stages are chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...kernels.convolution.forms import ROW_BLOCKS, Form
from ...kernels.tiling.packing import ceil_div
from ..decisions import Choice, Decisions, Kind
from ..graph.graph import Graph, Unsupported
from ..passes.base import Pass
from ..passes.pack_rows import EXPANSIONS
from ..pipeline import LaunchPlan, Pipeline
from .cheapest_options import CheapestOptions
from .cost_model import CostModel
from .footprint import Footprint
from .placement import make_smaller
from .staging import Staging

FAR_SLOWER = 3  # a draft that costs more than this many times as much as the cheapest one is not simulated


class Candidates:
    """The candidates for a batch size that fit in SBUF. Raises Unsupported if none fit."""

    def __init__(self, pipeline: Pipeline, cost_model: CostModel, pictures: int) -> None:
        self._pipeline, self._cost_model, self._pictures = pipeline, cost_model, pictures

    def __iter__(self) -> Iterator[Decisions]:
        for number, draft in enumerate(self._drafts()):
            for decisions in self._schedules(draft):
                yield decisions
                if number == 0:  # the search adds this choice to the fastest of the other candidates
                    yield without_minimal_filtering(decisions)

    def shapes(self) -> list[Decisions]:
        """Return the combinations of launch-wide choices that are worth drafting."""
        graphs = {Decisions(): self._pipeline.graph}
        reason = Unsupported("no part of it fits")
        for each in self._pipeline.passes:
            if each.asks:
                break
            grown: dict[Decisions, Graph] = {}
            for decisions in self._offered(each, graphs):
                try:
                    grown[decisions] = self._pipeline.run(decisions, last=each.name)[-1][1]
                except Unsupported as why:
                    reason = why
            graphs = {decisions: grown[decisions] for decisions in each.worthwhile(grown)}
            if not graphs:
                raise reason
        return list(graphs)

    def _offered(self, each: Pass, graphs: Mapping[Decisions, Graph]) -> list[Decisions]:
        """Return decisions with each choice that a pass offers, and the unchanged decisions."""
        offered: list[Decisions] = []
        for decisions, graph in graphs.items():
            offered += [decisions.having(choice) for choice in each.offers(graph, decisions, self._pictures)]
            offered.append(decisions)
        return offered

    def _drafts(self) -> list[LaunchPlan]:
        """Return the drafts that fit, cheapest first. Drafts that are far slower than the first are omitted."""
        drafts: list[LaunchPlan] = []
        reason = Unsupported("no part of it fits")
        for decisions in self.shapes():
            is_plain = not decisions.value(Kind.PACK_IMAGES) and not decisions.value(Kind.PACK_ROWS)
            if is_plain and any(draft.decisions.value(Kind.PACK_ROWS) == EXPANSIONS for draft in drafts):
                continue  # packing the rows of most of the network requires fewer matmuls
            try:
                drafts.append(self._draft(decisions))
            except Unsupported as why:
                reason = why
        if not drafts:
            raise reason
        drafts.sort(key=lambda draft: draft.nanoseconds)
        return [draft for draft in drafts if draft.nanoseconds <= FAR_SLOWER * drafts[0].nanoseconds]

    def _draft(self, decisions: Decisions) -> LaunchPlan:
        """Return a launch with the cheapest option for each node. Bands and spills are added until it fits in SBUF."""
        images = ceil_div(self._pictures, decisions.value(Kind.PACK_IMAGES, default=1))
        refused: list[Choice] = []
        while True:
            cheapest = CheapestOptions(self._cost_model, images, refused)
            layout = self._pipeline.lower(decisions, cheapest.answer)
            plan = self._pipeline.launch(decisions, self._pictures, layout)
            footprint = Footprint(plan.emitted, plan.layout)
            if footprint.peak[0] <= self._pipeline.budget_bytes:
                break
            decisions, refused = make_smaller(plan, footprint, refused, self._pipeline.budget_bytes)
        cost = cheapest.total(plan.graph) * images + self._cost_model.loading(layout.loaded_numbers)
        return replace(plan, decisions=decisions.having(*cheapest.made), nanoseconds=cost)

    def _schedules(self, draft: LaunchPlan) -> list[Decisions]:
        """Return the decisions of a draft with each schedule that fits: one stage with as many images per pass as
        possible, or several stages."""
        decisions = draft.decisions
        staging = Staging(self._pipeline, draft, self._pictures)
        whole = staging.whole(decisions)
        if staging.images == 1:
            return [whole]
        fitting = whole.value(Kind.STAGE)
        schedules = [whole] if fitting == staging.images else [*staging.split(decisions), whole]
        schedules.sort(key=staging.loaded)
        return schedules


def without_minimal_filtering(decisions: Decisions) -> Decisions:
    """Return the decisions without minimal filtering and with all diagonals loaded from HBM.

    Minimal filtering and diagonals may cost more or less in a whole launch than for a single operation.
    """
    forms = [choice for choice in decisions.choices if choice.kind is Kind.FORM]
    row_block_forms = (choice for choice in forms if Form(choice.value[0]) in ROW_BLOCKS)
    return decisions.without(Kind.FORM).having(*row_block_forms)
