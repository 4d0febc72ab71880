"""Filters as they are multiplied: of all channels, or combined for minimal filtering before they are rounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...kernels.convolution.forms import DIRECT, PAIRS
from .program import Planned


def as_multiplied(layer: Planned) -> Planned:
    """A layer with its filters combined: [Cout, Cin, matrices], as if each were a tap."""
    if layer.form == DIRECT or layer.filters is None:
        return layer
    filters = layer.filters.astype(np.float32)
    if layer.form == PAIRS:
        return replace(layer, filters=_combined(filters, 3), kernel=(layer.kernel[0], 4))
    halved = np.array((1, 0.5, 0.5, 1), np.float32)
    filters = _combined(_combined(filters, 2) * halved[:, None], 3) * halved
    return replace(layer, filters=filters.swapaxes(2, 3), kernel=(4, 4))


def ungrouped(filters: np.ndarray, groups: int) -> np.ndarray:
    """Filters [Cout, Cin / groups, kh, kw] with zeros for the channels of other groups: [Cout, Cin, kh, kw]."""
    count, each = filters.shape[:2]
    whole = np.zeros((count, groups, *filters.shape[1:]), filters.dtype)
    outputs = np.arange(count)
    whole[outputs, outputs // (count // groups)] = filters
    return whole.reshape(count, groups * each, *filters.shape[2:])


def _combined(filters: np.ndarray, axis: int) -> np.ndarray:
    """Three taps g of an axis as four: g0, g0 + g2 + g1, g0 + g2 - g1, g2."""
    g0, g1, g2 = np.moveaxis(filters, axis, 0)
    return np.stack((g0, g0 + g2 + g1, g0 + g2 - g1, g2), axis)
