"""Bands of rows: which rows of its operands an operation needs for some rows of its value, and the operation for them.

Values that SBUF cannot hold whole are computed band by band, several operations at a time: each band reads the rows
that its filters reach, halos included, and so computes some rows of the values between twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..kernels.program import (
    Affine,
    AveragePool,
    Border,
    Combine,
    Convolution,
    Interleave,
    LayerNorm,
    Load,
    MaxPool,
    Operation,
    Pad,
    RowGroups,
    RowGroupsPool,
    Sides,
    Slope,
    Windows,
)
from ..kernels.tiling.packing import ceil_div
from .graph import DoesNotFit, Graph, Node

Rows = tuple[int, int]  # [first, end)


@dataclass(frozen=True)
class Reach:
    """The rows of its first operand that an operation reads for some rows of its value: from `first` to `end`, of which
    those outside of [0, rows) are padding."""

    first: int
    end: int
    rows: int

    @property
    def inside(self) -> Rows:
        """The rows that are there; DoesNotFit where all are padding."""
        first, end = max(0, self.first), min(self.rows, self.end)
        if first >= end:
            raise DoesNotFit("a band of rows would read padding alone")
        return first, end

    def padding(self, sides: Sides) -> Sides:
        """Return the padding of an operation with these sides, for these rows alone."""
        return max(0, -self.first), sides[1], max(0, self.end - self.rows), sides[3]


def can_band(node: Node) -> bool:
    """True if an operation can compute some rows of its value alone."""
    operation = node.operation
    if isinstance(operation, (Affine, Slope)):
        return not operation.by_element
    if isinstance(operation, (MaxPool, AveragePool)):
        return operation.kernel != node.before[1:] and not _counts_unevenly(operation)
    if isinstance(operation, Pad) and operation.border is Border.WRAP:
        return False
    kinds = (Combine, Convolution, Interleave, LayerNorm, Load, Pad, RowGroupsPool)
    return isinstance(operation, kinds) and operation.rows > 1


def _counts_unevenly(operation: MaxPool | AveragePool) -> bool:
    """True if means at the border are over fewer elements, which a band could not know."""
    if not isinstance(operation, AveragePool):
        return False
    return operation.ceil_mode or (any(operation.padding) and not operation.count_include_pad)


def even(node: Node, rows: Rows) -> Rows:
    """Return the rows that a node computes where `rows` are asked for: all of what it can only compute together."""
    operation = node.operation
    first, end = rows
    if isinstance(operation, Pad):
        return _with_border(operation, rows)
    if isinstance(operation, Interleave):
        unit = operation.step[0]
    elif isinstance(operation, Convolution):
        unit = operation.rows_at_once
        if operation.form.is_minimal and operation.pool_size == 1:
            unit *= 2
    else:
        return rows
    first = first // unit * unit
    return first, min(operation.rows, -(-end // unit) * unit)


def _with_border(operation: Pad, rows: Rows) -> Rows:
    """Return rows of a padded value that have, beside its border, the rows of the image that the border is."""
    first, end = rows
    own = 1 if operation.border is Border.NUMBER else 2
    above, below = (side * own + 1 if side > 0 else 0 for side in operation.padding[::2])
    if first < above:
        first, end = 0, max(end, above)
    if end > operation.rows - below:
        first, end = min(first, operation.rows - below), operation.rows
    return max(0, first), min(operation.rows, end)


def reach_of(node: Node, rows: Rows) -> Reach:
    """Return the rows of its first operand that a node reads for some rows of its value."""
    operation = node.operation
    first, end = rows
    high = node.before[1]
    if isinstance(operation, Convolution):
        each = operation.rows_at_once
        unit = operation.pool_size
        start, last = first * unit // each, (end * unit - 1) // each
        stride, reach = operation.stride[0], (operation.kernel[0] - 1) * operation.dilation[0]
        top = operation.padding[0]
        below = _extra_rows(operation, end)
        return Reach(start * stride - top, (last + below) * stride - top + reach + 1, high)
    if isinstance(operation, (MaxPool, AveragePool)):
        stride, reach = operation.stride[0], (operation.kernel[0] - 1) * operation.dilation[0]
        top = operation.padding[0]
        return Reach(first * stride - top, (end - 1) * stride - top + reach + 1, high)
    if isinstance(operation, RowGroupsPool):
        image_rows = _image_rows(operation, rows)
        before = operation.start // 2
        last = (operation.start + operation.kernel[0] - 1) // 2
        return Reach(before + image_rows[0], last + image_rows[1], high)
    if isinstance(operation, Interleave):
        return Reach(first // operation.step[0], ceil_div(end, operation.step[0]), high)
    if isinstance(operation, Pad):
        return Reach(first - operation.padding[0], end - operation.padding[0], high)
    return Reach(first, end, high)


def operand_rows(node: Node, operand: int, own: Rows, reach: Reach) -> Rows:
    """Return the rows of an operand that a node reads for `own` rows of its value."""
    return reach.inside if operand == 0 or isinstance(node.operation, Interleave) else own


def _image_rows(operation: RowGroupsPool, rows: Rows) -> Rows:
    """Return the rows of the image that some rows, or groups of two, of a pool's value are."""
    if operation.offset < 0:
        return rows
    first, end = (2 * row - operation.offset for row in rows)
    return max(0, first), min(operation.image_rows, end)


def _extra_rows(operation: Convolution, end: int) -> int:
    """Return the rows beyond its last one that a form computes to have an even number of them."""
    if not operation.form.is_minimal or end < operation.rows:
        return 0
    return operation.rows * operation.pool_size % 2


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
    fields: dict[str, Any] = {"rows": end - first, "margin": margin}
    if isinstance(operation, (Convolution, MaxPool, AveragePool, Pad)):
        fields["padding"] = reach.padding(operation.padding)
    if isinstance(operation, (Convolution, RowGroupsPool)):
        groups = operation.row_groups
        above = groups.above if first == 0 else 0
        below = groups.below if end == operation.rows else 0
        fields["row_groups"] = RowGroups(groups.count, above, below)
    if isinstance(operation, RowGroupsPool):
        base = first if operation.offset < 0 else 2 * first
        fields["start"] = operation.start + 2 * (base - reach.inside[0])
        fields["padding"] = reach.padding(operation.padding)
        fields["image_rows"] = end - first if operation.offset < 0 else operation.image_rows - base
    return replace(operation, **fields)


class BandPlan:
    """The rows of each node of a region [first, end) that a band of its last node's rows needs."""

    def __init__(self, graph: Graph, first: int, end: int, rows: Rows) -> None:
        self.rows: dict[int, Rows] = {end - 1: even(graph.nodes[end - 1], rows)}
        self.reaches: dict[int, Reach] = {}
        for number in range(end - 1, first - 1, -1):
            if number not in self.rows:
                continue
            node = graph.nodes[number]
            own = self.rows[number] = even(node, self.rows[number])
            reach = self.reaches[number] = reach_of(node, own)
            for operand, parts in enumerate(node.sources):
                needed = operand_rows(node, operand, own, reach)
                for part in parts:
                    if first <= part and _is_by_row(graph, node, part, operand):
                        before = self.rows.get(part, needed)
                        self.rows[part] = min(before[0], needed[0]), max(before[1], needed[1])


def _is_by_row(graph: Graph, node: Node, part: int, operand: int) -> bool:
    """False if an operand is the same for all rows: a number for each channel of each image."""
    by_row = operand == 0 or isinstance(node.operation, Interleave)
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
