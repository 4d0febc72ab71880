"""The channels that an operation reads. Slices, shuffles and concatenations reorder channels and need no operation.

The order is known at lowering time and is folded into the operations that read the channels: into the filters of a
convolution, or the per-channel numbers of other operations. Reordering therefore costs nothing on the chip.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...kernels.program import Parts
from ...kernels.tiling.packing import tile_sizes
from ...simulator.machine.chip import PARTITIONS
from .lazy import LazyArray


@dataclass(frozen=True)
class Channels:
    """The channels of a layer's value, in the order of the layer.

    Channel n is channel order[n] of the concatenated `parts`.

    `order` has no duplicates: if a layer reads a channel twice, the part that contains it is listed twice.
    """

    parts: Parts
    sizes: tuple[int, ...]  # number of channels in each part
    order: np.ndarray

    @staticmethod
    def of(part: int, count: int) -> Channels:
        """Return all channels of one part, in their stored order."""
        return Channels((part,), (count,), np.arange(count))

    @property
    def total(self) -> int:
        """The total number of channels in all parts, whether they are read or not."""
        return sum(self.sizes)

    def tile_sizes(self) -> list[int]:
        """Return the number of partitions in each tile if the channels of all parts are tiled together."""
        return tile_sizes(self.total, PARTITIONS)

    @property
    def are_all(self) -> bool:
        """True if every channel of the parts is read."""
        return len(self.order) == self.total

    @property
    def are_plain(self) -> bool:
        """True if these are all channels of the parts, in their stored order."""
        return self.are_all and bool((self.order == np.arange(self.total)).all())

    @property
    def run(self) -> int | None:
        """The first channel if the channels are contiguous in one part, in their stored order, or None otherwise."""
        is_run = len(self.parts) == 1 and bool((np.diff(self.order) == 1).all())
        return int(self.order[0]) if is_run else None

    def runs(self) -> list[tuple[int, int]]:
        """Return the ranges [first, end) of channels that are contiguous in one part, in their stored order."""
        part, _ = self._apart(self.order)
        breaks = np.flatnonzero((np.diff(self.order) != 1) | (np.diff(part) != 0)) + 1
        borders = [0, *breaks.tolist(), len(self.order)]
        return list(itertools.pairwise(borders))

    def picked(self, which: np.ndarray) -> Channels:
        """Return the channels at the positions `which`, without duplicates.

        Parts that are no longer used are dropped.
        """
        part, within = self._apart(self.order[which])
        used_parts = np.unique(part)
        parts, sizes = tuple(self.parts[n] for n in used_parts), tuple(self.sizes[n] for n in used_parts)
        return Channels(parts, sizes, _starts(sizes)[np.searchsorted(used_parts, part)] + within)

    def given_by(self, part: int, each: int = 1) -> Channels:
        """Return the output channels of an operation that computes `each` channels per channel of the parts."""
        order = (self.order[:, None] * each + np.arange(each)).ravel()
        return Channels((part,), (self.total * each,), order)

    def renumbered(self, number: Mapping[int, int]) -> Channels:
        """Return the channels with renumbered parts."""
        return replace(self, parts=tuple(number.get(part, part) for part in self.parts))

    def spread(self, numbers: np.ndarray, fill: float) -> np.ndarray:
        """Reorder per-channel numbers (first axis) to the stored order of the parts, with `fill` for channels that are
        not read."""
        if self.are_plain:
            return numbers
        filled = np.full((self.total, *numbers.shape[1:]), fill, numbers.dtype)
        filled[self.order] = numbers
        return filled

    def filters(self, filters: LazyArray) -> LazyArray:
        """Reorder filters [Cout, Cin, kh, kw] to the stored order of the parts, with zeros for channels that are not
        read."""
        if self.are_plain:
            return filters

        def spread(array: np.ndarray) -> np.ndarray:
            filled = np.zeros((array.shape[0], self.total, *array.shape[2:]), array.dtype)
            filled[:, self.order] = array
            return filled

        return filters.changed((filters.shape[0], self.total, *filters.shape[2:]), spread)

    def _apart(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return, for each channel, its part and its index within that part."""
        starts = _starts(self.sizes)
        part = np.searchsorted(starts, order, "right") - 1
        return part, order - starts[part]

    def merged(self) -> Channels:
        """Return the channels with duplicate parts merged, unless this would duplicate a channel."""
        firsts = list(dict.fromkeys(self.parts))
        if len(firsts) == len(self.parts):
            return self
        part, within = self._apart(self.order)
        sizes = tuple(self.sizes[self.parts.index(first)] for first in firsts)
        positions = np.array([firsts.index(each) for each in self.parts])
        order = _starts(sizes)[positions[part]] + within
        return Channels(tuple(firsts), sizes, order) if len(np.unique(order)) == len(order) else self


def joined(values: Sequence[Channels]) -> Channels:
    """Return the concatenated channels of several values."""
    starts = _starts([value.total for value in values])
    parts = tuple(part for value in values for part in value.parts)
    sizes = tuple(size for value in values for size in value.sizes)
    order = np.concatenate([value.order + start for value, start in zip(values, starts)])
    return Channels(parts, sizes, order).merged()


def _starts(sizes: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *sizes])[:-1]
