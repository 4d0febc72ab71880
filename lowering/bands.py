"""Bands of rows: which rows of its operands an operation needs for some rows of its value, and the operation for them.

Values that SBUF cannot hold whole are computed band by band, several operations at a time: each band reads the rows
that its filters reach, halos included, and so computes some rows of the values between twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..kernels.program import NO_SIDES, Operation, Rows, Sides, Windows
from .graph import Graph, Node, Unsupported


@dataclass(frozen=True)
class Reach:
    """The rows of its first operand that an operation reads for some rows of its value: from `first` to `end`, of which
    those outside of [0, rows) are padding."""

    first: int
    end: int
    rows: int

    @property
    def inside(self) -> Rows:
        """The rows that are there; Unsupported where all are padding."""
        first, end = max(0, self.first), min(self.rows, self.end)
        if first >= end:
            raise Unsupported("a band of rows would read padding alone")
        return first, end

    def padding(self, sides: Sides) -> Sides:
        """Return the padding of an operation with these sides, for these rows alone."""
        return max(0, -self.first), sides[1], max(0, self.end - self.rows), sides[3]


def can_band(node: Node) -> bool:
    """True if an operation can compute some rows of its value alone."""
    return node.operation.can_cut_rows((node.before[1], node.before[2]))


def reach_of(node: Node, rows: Rows) -> Reach:
    """Return the rows of its first operand that a node reads for some rows of its value."""
    return Reach(*node.operation.rows_read(rows), node.before[1])


def operand_rows(node: Node, operand: int, own: Rows, reach: Reach) -> Rows:
    """Return the rows of an operand that a node reads for `own` rows of its value."""
    return node.operation.operand_rows(operand, own, reach.inside)


def banded(node: Node, rows: Rows, reach: Reach) -> Operation:
    """Return a node's operation for some rows of its value; its first operand is the rows that `reach` has inside."""
    operation = node.operation
    first, end = rows
    margin = (
        operation.margin[0] if first == 0 else 0,
        operation.margin[1],
        operation.margin[2] if end == operation.rows else 0,
        operation.margin[3],
    )
    own = operation.fields_of_rows(rows, reach.padding(getattr(operation, "padding", NO_SIDES)), max(0, reach.first))
    return replace(operation, rows=end - first, margin=margin, **own)


class BandPlan:
    """The rows of each node of a region [first, end) that a band of its last node's rows needs."""

    def __init__(self, graph: Graph, first: int, end: int, rows: Rows) -> None:
        self.rows: dict[int, Rows] = {end - 1: graph.nodes[end - 1].operation.whole_rows(rows)}
        self.reaches: dict[int, Reach] = {}
        for number in range(end - 1, first - 1, -1):
            if number not in self.rows:
                continue
            node = graph.nodes[number]
            own = self.rows[number] = node.operation.whole_rows(self.rows[number])
            reach = self.reaches[number] = reach_of(node, own)
            for operand, parts in enumerate(node.sources):
                needed = operand_rows(node, operand, own, reach)
                for part in parts:
                    if first <= part and _is_by_row(graph, node, part, operand):
                        before = self.rows.get(part, needed)
                        self.rows[part] = min(before[0], needed[0]), max(before[1], needed[1])


def _is_by_row(graph: Graph, node: Node, part: int, operand: int) -> bool:
    """False if an operand is the same for all rows: a number for each channel of each image."""
    read, own = (0, 0), (1, 1)
    by_row = node.operation.operand_rows(operand, own, read) == read
    return by_row or graph.nodes[part].operation.rows == node.operation.rows


def windows_of(graph: Graph, number: int, plan: BandPlan, first: int) -> tuple[Windows, ...]:
    """Return the rows of each part of each operand of a node that its band reads, counted in the part as it is there.

    Parts of one operand may be there from different rows on: others read more of some than of others.
    """
    node = graph.nodes[number]

    def window(part: int, operand: int) -> Rows | None:
        if part >= 0 and not _is_by_row(graph, node, part, operand):
            return None
        needed = operand_rows(node, operand, plan.rows[number], plan.reaches[number])
        origin = plan.rows[part][0] if part >= first else 0
        return needed[0] - origin, needed[1] - origin

    return tuple(tuple(window(part, operand) for part in parts) for operand, parts in enumerate(node.sources))
