"""Columns of a value in phases: those at equal distances are neighbours, for a pool that moves by that distance.

Of two phases the even columns come first, then the odd ones. A window's taps then read neighbours, which the Vector
Engine takes at twice the pace in 16 bits. Each phase has zeros before and behind its columns.

Plain arithmetic without `nki`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .packing import ceil_div


@dataclass(frozen=True)
class ColumnPhases:
    """`columns` in `count` phases, with `left` and `right` columns of zeros around them."""

    count: int
    columns: int
    left: int
    right: int

    @property
    def lead(self) -> int:
        """Zeros before the columns of a phase."""
        return ceil_div(self.left, self.count)

    @property
    def tail(self) -> int:
        """Zeros behind the columns of a phase."""
        return ceil_div(self.right, self.count)

    @property
    def inside(self) -> int:
        """Columns of a phase without zeros; the same number for each phase."""
        return ceil_div(self.columns, self.count)

    @property
    def each(self) -> int:
        """Columns of a phase with its zeros."""
        return self.lead + self.inside + self.tail

    @property
    def total(self) -> int:
        """Columns of all phases with their zeros."""
        return self.count * self.each
