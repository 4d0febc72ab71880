"""The geometry of the forms "rows of 2" and "rows of 4", in which one matrix covers several rows of a depthwise filter.

With one diagonal matrix per tap, only one in 128 products computed by the Tensor Engine is useful. In these forms, a
tile contains several rows of fewer channels, with (row of a group, channel) on the partition axis: 2 rows of 64
channels or 4 rows of 32. A Toeplitz matrix of diagonals maps a group of input rows to a group of output rows. With
groups of 4 rows, 3x3 filters take 6 matmuls per output group instead of 9, 5x5 filters take 10 instead of 25, and 7x7
filters take 21 instead of 49.

The first group begins with the padding above the image: row r of the padded input is row r % F of group r // F, where F
is the number of rows per group.

Like tiling/packing.py, this module is pure arithmetic and does not import `nki`.
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
    """Channels [first, first + size) of one tile of a value, which form tile `index` of the grouped layout."""

    index: int
    tile: int
    first: int
    size: int


@dataclass(frozen=True)
class RowBlocks:
    """A depthwise filter of `kernel_rows` rows, moving by `stride` rows, with taps `dilation` rows apart, that computes
    groups of `rows` output rows."""

    rows: int
    kernel_rows: int
    stride: int
    dilation: int
    out_rows: int
    partitions: int

    @property
    def channels(self) -> int:
        """Number of channels per tile."""
        return self.partitions // self.rows

    @property
    def steps(self) -> int:
        """Number of input row groups that an output row group reads."""
        reach = (self.rows - 1) * self.stride + (self.kernel_rows - 1) * self.dilation + 1
        return ceil_div(reach, self.rows)

    @property
    def out_groups(self) -> int:
        """Number of output row groups. The last group may extend past the output."""
        return ceil_div(self.out_rows, self.rows)

    @property
    def in_groups(self) -> int:
        """Number of input row groups."""
        return (self.out_groups - 1) * self.stride + self.steps

    def blocks(self, heights: list[int]) -> list[Block]:
        """Return the grouped tiles of a value whose tiles have `heights` channels."""
        row_blocks: list[Block] = []
        for tile, height in enumerate(heights):
            for first in range(0, height, self.channels):
                row_blocks.append(Block(len(row_blocks), tile, first, min(self.channels, height - first)))
        return row_blocks

    def taps(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (output row, input row, step, filter row) for each tap; rows are counted within their groups."""
        for output in range(self.rows):
            for row in range(self.kernel_rows):
                step, side = divmod(output * self.stride + row * self.dilation, self.rows)
                yield output, side, step, row

    def rows_in_place(self, row: int, rows: int) -> int:
        """Return the number of groups whose row `row` is one of the `rows` rows of the image."""
        return max(0, ceil_div(rows - row, self.rows))


def on_row_blocks(operation: Convolution, blocks: int, partitions: int) -> Convolution:
    """Return the depthwise convolution in grouped layout on `blocks` tiles. Each tile is a channel group."""
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
