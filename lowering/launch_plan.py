"""Find the fastest launch of a graph for each batch size."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..kernels.convolution.forms import Form
from ..kernels.nki_source import use_nki
from ..kernels.tiling.packing import ceil_div
from ..simulator.machine.host import uncollected
from .candidates import Candidates
from .cost_model import CostModel
from .decide import PlanRequest, decide_elsewhere
from .decisions import Decisions
from .graph import Graph, Unsupported
from .pipeline import LaunchPlan, Pipeline
from .plan_cache import PlanCache, TuningRecord, key_of
from .search import UNBOUNDED, Search
from .show import LAYERS, ShownLaunch, show_passes, show_schedule

MORE_PICTURES = (2, 4)  # batch sizes whose candidates are also tried for a single picture
MOST_TRIED_AS_MORE = 1_000  # maximum instructions of a one-picture launch for which these candidates are tried


class LaunchPlanner:
    """Plans the nodes of a graph as one launch, whose input is an image (C, H, W).

    Raises Unsupported if the nodes cannot run in one launch. `forms`: the forms of convolutions in addition to the
    direct one. `budget_bytes`: bytes of each SBUF partition. `most`: the number of instructions that a launch with
    warm-up matmuls must not exceed.
    """

    def __init__(
        self,
        graph: Graph,
        forms: Sequence[Form],
        budget_bytes: int,
        cost_model: CostModel,
        cache: PlanCache,
        most: int = UNBOUNDED,
    ) -> None:
        self._pipeline = Pipeline(graph, tuple(forms), budget_bytes)
        self._cost_model, self._cache, self._most = cost_model, cache, most
        self._key = key_of(graph, cost_model.target, self._pipeline.forms, budget_bytes, cost_model.cores, most)
        self._came = graph.image
        last = graph.nodes[-1]
        self.output, self.last = last.operation.shape, last.name
        self.plan = lru_cache(maxsize=64)(self._plan)
        self._operands: dict[Hashable, dict[str, np.ndarray]] = {}

    def arrange(self, value: Any, plan: LaunchPlan, dtype: np.dtype[Any]) -> Any:
        """Return inputs [pictures, ...] in the kernel's layout."""
        return plan.arrange(value, self._came, dtype)

    def operands(self, plan: LaunchPlan, dtype: np.dtype[Any]) -> dict[str, np.ndarray]:
        """Return the operands of `run_network` other than its inputs, keyed by name.

        Batch sizes with the same arrangement share one copy of these arrays.

        The arrays are read-only, so that a backend can cache them on the device.
        """
        key = plan.layout.arrangement, dtype
        if key not in self._operands:
            self._operands[key] = plan.layout.operands(dtype)
            for operand in self._operands[key].values():
                operand.setflags(write=False)
        return self._operands[key]

    def show(self, pictures: int) -> ShownLaunch:
        """Return the launch for a batch of `pictures`, with its graph after each pass."""
        plan = self.plan(pictures)
        first, last = self._pipeline.graph.nodes[0].name, self.last
        passes = self._pipeline.run(plan.decisions)
        graphs = [(LAYERS, self._pipeline.graph), *passes, ("lay_out_weights", plan.graph)]
        return ShownLaunch(
            name=first if first == last else f"{first} to {last}",
            kernel="run_network",
            pictures=pictures,
            predicted_us=plan.nanoseconds / 1000,
            instructions=plan.instructions,
            decisions=tuple(plan.decisions.to_json()),
            passes=show_passes(graphs),
            schedule=show_schedule(plan),
        )

    def _key_of(self, pictures: int) -> str:
        return f"{self._key[:40]}-{pictures}"

    def _plan(self, pictures: int) -> LaunchPlan:
        """Return the launch for a batch of `pictures`: the cached plan if there is one, otherwise the fastest
        candidate.

        Each of two cores processes half of the pictures.
        """
        cores = self._cost_model.cores
        record = self._cache.get(self._key_of(pictures))
        if record is not None:
            with contextlib.suppress(Exception):  # if a record is invalid in any way, the launch is planned again
                return self._recorded(record, pictures)
        if use_nki() == "sim":
            with uncollected():
                plan = replace(self._quickest_way(pictures), cores=cores)
        else:
            pipeline = self._pipeline
            request = PlanRequest(
                graph=pipeline.graph,
                forms=pipeline.forms,
                budget_bytes=pipeline.budget_bytes,
                target=self._cost_model.target,
                cores=self._cost_model.cores,
                pictures=pictures,
                most=self._most,
            )
            plan = self._recorded(decide_elsewhere(request), pictures)
        self._cache.put(self._key_of(pictures), TuningRecord(plan.decisions, plan.nanoseconds, plan.instructions))
        return plan

    def _recorded(self, record: TuningRecord, pictures: int) -> LaunchPlan:
        cores = self._cost_model.cores
        plan = self._pipeline.launch(record.decisions, ceil_div(pictures, cores))
        plan = replace(plan, nanoseconds=record.nanoseconds, instructions=record.instructions, cores=cores)
        return plan.on_one_core() if pictures < cores else plan

    def _quickest_way(self, pictures: int) -> LaunchPlan:
        """Return the fastest launch for a batch of `pictures`, divided among the cores if there are enough pictures."""
        cost_model, pipeline = self._cost_model, self._pipeline
        if pictures >= cost_model.cores:
            return self._quickest(ceil_div(pictures, cost_model.cores))
        one = LaunchPlanner(
            pipeline.graph, pipeline.forms, pipeline.budget_bytes, cost_model.of_one_core, self._cache, self._most
        )
        return one.plan(pictures).on_one_core()

    def _quickest(self, pictures: int) -> LaunchPlan:
        """Return the fastest launch for a batch of `pictures` on one core."""
        search = Search(self._pipeline, self._cost_model, pictures, self._most)
        return search.find(self._candidates(search, pictures))

    def _candidates(self, search: Search, pictures: int) -> Iterator[Decisions]:
        """Yield the candidates for a batch of `pictures`. For a single picture of a small network, also yield the
        candidates for a few pictures, some of which are faster."""
        yield from Candidates(self._pipeline, self._cost_model, pictures, self._pipeline.budget_bytes)
        if pictures > 1 or not self._pipeline.graph.is_whole:
            return
        for more in MORE_PICTURES:
            if search.best is not None and search.best.instructions <= MOST_TRIED_AS_MORE:
                with contextlib.suppress(Unsupported):
                    yield from Candidates(self._pipeline, self._cost_model, more, self._pipeline.budget_bytes)
