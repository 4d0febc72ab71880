"""Columns in phases: columns that are a pool's stride apart are stored contiguously.

With two phases, the even columns come first, followed by the odd columns. The taps of a window then read adjacent
columns, which the Vector Engine processes at twice the rate if they are 16-bit values. Each phase has zeros before and
after its columns.

The module is pure arithmetic and does not import `nki`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .packing import ceil_div


@dataclass(frozen=True)
class ColumnPhases:
    """`columns` columns in `count` phases, padded with `left` and `right` columns of zeros."""

    count: int
    columns: int
    left: int
    right: int

    @property
    def lead(self) -> int:
        """Number of zeros before the columns of a phase."""
        return ceil_div(self.left, self.count)

    @property
    def tail(self) -> int:
        """Number of zeros after the columns of a phase."""
        return ceil_div(self.right, self.count)

    @property
    def inside(self) -> int:
        """Number of columns of a phase, excluding its zeros. It is the same for each phase."""
        return ceil_div(self.columns, self.count)

    @property
    def each(self) -> int:
        """Number of columns of a phase, including its zeros."""
        return self.lead + self.inside + self.tail

    @property
    def total(self) -> int:
        """Total number of columns in all phases, including their zeros."""
        return self.count * self.each
