"""How the host gives the input of a launch, so that DMAs read runs as long as an image.

Zeros around an image are rows and columns of it. Of filters that move by several pixels, every so many rows and columns
are channels of their own, phases: a convolution of C channels by kh x kw filters of stride (s, t) is one of s * t * C
channels by filters of kh / s x kw / t (rounded up) that move by one. No DMA then picks single elements, and more
channels fill the Tensor Engine's rows. Both are the numbers that came in, in another order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...kernels.convolution.forms import matmuls_ns
from ...kernels.tiling.packing import PARTITIONS, ceil_div, filter_steps, taps_in_partitions
from ...models.checks import INPUT, Shape
from ...models.files import Model
from ...models.layers import Flatten, Transpose
from .program import Planned, readers_of

TAP_NS = 93  # of a DMA queue, to start the DMA that brings a tap
PSUM_NUMBERS = 8 * 512  # float32, of a partition: outputs that are under way at a time


@dataclass(frozen=True)
class InputImage:
    """An input as an image (C, H, W): what comes in seen as axes of `split`, these in another order."""

    shape: Shape
    split: Shape
    order: tuple[int, ...]

    def of(self, data: np.ndarray) -> np.ndarray:
        """Inputs [B, ...] as images [B, C, H, W]."""
        turned = data.reshape(len(data), *self.split).transpose(0, *(axis + 1 for axis in self.order))
        return np.ascontiguousarray(turned).reshape(len(data), *self.shape)


def image_of(model: Model) -> InputImage:
    """The input as an image: features, or an image of which nothing but its flattened form is read, are (F, 1, 1).
    Where all that reads it is a transpose, the host turns its axes around."""
    network = model.network
    split = network.input.shape
    name, shape, order = INPUT, split, tuple(range(len(split)))
    readers = [layer for layer in network.layers if INPUT in layer.inputs]
    if len(readers) == 1 and isinstance(readers[0], Transpose):
        name, split, shape, order = readers[0].name, readers[0].split, readers[0].shape, readers[0].order
        readers = [layer for layer in network.layers if name in layer.inputs]
    if len(shape) == 3 and not all(isinstance(layer, Flatten) for layer in readers):
        return InputImage(shape, split, order)
    return InputImage((math.prod(shape), 1, 1), split, order)


@dataclass(frozen=True)
class Given:
    """An input [C, H, W] as a launch is given it: `zeros` on top, left, at the bottom (where below 0, rows that nothing
    reads are left out) and right, then its phases, (C, row, column) of so many, as channels."""

    zeros: tuple[int, int, int, int] = (0, 0, 0, 0)
    phases: tuple[int, int] = (1, 1)

    def arranged(self, value: np.ndarray, images: int, dtype: np.dtype[Any]) -> np.ndarray:
        """[pictures, C, H, W] as [images, channels, rows, columns]; `images` that there are not are zeros."""
        pictures, channels, high, wide = value.shape
        if pictures == images and value.dtype == dtype and self == Given():
            return value
        top, left, bottom, right = self.zeros
        rows, columns = top + high + bottom, left + wide + right
        whole = np.zeros((images, channels, rows, columns), dtype)
        count = min(images, pictures)
        whole[:count, :, top : top + high, left : left + wide] = value[:count, :, : rows - top, : columns - left]
        down, across = self.phases
        apart = whole.reshape(images, channels, rows // down, down, columns // across, across)
        shape = (images, channels * down * across, rows // down, columns // across)
        return np.ascontiguousarray(apart.transpose(0, 1, 3, 5, 2, 4)).reshape(shape)


def with_phases(layers: Sequence[Planned], image: Shape) -> tuple[list[Planned], Shape, Given]:
    """Layers whose first filters move by one over an image of phases, that image, and how the host makes it; all as
    they came where that takes more matmuls, or something else reads the input too."""
    first = layers[0]
    plain = first.kind == "conv2d" and first.groups == 1 and max(first.dilation) == 1
    plain = plain and readers_of(layers, -1) == [(0, (-1,))]
    down, across = first.stride
    if not plain or max(first.stride) == 1:
        return list(layers), image, Given()
    channels = image[0] * down * across
    kernel = (ceil_div(first.kernel[0], down), ceil_div(first.kernel[1], across))
    if _cost(channels, kernel, first) > _cost(image[0], first.kernel, first):
        return list(layers), image, Given()
    rows, columns = (side * first.pool_size - 1 + taps for side, taps in zip(first.after[1:], kernel))
    top, left = first.padding[:2]
    zeros = (top, left, rows * down - top - image[1], columns * across - left - image[2])
    assert first.filters is not None
    filters = np.zeros((len(first.filters), image[0], kernel[0] * down, kernel[1] * across), first.filters.dtype)
    filters[:, :, : first.kernel[0], : first.kernel[1]] = first.filters
    apart = filters.reshape(len(filters), image[0], kernel[0], down, kernel[1], across).transpose(0, 1, 3, 5, 2, 4)
    given = (channels, rows, columns)
    own = replace(
        first,
        kernel=kernel,
        stride=(1, 1),
        padding=(0, 0, 0, 0),
        before=given,
        filters=apart.reshape(len(filters), channels, *kernel),
    )
    return [own, *layers[1:]], given, Given(zeros, first.stride)


def _cost(channels: int, kernel: tuple[int, int], layer: Planned) -> float:
    """Nanoseconds of a filter's matmuls for a tile of output channels, and of the DMAs that bring the taps of about as
    many outputs as PSUM holds, both in 16 bits: float32 takes twice as long for both, or longer."""
    taps = taps_in_partitions(min(PARTITIONS, channels), *kernel)
    tiles = ceil_div(channels, PARTITIONS)
    columns = layer.after[1] * layer.after[2] * layer.pool_size**2
    steps = tiles * len(filter_steps(*kernel, taps[0], taps[1]))
    return steps * matmuls_ns(2, columns) + tiles * taps[0] * taps[1] * ceil_div(columns, PSUM_NUMBERS) * TAP_NS
