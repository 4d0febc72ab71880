"""Find the fastest launch of a graph for each batch size."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..kernels.nki_source import use_nki
from ..kernels.tiling.packing import ceil_div
from ..simulator.machine.host import uncollected
from .config import LoweringConfig
from .decide import PlanRequest, decide_elsewhere
from .graph.graph import Graph
from .pipeline import LaunchPlan, Pipeline
from .plan_cache import TuningRecord, key_of
from .search.candidates import Candidates
from .search.search import UNBOUNDED, Search
from .show import LAYERS, ShownLaunch, show_passes, show_schedule


class LaunchPlanner:
    """Plans the nodes of a graph as one launch, whose input is an image (C, H, W).

    Raises Unsupported if the nodes cannot run in one launch. `most`: the number of instructions that a launch with
    warm-up matmuls must not exceed.
    """

    def __init__(self, graph: Graph, config: LoweringConfig, most: int = UNBOUNDED) -> None:
        self._config, self._most = config, most
        self._pipeline = Pipeline(graph, config.forms, config.budget_bytes)
        self._key = key_of(graph, config.target, config.forms, config.budget_bytes, config.cores, most)
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
        cache, key = self._config.cache, self._key_of(pictures)
        record = cache.get(key)
        if record is not None:
            with contextlib.suppress(Exception):  # if a record is invalid in any way, the launch is planned again
                return self._recorded(record, pictures)
        if use_nki() == "sim":
            with uncollected():
                plan = replace(self._quickest(pictures), cores=self._config.cores)
        else:
            request = PlanRequest(self._pipeline.graph, self._config, pictures, self._most)
            plan = self._recorded(decide_elsewhere(request), pictures)
        cache.put(key, TuningRecord(plan.decisions, plan.nanoseconds, plan.instructions))
        return plan

    def _recorded(self, record: TuningRecord, pictures: int) -> LaunchPlan:
        cores = self._config.cores
        plan = self._pipeline.launch(record.decisions, ceil_div(pictures, cores))
        plan = replace(plan, nanoseconds=record.nanoseconds, instructions=record.instructions, cores=cores)
        return plan.on_one_core() if pictures < cores else plan

    def _quickest(self, pictures: int) -> LaunchPlan:
        """Return the fastest launch for a batch of `pictures`, divided among the cores if there are enough pictures."""
        config, pipeline = self._config, self._pipeline
        if pictures < config.cores:
            single_core = LaunchPlanner(pipeline.graph, replace(config, cores=1), self._most)
            return single_core.plan(pictures).on_one_core()
        share = ceil_div(pictures, config.cores)
        search = Search(pipeline, config.cost_model, share, self._most)
        return search.find(Candidates(pipeline, config.cost_model, share))
