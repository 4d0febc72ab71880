"""Columns in phases: columns at the stride of a pool are stored next to each other.

With two phases, even columns come first, then odd ones. The taps of a window then read neighbours, which the Vector
Engine processes at twice the rate in 16 bits. Each phase has zeros before and after its columns.

Pure arithmetic without `nki`.
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
        """Number of zeros before the columns of a phase."""
        return ceil_div(self.left, self.count)

    @property
    def tail(self) -> int:
        """Number of zeros after the columns of a phase."""
        return ceil_div(self.right, self.count)

    @property
    def inside(self) -> int:
        """Number of columns of a phase without zeros, the same for each phase."""
        return ceil_div(self.columns, self.count)

    @property
    def each(self) -> int:
        """Number of columns of a phase with its zeros."""
        return self.lead + self.inside + self.tail

    @property
    def total(self) -> int:
        """Number of columns of all phases with their zeros."""
        return self.count * self.each
