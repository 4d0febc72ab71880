"""Softmax within a network: over runs of the channels of each pixel, or over the pixels of each row."""

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
    """Softmax, or with `log` its logarithm, of each pixel over some of its channels. No tensors.

    The channels are seen as [outer, `length`, `inner`], and each softmax is over the axis of `length`: all channels,
    groups of neighbours (`inner` 1), or channels that are `inner` apart.
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
        """Return the input shape, (C, H, W); ModelError for features, or if the runs do not divide the channels."""
        channels, _, _ = self.image(shapes[0])
        if channels % (self.length * self.inner):
            raise ModelError(
                f"layer {self.name!r}: runs of {self.length} x {self.inner} channels do not divide {channels}"
            )
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the softmax of each run."""
        (x,) = inputs
        runs = np.moveaxis(x.reshape(len(x), -1, self.length, self.inner, *x.shape[2:]), 2, -1)
        return np.moveaxis((log_softmax if self.log else softmax)(runs), -1, 2).reshape(x.shape)


@dataclass(frozen=True)
class RowSoftmax(Layer):
    """Softmax, or with `log` its logarithm, over the columns of each row of each channel. No tensors."""

    log: bool = False

    kind: ClassVar[str] = "row_softmax"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W); ModelError for features."""
        return self.image(shapes[0])

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the softmax of each row."""
        return (log_softmax if self.log else softmax)(inputs[0])
