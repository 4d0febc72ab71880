"""Decisions about a launch: enough to lower it again without pricing anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..kernels.convolution.forms import ROW_BLOCKS, Form
from ..kernels.tiling.packing import Taps
from .graph import Graph, Node
from .schedule import Region, Schedule, StageOf


class Advisor(Protocol):
    """Answers the questions of passes."""

    def pick_form(self, graph: Graph, number: int, candidates: Sequence[Node]) -> Node:
        """Return the quickest of several nodes that compute the same, the direct form first."""

    def are_worth_copies(self, graph: Graph, number: int, source: int, taps: Taps) -> bool:
        """True if node `number` is quicker with such taps by more than node `source` takes to make the copies."""

    def is_quicker_narrow(self, graph: Graph, narrow: Graph, number: int, others: Sequence[int]) -> bool:
        """True if `others` are quicker together as in `narrow`, which has the value of node `number` in 8 bits."""

    def are_quicker_turned(self, graph: Graph, number: int, turned: Node) -> bool:
        """True if scores are those of one picture, and quicker as node `turned`."""

    def is_quicker_shared(self, graph: Graph, number: int, shared: Node) -> bool:
        """True if a sum is quicker where the Tensor Engine adds some of it, as `shared` has it."""


@dataclass(frozen=True)
class Decisions:
    """The decisions about one launch.

    `pads_channels`, `packs_rows`, `splits_phases`: whether these passes run. `packs_expansions`: with the rows of
    expansions, whose tails are then not split. `splits_means`: whether pools of whole images are cut in two.
    `packed`: images on the partitions.
    `forms`: of nodes that are not in the direct form, their number, form and room. `copied`: nodes whose input has
    copies. `sums`: nodes of whose addends the Tensor Engine adds a part. `narrow`: nodes whose value is in 8 bits, of
    those that may be. `in_hbm`: nodes whose value is in HBM. `regions`: nodes that run in bands of rows. `stages`: None
    for one stage of a single image. `ahead`: eighths of SBUF that values and weights may fill, where weights are loaded
    before earlier operations than the one that multiplies them; 0 where they are not. `warming`: operations of the
    program, and the matmuls of zeros before each. `turns_scores`: whether the classes of one picture are on the
    partitions. `filled_taps`: partitions from one tap of the input to the next, if one DMA brings all, else 0.
    """

    pads_channels: bool = False
    packs_rows: bool = False
    packs_expansions: bool = False
    splits_phases: bool = False
    splits_means: bool = False
    packed: int = 1
    forms: tuple[tuple[int, str, int], ...] = ()
    copied: tuple[int, ...] = ()
    narrow: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    in_hbm: tuple[int, ...] = ()
    regions: tuple[Region, ...] = ()
    stages: tuple[StageOf, ...] = ()
    staying: tuple[int, ...] = ()
    ahead: int = 0
    warming: tuple[tuple[int, int], ...] = ()
    turns_scores: bool = False
    filled_taps: int = 0

    def pick_form(self, graph: Graph, number: int, candidates: Sequence[Node]) -> Node:
        """See `Advisor`."""
        for chosen, form, room in self.forms:
            for candidate in candidates:
                operation = candidate.convolution
                if (chosen, Form(form), room) == (number, operation.form, operation.group_bytes):
                    return candidate
        return candidates[0]

    def are_worth_copies(self, graph: Graph, number: int, source: int, taps: Taps) -> bool:
        """See `Advisor`."""
        return number in self.copied

    def are_quicker_turned(self, graph: Graph, number: int, turned: Node) -> bool:
        """See `Advisor`."""
        return self.turns_scores

    def is_quicker_narrow(self, graph: Graph, narrow: Graph, number: int, others: Sequence[int]) -> bool:
        """See `Advisor`."""
        return number in self.narrow

    def is_quicker_shared(self, graph: Graph, number: int, shared: Node) -> bool:
        """See `Advisor`."""
        return number in self.sums

    def plainer(self) -> Decisions:
        """Return the decisions with no minimal filtering and all diagonals loaded: what the price of an operation by
        itself may be wrong about."""
        return replace(self, forms=tuple(form for form in self.forms if Form(form[1]) in (Form.DIRECT, *ROW_BLOCKS)))

    def schedule(self, nodes: int) -> Schedule:
        """Return the schedule of a graph with this number of nodes."""
        return Schedule(self.stages or (StageOf(nodes, 1),), self.regions, self.staying)

    def made(self) -> dict[str, Any]:
        """Return the decisions that are not the default, as JSON takes them."""
        default = Decisions().to_json()
        return {name: value for name, value in self.to_json().items() if value != default[name]}

    def to_json(self) -> dict[str, Any]:
        """Return the decisions as JSON takes them."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Decisions:
        """Return the decisions that `to_json` gave; TypeError or ValueError for anything else."""
        data = dict(data)
        data["forms"] = tuple((int(number), str(form), int(room)) for number, form, room in data["forms"])
        for name, kind in (("regions", Region), ("stages", StageOf)):
            data[name] = tuple(kind(**{key: int(value) for key, value in each.items()}) for each in data[name])
        data["warming"] = tuple((int(number), int(count)) for number, count in data["warming"])
        for name in ("copied", "narrow", "sums", "in_hbm", "staying"):
            data[name] = tuple(int(number) for number in data[name])
        return Decisions(**data)


def forms_of(graph: Graph) -> tuple[tuple[int, str, int], ...]:
    """Return number, form and room of each node that is not in the direct form."""
    return tuple(
        (number, filtered.filter_form.value, graph.nodes[number].convolution.group_bytes)
        for number, filtered in enumerate(node.operation.filtered for node in graph.nodes)
        if filtered is not None and filtered.filter_form is not Form.DIRECT
    )
