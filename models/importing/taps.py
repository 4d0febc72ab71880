"""Removal of filter taps that never overlap the image, as in dilated filters on small images."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..checks import Shape
from ..layers import Conv2d


def drop_unmet_taps(layer: Conv2d, weight: np.ndarray, shape: Shape) -> tuple[Conv2d, np.ndarray] | None:
    """Return a convolution of an image (C, H, W) with fewer taps and its weight, or None if all taps are used."""
    ranges = [_met(layer, axis, shape[1 + axis]) for axis in (0, 1)]
    if [len(taps) for taps in ranges] == list(layer.kernel_size):
        return None
    (top, bottom), (left, right) = ((taps[0], taps[-1] + 1) for taps in ranges)
    rest = (top, left, layer.kernel_size[0] - bottom, layer.kernel_size[1] - right)
    padding = tuple(side - taps * step for side, taps, step in zip(layer.padding, rest, layer.dilation * 2))
    smaller = dataclasses.replace(
        layer, kernel_size=(bottom - top, right - left), padding=(padding[0], padding[1], padding[2], padding[3])
    )
    return smaller, np.ascontiguousarray(weight[:, :, top:bottom, left:right])


def _met(layer: Conv2d, axis: int, side: int) -> range:
    """Return the taps along an axis, without leading and trailing taps that only ever read padding."""
    step, apart = layer.stride[axis], layer.dilation[axis]
    before, after = layer.padding[axis], layer.padding[axis + 2]
    taps = layer.kernel_size[axis]
    outputs = (side + before + after - (taps - 1) * apart - 1) // step + 1

    padding = before

    def is_met(tap: int) -> bool:
        first = tap * apart - padding  # the row read for the first output row
        return any(0 <= first + output * step < side for output in range(outputs))

    start, end = 0, taps
    while end - start > 1 and before >= apart and not is_met(start):
        start, before = start + 1, before - apart
    while end - start > 1 and after >= apart and not is_met(end - 1):
        end, after = end - 1, after - apart
    return range(start, end)
