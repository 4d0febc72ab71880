"""Softmax inside a network: over groups of the channels of each pixel, or over the pixels of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_CHANNELS, Shape, check_range
from ..errors import ModelError
from .layer import Layer, Tensors
from .softmax import log_softmax, softmax


@dataclass(frozen=True)
class ChannelSoftmax(Layer):
    """Softmax (or its logarithm if `log` is set) over groups of the channels of each pixel. No tensors.

    The channels are viewed as [outer, `length`, `inner`], and the softmax is computed along the axis `length`: over all
    channels, over groups of adjacent channels (if `inner` is 1), or over channels with a stride of `inner`.
    """

    length: int
    inner: int = 1
    log: bool = False

    kind: ClassVar[str] = "channel_softmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "length", self.length, 1, MAX_CHANNELS)
        check_range(self.name, "inner", self.inner, 1, MAX_CHANNELS)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W); raise ModelError if it cannot be divided into groups."""
        channels, _, _ = self.image(shapes[0])
        if channels % (self.length * self.inner):
            raise ModelError(
                f"layer {self.name!r}: groups of {self.length} x {self.inner} channels do not divide {channels} "
                f"channels"
            )
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the softmax of each group."""
        (x,) = inputs
        runs = np.moveaxis(x.reshape(len(x), -1, self.length, self.inner, *x.shape[2:]), 2, -1)
        return np.moveaxis((log_softmax if self.log else softmax)(runs), -1, 2).reshape(x.shape)


@dataclass(frozen=True)
class RowSoftmax(Layer):
    """Softmax (or its logarithm if `log` is set) over the columns of each row of each channel. No tensors."""

    log: bool = False

    kind: ClassVar[str] = "row_softmax"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W); raise ModelError for features."""
        return self.image(shapes[0])

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the softmax of each row."""
        return (log_softmax if self.log else softmax)(inputs[0])
