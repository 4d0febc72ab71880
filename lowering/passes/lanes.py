"""The storage of a value whose rows are packed: its groups of rows, and their order along the partitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels.tiling.packing import ceil_div
from ...simulator.machine.chip import PARTITIONS

HALF = PARTITIONS // 2  # two rows of this many channels fill the partitions
QUARTER = PARTITIONS // 4  # four rows of this many channels fill the partitions


@dataclass(frozen=True)
class Lanes:
    """Group r of a value contains its rows from `rows` * r - `offset` on, in the order (row, channel).

    For an expansion, the order is (block, row, channel of the block), with zeros after the last channel. If one pool
    follows, all even rows precede all odd rows.
    """

    rows: int  # rows per group
    channels: int  # channels of the image
    halvings: int = 0  # the number of pools that follow, each of which compares the two halves of the partitions
    offset: int = 0  # rows of the first group that are above the image

    @property
    def block(self) -> int:
        """The number of channels per tile.

        Blocks larger than a quarter of the partitions begin where engines can write.
        """
        return self.channels if self.channels <= QUARTER else PARTITIONS // self.rows

    @property
    def blocks(self) -> int:
        """The number of tiles."""
        return ceil_div(self.channels, self.block)

    @property
    def count(self) -> int:
        """The total number of partitions."""
        return self.blocks * self.rows * self.block

    def groups(self, height: int) -> int:
        """Return the number of groups that contain the rows of an image."""
        return ceil_div(height + self.offset, self.rows)

    def group_of(self, row: int) -> int:
        """Return the group that contains a row of the image, or a row of padding above or below it."""
        return (row + self.offset) // self.rows

    def ordered(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Rearrange an axis (row, channel) of an array into the order of the partitions."""
        if self.halvings:
            return self._halved(array, axis)
        if self.count == self.rows * self.channels and self.blocks == 1:
            return array
        more = self.blocks * self.block - self.channels
        shape = (*array.shape[:axis], self.rows, self.channels, *array.shape[axis + 1 :])
        padding = [(0, more if n == axis + 1 else 0) for n in range(len(shape))]
        block_shape = (*array.shape[:axis], self.rows, self.blocks, self.block, *array.shape[axis + 1 :])
        padded = np.pad(array.reshape(shape), padding).reshape(block_shape)
        return padded.swapaxes(axis, axis + 1).reshape(*array.shape[:axis], self.count, *array.shape[axis + 1 :])

    def _halved(self, array: np.ndarray, axis: int) -> np.ndarray:
        before, after = array.shape[:axis], array.shape[axis + 1 :]
        pairs = (2,) * self.halvings
        apart = array.reshape(*before, self.rows >> self.halvings, *pairs, self.channels, *after)
        rows = range(axis, axis + 1 + self.halvings)
        order = (*range(axis), *reversed(rows), *range(rows.stop, apart.ndim))
        return apart.transpose(order).reshape(array.shape)
