"""Plan launches in another process, because kernels that are bound to AWS's `nki` cannot be simulated in this one.

The other process runs the same package, reads a graph from standard input and prints the record of its plan. It imports
nothing from the current directory.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np

from ..child_python import python_command
from ..kernels.nki_source import VARIABLE
from .config import LoweringConfig
from .graph.graph import Graph, Node, Unsupported
from .graph.lazy import LazyArray
from .plan_cache import PlanCache, TuningRecord


@dataclass(frozen=True)
class PlanRequest:
    """A graph to be planned as one launch, and the parameters of the plan; see `LaunchPlanner`."""

    graph: Graph
    config: LoweringConfig
    pictures: int  # the batch size, for all cores together
    most: int

    def hollow(self) -> PlanRequest:
        """Return the request without weights and caches, which another process does not need."""
        config = replace(self.config, cache=PlanCache(None), eight_bits=None)
        return replace(self, graph=hollow_graph(self.graph), config=config)


def decide_elsewhere(request: PlanRequest) -> TuningRecord:
    """Plan a launch in another process.

    Raise Unsupported if that process finds no plan, and RuntimeError if it fails.
    """
    command = python_command(__name__, "main")
    environment = {**os.environ, VARIABLE: "sim"}
    pickled = pickle.dumps(request.hollow())
    completed = subprocess.run(command, input=pickled, capture_output=True, env=environment, check=False)
    try:
        answer = json.loads(completed.stdout)
    except ValueError:
        lines = completed.stderr.decode(errors="replace").strip().splitlines() or [
            f"it ended with exit status {completed.returncode}"
        ]
        raise RuntimeError(f"planning in another process failed: {lines[-1]}") from None
    if "reason" in answer:
        raise Unsupported(answer["reason"])
    return TuningRecord.from_json(answer)


def hollow_graph(graph: Graph) -> Graph:
    """Return a copy of a graph without the values of its arrays: plans depend only on their shapes."""
    return graph.with_nodes(_hollow(node) for node in graph.nodes)


def _hollow(node: Node) -> Node:
    filters = None if node.filters is None else LazyArray(node.filters.shape, _no_numbers)
    numbers = tuple(np.zeros_like(numbers) for numbers in node.numbers)
    return replace(node, filters=filters, numbers=numbers, largest=None)


def _no_numbers() -> np.ndarray:
    raise AssertionError("planning requires only the shapes of filters")


def main() -> None:
    """Process the request on standard input."""
    from ..kernels.nki_source import use_nki
    from .launch_plan import LaunchPlanner

    use_nki("sim")
    request: PlanRequest = pickle.load(sys.stdin.buffer)
    try:
        plan = LaunchPlanner(request.graph, request.config, request.most).plan(request.pictures)
        answer = TuningRecord(plan.decisions, plan.nanoseconds, plan.instructions).to_json()
    except Unsupported as why:
        answer = {"reason": str(why)}
    json.dump(answer, sys.stdout)
