"""Depthwise filters as matrices of several rows: the geometry of the forms "rows of 2" and "rows of 4".

A diagonal matrix for each tap uses one in 128 of the products that the Tensor Engine makes. In these forms a tile holds
rows of fewer channels instead, (row of a group, channel) on the partitions: 2 rows of 64 channels or 4 of 32. A matrix
takes a group of input rows to a group of output rows, with a filter row's tap in each place where one meets the other
(a Toeplitz matrix of diagonals): 3x3 filters take 6 matmuls a group of 4 output rows, not 9 for each of them, 5x5
filters 10 for 25, 7x7 filters 21 for 49.

Groups begin with the padding above the image: row r of the padded input is row r % F of group r // F.

Plain arithmetic without `nki`, as in tiling/packing.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..tiling.packing import Taps, ceil_div
from .forms import Form

if TYPE_CHECKING:
    from ..program import Convolution


@dataclass(frozen=True)
class Block:
    """Channels [first, first + size) of a tile of a value, which are tile `index` of the grouped one."""

    index: int
    tile: int
    first: int
    size: int


@dataclass(frozen=True)
class RowBlocks:
    """A depthwise filter of `kernel_rows`, moving by `stride` rows, its taps `dilation` rows apart, whose outputs are
    in groups of `rows` rows."""

    rows: int
    kernel_rows: int
    stride: int
    dilation: int
    out_rows: int
    partitions: int

    @property
    def channels(self) -> int:
        """Channels of a tile."""
        return self.partitions // self.rows

    @property
    def steps(self) -> int:
        """Groups of input rows that a group of output rows reads."""
        reach = (self.rows - 1) * self.stride + (self.kernel_rows - 1) * self.dilation + 1
        return ceil_div(reach, self.rows)

    @property
    def out_groups(self) -> int:
        """Groups of output rows; the last may have rows that are not of the output."""
        return ceil_div(self.out_rows, self.rows)

    @property
    def in_groups(self) -> int:
        """Groups of input rows."""
        return (self.out_groups - 1) * self.stride + self.steps

    def blocks(self, heights: list[int]) -> list[Block]:
        """Return the tiles of groups for a value with tiles of `heights` channels."""
        found: list[Block] = []
        for tile, height in enumerate(heights):
            for first in range(0, height, self.channels):
                found.append(Block(len(found), tile, first, min(self.channels, height - first)))
        return found

    def taps(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (output row, input row, step, filter row) of each tap: rows within their groups."""
        for output in range(self.rows):
            for row in range(self.kernel_rows):
                step, side = divmod(output * self.stride + row * self.dilation, self.rows)
                yield output, side, step, row

    def rows_in_place(self, row: int, rows: int) -> int:
        """Return in how many groups row `row` of a group is one of `rows` rows."""
        return max(0, ceil_div(rows - row, self.rows))


def on_row_blocks(operation: Convolution, blocks: int, partitions: int) -> Convolution:
    """Return a depthwise convolution on `blocks` tiles of groups of rows, each tile a group of channels."""
    geometry = operation.row_blocks(partitions)
    return replace(
        operation,
        channels=blocks * partitions,
        rows=geometry.out_groups,
        kernel=(geometry.steps, operation.kernel[1]),
        dilation=(1, operation.dilation[1]),
        padding=(0, operation.padding[1], 0, operation.padding[3]),
        groups=blocks,
        taps=Taps(1, 1, partitions),
        form=Form.DIRECT,
    )
