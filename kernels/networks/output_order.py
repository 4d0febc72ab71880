"""The order of a convolution's outputs in a launch, which the host packs filters by and the kernel reads them by.

Plain arithmetic without `nki`, as in packing.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..tiling.packing import PARTITIONS, ceil_div


@dataclass(frozen=True)
class OutputOrder:
    """Outputs at one place of the input, outermost first: (phase, row, image, channel).

    The input holds `phases * images` images on its partitions, the output `images`: those of a phase are neighbours in
    the input. Filters compute `rows` rows of the output at once. Each row of each phase begins a tile of its own, of up
    to 128 partitions, (image, channel).
    """

    phases: int
    rows: int
    images: int
    channels: int

    def tile_sizes(self) -> list[int]:
        """Partitions of each output tile."""
        outputs = self.images * self.channels
        places = [min(PARTITIONS, outputs - first) for first in range(0, outputs, PARTITIONS)]
        return places * (self.phases * self.rows)

    def position(self, tile: int) -> tuple[int, int, int]:
        """(phase, row, place among the tiles of that phase and row) of an output tile."""
        places = ceil_div(self.images * self.channels, PARTITIONS)
        return tile // places // self.rows, tile // places % self.rows, tile % places
