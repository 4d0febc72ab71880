"""Channels that an operation reads. Slices, shuffles and concatenations are an order of channels, not an operation.

The order is known while a network is lowered, and goes into what reads the channels: into the filters of a
convolution, and into the numbers that other operations have for each channel. So it costs nothing on the chip.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..kernels.program import Parts
from ..kernels.tiling.packing import tile_sizes
from ..simulator.machine.chip import PARTITIONS
from .lazy import LazyArray


@dataclass(frozen=True)
class Channels:
    """Channels as a layer names them: number n is number order[n] of those of `parts`, one after another.

    No channel is there twice: where a layer reads one twice, its part is.
    """

    parts: Parts
    sizes: tuple[int, ...]  # channels of each part
    order: np.ndarray

    @staticmethod
    def of(part: int, count: int) -> Channels:
        """Return all channels of one part as they are."""
        return Channels((part,), (count,), np.arange(count))

    @property
    def total(self) -> int:
        """Channels of the parts, read or not."""
        return sum(self.sizes)

    def tile_sizes(self) -> list[int]:
        """Return the partitions of tiles that are cut anew of all channels of the parts."""
        return tile_sizes(self.total, PARTITIONS)

    @property
    def are_all(self) -> bool:
        """True if every channel of the parts is read."""
        return len(self.order) == self.total

    @property
    def are_plain(self) -> bool:
        """True if they are all channels of the parts as they are there."""
        return self.are_all and bool((self.order == np.arange(self.total)).all())

    @property
    def run(self) -> int | None:
        """The first of the channels where they are neighbours in one part, as they are there; None where not."""
        is_run = len(self.parts) == 1 and bool((np.diff(self.order) == 1).all())
        return int(self.order[0]) if is_run else None

    def runs(self) -> list[tuple[int, int]]:
        """Return [first, end) of the channels that are neighbours in one part, as they are there."""
        part, _ = self._apart(self.order)
        breaks = np.flatnonzero((np.diff(self.order) != 1) | (np.diff(part) != 0)) + 1
        borders = [0, *breaks.tolist(), len(self.order)]
        return list(itertools.pairwise(borders))

    def picked(self, which: np.ndarray) -> Channels:
        """Return some of these channels, none twice, in an order, without parts of which none is left."""
        part, within = self._apart(self.order[which])
        kept = np.unique(part)
        parts, sizes = tuple(self.parts[n] for n in kept), tuple(self.sizes[n] for n in kept)
        return Channels(parts, sizes, _starts(sizes)[np.searchsorted(kept, part)] + within)

    def given_by(self, part: int, each: int = 1) -> Channels:
        """Return the channels of an operation that computed `each` for every one of the parts."""
        order = (self.order[:, None] * each + np.arange(each)).ravel()
        return Channels((part,), (self.total * each,), order)

    def renumbered(self, number: Mapping[int, int]) -> Channels:
        """Return the channels with other numbers for the parts."""
        return replace(self, parts=tuple(number.get(part, part) for part in self.parts))

    def spread(self, numbers: np.ndarray, fill: float) -> np.ndarray:
        """Return numbers by channel, along the first axis, as the parts have them; `fill` for the unread."""
        if self.are_plain:
            return numbers
        whole = np.full((self.total, *numbers.shape[1:]), fill, numbers.dtype)
        whole[self.order] = numbers
        return whole

    def filters(self, filters: LazyArray) -> LazyArray:
        """Return filters [Cout, Cin, kh, kw] as the parts have the channels, zeros for those that are not read."""
        if self.are_plain:
            return filters

        def spread(array: np.ndarray) -> np.ndarray:
            whole = np.zeros((array.shape[0], self.total, *array.shape[2:]), array.dtype)
            whole[:, self.order] = array
            return whole

        return filters.changed((filters.shape[0], self.total, *filters.shape[2:]), spread)

    def _apart(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return of each channel its part, and which of that part's channels it is."""
        starts = _starts(self.sizes)
        part = np.searchsorted(starts, order, "right") - 1
        return part, order - starts[part]

    def merged(self) -> Channels:
        """Return the channels with no part twice, unless a channel of it is."""
        firsts = list(dict.fromkeys(self.parts))
        if len(firsts) == len(self.parts):
            return self
        part, within = self._apart(self.order)
        sizes = tuple(self.sizes[self.parts.index(first)] for first in firsts)
        place = np.array([firsts.index(each) for each in self.parts])
        order = _starts(sizes)[place[part]] + within
        return Channels(tuple(firsts), sizes, order) if len(np.unique(order)) == len(order) else self


def joined(values: Sequence[Channels]) -> Channels:
    """Return the channels of several values, one after another."""
    starts = _starts([value.total for value in values])
    parts = tuple(part for value in values for part in value.parts)
    sizes = tuple(size for value in values for size in value.sizes)
    order = np.concatenate([value.order + start for value, start in zip(values, starts)])
    return Channels(parts, sizes, order).merged()


def _starts(sizes: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *sizes])[:-1]
