"""Which channels a layer of a launch reads. Slices, shuffles and concatenations are an order of channels, and no layer.

The order is known while the network is planned, and goes into what reads the channels: into the filters of a
convolution, and into the numbers that other layers have for each channel. So it costs nothing on the chip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .program import Parts


@dataclass(frozen=True)
class Channels:
    """Channels as a layer names them: number n is number order[n] of those that `parts` give, one after another.

    None is there twice: where a layer reads a channel twice, the part that gives it is.
    """

    parts: Parts
    sizes: tuple[int, ...]  # channels of each part
    order: np.ndarray

    @staticmethod
    def of(part: int, count: int) -> Channels:
        """All channels of one layer as they lie."""
        return Channels((part,), (count,), np.arange(count))

    @property
    def total(self) -> int:
        """Channels that the parts give, read or not."""
        return sum(self.sizes)

    @property
    def are_all(self) -> bool:
        """Whether every channel of the parts is read."""
        return len(self.order) == self.total

    @property
    def are_plain(self) -> bool:
        """Whether they are all channels of the parts as they lie."""
        return self.are_all and bool((self.order == np.arange(self.total)).all())

    def picked(self, which: np.ndarray) -> Channels:
        """Some of these channels, none twice, in an order; parts of which nothing is left are left out."""
        part, within = self._apart(self.order[which])
        kept = np.unique(part)
        parts, sizes = tuple(self.parts[n] for n in kept), tuple(self.sizes[n] for n in kept)
        return Channels(parts, sizes, _starts(sizes)[np.searchsorted(kept, part)] + within)

    def given_by(self, part: int, each: int = 1) -> Channels:
        """The same channels where a layer has given `each` for every one that the parts have."""
        order = (self.order[:, None] * each + np.arange(each)).ravel()
        return Channels((part,), (self.total * each,), order)

    def renumbered(self, number: Mapping[int, int]) -> Channels:
        """With other numbers for the layers."""
        return replace(self, parts=tuple(number[part] for part in self.parts))

    def spread(self, numbers: np.ndarray, fill: float) -> np.ndarray:
        """What goes by channel, along the first axis, as the channels lie; `fill` for those that are not read."""
        if self.are_plain:
            return numbers
        whole = np.full((self.total, *numbers.shape[1:]), fill, numbers.dtype)
        whole[self.order] = numbers
        return whole

    def filters(self, filters: np.ndarray) -> np.ndarray:
        """Filters [Cout, Cin, kh, kw] as the channels lie, with zeros for those that are not read."""
        if self.are_plain:
            return filters
        whole = np.zeros((filters.shape[0], self.total, *filters.shape[2:]), filters.dtype)
        whole[:, self.order] = filters
        return whole

    def _apart(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of each channel the part that gives it, and which of that part's channels it is."""
        starts = _starts(self.sizes)
        part = np.searchsorted(starts, order, "right") - 1
        return part, order - starts[part]

    def merged(self) -> Channels:
        """With no part twice, unless a channel of it is."""
        firsts = list(dict.fromkeys(self.parts))
        if len(firsts) == len(self.parts):
            return self
        part, within = self._apart(self.order)
        sizes = tuple(self.sizes[self.parts.index(first)] for first in firsts)
        place = np.array([firsts.index(each) for each in self.parts])
        order = _starts(sizes)[place[part]] + within
        return Channels(tuple(firsts), sizes, order) if len(np.unique(order)) == len(order) else self


def joined(values: Sequence[Channels]) -> Channels:
    """Channels of several layers, one after another."""
    starts = _starts([value.total for value in values])
    parts = tuple(part for value in values for part in value.parts)
    sizes = tuple(size for value in values for size in value.sizes)
    order = np.concatenate([value.order + start for value, start in zip(values, starts)])
    return Channels(parts, sizes, order).merged()


def _starts(sizes: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *sizes])[:-1]
