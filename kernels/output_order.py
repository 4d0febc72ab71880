"""The order of a convolution's outputs, which kernels share with the host that packs the filters.

The module contains plain data and does not import `nki`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .tiling.packing import tile_sizes


@dataclass(frozen=True)
class OutputOrder:
    """The order of a convolution's outputs at one position of its input: (phase, row, image, channel), outermost first.

    The host packs filters in this order, and the kernel reads them in the same order. The input has `phases * images`
    images on its partitions, and the output has `images` images. The images of a phase are adjacent in the input.
    Filters compute `rows` rows of the output together. Each row of each phase starts a new output tile.
    """

    phases: int
    rows: int
    images: int
    channels: int

    def tile_sizes(self, partitions: int) -> list[int]:
        """Return the number of partitions of each output tile."""
        return tile_sizes(self.images * self.channels, partitions) * (self.phases * self.rows)

    def position(self, tile: int, partitions: int) -> tuple[int, int, int]:
        """Return (phase, row, index among the tiles of that phase and row) of an output tile."""
        places = len(tile_sizes(self.images * self.channels, partitions))
        return tile // places // self.rows, tile // places % self.rows, tile % places
