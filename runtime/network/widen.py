"""Few channels as 32, more than 32 as 64, the rest zeros, so that rows of an image lie side by side.

Engines write from partitions that are multiples of 32 on. A row of 40 channels leaves no room for a second one below it
that begins there; one of 64 does. The zeros are computed on rows and columns of the Tensor Engine that would be idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .fold import FOUR_CHANNELS, PAIRED_CHANNELS
from .program import CONVOLUTIONS, Planned, readers_of

FEWEST_CHANNELS = 9  # below which more than four rows would have to lie side by side
NOT_OF_ZERO = ("log", "reciprocal", "power")  # activations that may give what zero weights do not take away


def widened(layers: Sequence[Planned]) -> list[Planned] | None:
    """The layers, with 32 and 64 channels for less where all that read them can take them; None where that is none."""
    wide = _wide(layers)
    if not wide:
        return None
    return [_with_zeros(layer, n in wide, layer.sources[0][0] in wide) for n, layer in enumerate(layers)]


def _wide(layers: Sequence[Planned]) -> set[int]:
    wide = {n for n, layer in enumerate(layers) if _more(layer.channels) > 0 and _may(layer)}
    while True:
        kept = {n for n in wide if _fits(layers, wide, n)}
        if kept == wide:
            return wide
        wide = kept


def _more(channels: int) -> int:
    """Zeros that channels are filled up with."""
    if FEWEST_CHANNELS <= channels <= FOUR_CHANNELS:
        return FOUR_CHANNELS - channels
    return PAIRED_CHANNELS - channels if FOUR_CHANNELS < channels <= PAIRED_CHANNELS else 0


def _may(layer: Planned) -> bool:
    """Whether zeros may be among what a layer gives."""
    alone = (layer.groups == 1 or layer.is_depthwise) and all(len(parts) == 1 for parts in layer.sources)
    return alone and (layer.kind.endswith("_pool") or (layer.kind == "conv2d" and layer.activation not in NOT_OF_ZERO))


def _fits(layers: Sequence[Planned], wide: set[int], number: int) -> bool:
    """Whether all that a layer reads as it is has as many channels, and what reads it can take more."""
    layer = layers[number]
    as_it_is = layer.sources if layer.kind != "conv2d" or layer.is_depthwise else layer.sources[1:]
    if not all(parts[0] in wide for parts in as_it_is):
        return False
    return all(n in wide or _can_read(layers[n], number) for n, _ in readers_of(layers, number))


def _can_read(layer: Planned, number: int) -> bool:
    """Whether a layer can take more channels than it knows, by zeros in its filters."""
    plain = layer.kind in CONVOLUTIONS and layer.groups == 1
    return plain and layer.sources[0] == (number,) and (number,) not in layer.sources[1:]


def _with_zeros(layer: Planned, gives: bool, reads: bool) -> Planned:
    """A layer that gives such channels, or reads them."""
    more_in = _more(layer.before[0]) if reads else 0
    more_out = _more(layer.channels) if gives else 0
    filters = layer.filters
    if filters is not None:
        filters = np.pad(filters, ((0, more_out), (0, 0 if layer.groups > 1 else more_in), (0, 0), (0, 0)))
    return replace(
        layer,
        channels=layer.channels + more_out,
        groups=layer.groups + more_out if layer.groups > 1 else 1,
        before=(layer.before[0] + more_in, *layer.before[1:]),
        after=(layer.after[0] + more_out, *layer.after[1:]),
        filters=filters,
        numbers=tuple(np.pad(numbers, (0, more_out)) for numbers in layer.numbers),
    )
