"""The data that `bench --show-lowering` prints: the graph of a launch before and after each pass, and its schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .emission.schedule import Schedule
from .graph.graph import Graph
from .pipeline import LaunchPlan

LAYERS = "layers"  # name of the graph before any pass


@dataclass(frozen=True)
class ShownPass:
    """The graph after a pass, with one line per node. `nodes` is None if the pass did not change the graph."""

    name: str
    nodes: tuple[str, ...] | None


@dataclass(frozen=True)
class ShownLaunch:
    """A launch at each step between its layers and the program of a kernel."""

    name: str
    kernel: str
    pictures: int  # the batch size
    # the predicted time of its instructions, without the fixed cost of a launch. If the plan does not include costs,
    # `predicted_us` and `instructions` are None
    predicted_us: float | None = None
    instructions: int | None = None
    decisions: tuple[dict[str, Any], ...] | None = None  # the choices that were made, in JSON form
    passes: tuple[ShownPass, ...] = ()  # the passes in order; empty for a single kernel
    schedule: tuple[str, ...] = ()  # the schedule of the last graph, with one line per stage and per region


def show_passes(graphs: list[tuple[str, Graph]]) -> tuple[ShownPass, ...]:
    """Convert the named graphs to printable form."""
    passes_shown: list[ShownPass] = []
    before: list[str] = []
    for name, graph in graphs:
        lines = graph.lines()
        passes_shown.append(ShownPass(name, None if passes_shown and lines == before else tuple(lines)))
        before = lines
    return tuple(passes_shown)


def show_schedule(plan: LaunchPlan) -> tuple[str, ...]:
    """Return lines that describe the stages and regions of a launch."""
    schedule = Schedule.of(plan.decisions, plan.graph)
    lines, first = [], 0
    for stage, passes in zip(schedule.stages, plan.passes, strict=True):
        images = stage.at_once * plan.program.packed
        lines.append(f"nodes {first} to {stage.end - 1}: {passes} x {images} image{'' if images == 1 else 's'}")
        first = stage.end
    for region in schedule.regions:
        lines.append(f"nodes {region.first} to {region.end - 1}: in {region.bands} bands of rows")
    return tuple(lines)
