"""Restrict operations to bands of rows, and find the rows of their operands that a band reads.

Values that do not fit in SBUF are computed band by band, with several operations processed together. Each band reads
every row that its filters reach, including halos, so some rows of the intermediate values are computed twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...kernels.program import NO_SIDES, Operation, Rows, Sides, Windows
from ..graph.graph import Graph, Node, Unsupported


@dataclass(frozen=True)
class Reach:
    """The rows [first, end) that an operation reads from its first operand to compute a band; rows outside [0, rows)
    are padding."""

    first: int
    end: int
    rows: int

    @property
    def inside(self) -> Rows:
        """The rows that are not padding. Raises Unsupported if every row is padding."""
        first, end = max(0, self.first), min(self.rows, self.end)
        if first >= end:
            raise Unsupported("a band of rows would read only padding")
        return first, end

    def padding(self, sides: Sides) -> Sides:
        """Return the part of an operation's padding `sides` that remains if it computes only these rows."""
        return max(0, -self.first), sides[1], max(0, self.end - self.rows), sides[3]


def can_band(node: Node) -> bool:
    """Return True if an operation can compute a subset of the rows of its value."""
    return node.operation.can_cut_rows((node.before[1], node.before[2]))


def reach_of(node: Node, rows: Rows) -> Reach:
    """Return the rows that a node reads from its first operand to compute `rows` of its value."""
    return Reach(*node.operation.rows_read(rows), node.before[1])


def operand_rows(node: Node, operand: int, own: Rows, reach: Reach) -> Rows:
    """Return the rows that a node reads from an operand to compute the rows `own` of its value."""
    return node.operation.operand_rows(operand, own, reach.inside)


def banded(node: Node, rows: Rows, reach: Reach) -> Operation:
    """Return a node's operation, restricted to `rows` of its value; its first operand consists of the rows
    `reach.inside`."""
    operation = node.operation
    first, end = rows
    margin = (
        operation.margin[0] if first == 0 else 0,
        operation.margin[1],
        operation.margin[2] if end == operation.rows else 0,
        operation.margin[3],
    )
    fields = operation.fields_of_rows(rows, reach.padding(getattr(operation, "padding", NO_SIDES)), max(0, reach.first))
    return replace(operation, rows=end - first, margin=margin, **fields)


class BandPlan:
    """The rows of each node of a region [first, end) that are needed for a band of its last node's rows."""

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
                    if first <= part and is_by_row(graph, node, part, operand):
                        before = self.rows.get(part, needed)
                        self.rows[part] = min(before[0], needed[0]), max(before[1], needed[1])


def is_by_row(graph: Graph, node: Node, part: int, operand: int) -> bool:
    """Return False if an operand has the same value in all rows: one number per channel and image."""
    read, computed = (0, 0), (1, 1)
    by_row = node.operation.operand_rows(operand, computed, read) == read
    return by_row or graph.nodes[part].operation.rows == node.operation.rows


def windows_of(graph: Graph, number: int, plan: BandPlan, first: int) -> tuple[Windows, ...]:
    """Return the rows that a node's band reads from each part of each operand, relative to the part's first stored row.

    Parts of one operand may start at different rows, because other nodes may read more rows of some parts than of
    others.
    """
    node = graph.nodes[number]

    def window(part: int, operand: int) -> Rows | None:
        if part >= 0 and not is_by_row(graph, node, part, operand):
            return None
        needed = operand_rows(node, operand, plan.rows[number], plan.reaches[number])
        origin = plan.rows[part][0] if part >= first else 0
        return needed[0] - origin, needed[1] - origin

    return tuple(tuple(window(part, operand) for part in parts) for operand, parts in enumerate(node.sources))
