"""Arrange the input of a launch on the host, so that DMAs read contiguous runs that are as long as an image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...models.checks import INPUT, Shape
from ...models.files import Model
from ...models.layers import Flatten, Transpose


@dataclass(frozen=True)
class InputImage:
    """The conversion of an input to an image (C, H, W): a reshape to `split`, and a permutation of the axes."""

    shape: Shape
    split: Shape
    order: tuple[int, ...]

    def of(self, data: np.ndarray) -> np.ndarray:
        """Return inputs [B, ...] as images [B, C, H, W]."""
        transposed = data.reshape(len(data), *self.split).transpose(0, *(axis + 1 for axis in self.order))
        return np.ascontiguousarray(transposed).reshape(len(data), *self.shape)


def image_of(model: Model) -> InputImage:
    """Return the conversion of the model's input to an image.

    Features, and images that the model reads only in flattened form, become (F, 1, 1).

    If only a transpose reads the input, the host performs the transpose.
    """
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
class Arrangement:
    """The layout in which a launch receives an input [C, H, W]: padded with zeros, with phases as separate channels."""

    # the number of rows or columns of zeros to add at the top, left, bottom and right. A negative number at the bottom
    # omits rows that are never read
    zeros: tuple[int, int, int, int] = (0, 0, 0, 0)
    # the row and column strides; each phase (C, row, column) becomes a separate channel
    phases: tuple[int, int] = (1, 1)

    def arrange(self, value: np.ndarray, images: int, dtype: np.dtype[Any]) -> np.ndarray:
        """Rearrange [pictures, C, H, W] to [images, channels, rows, columns]; images beyond the last picture are
        zero."""
        pictures, channels, high, wide = value.shape
        if pictures == images and value.dtype == dtype and self == AS_GIVEN:
            return value
        top, left, bottom, right = self.zeros
        rows, columns = top + high + bottom, left + wide + right
        arranged = np.zeros((images, channels, rows, columns), dtype)
        count = min(images, pictures)
        arranged[:count, :, top : top + high, left : left + wide] = value[:count, :, : rows - top, : columns - left]
        down, across = self.phases
        split_by_phase = arranged.reshape(images, channels, rows // down, down, columns // across, across)
        shape = (images, channels * down * across, rows // down, columns // across)
        return np.ascontiguousarray(split_by_phase.transpose(0, 1, 3, 5, 2, 4)).reshape(shape)


AS_GIVEN = Arrangement()
