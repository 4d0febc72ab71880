"""In which order, and for how much of the batch and of the rows at a time, the nodes of a graph run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StageOf:
    """Nodes up to `end`, which run in passes of `at_once` images along the free axis of the input."""

    end: int
    at_once: int


@dataclass(frozen=True)
class Region:
    """Nodes [first, end) that run band by band, in `bands` bands of the rows of the last of them."""

    first: int
    end: int
    bands: int


@dataclass(frozen=True)
class Schedule:
    """Schedule of a graph: its stages, the regions that run in bands, and the work shared by two cores.

    `staying`: the weights of these stages stay in SBUF for all their passes.
    """

    stages: tuple[StageOf, ...]
    regions: tuple[Region, ...] = ()
    staying: tuple[int, ...] = ()

    def stage_of(self, number: int) -> int:
        """Return the stage that a node runs in."""
        return next(n for n, stage in enumerate(self.stages) if number < stage.end)

    def region_of(self, number: int) -> Region | None:
        """Return the region that a node is in; None for none."""
        return next((region for region in self.regions if region.first <= number < region.end), None)
