"""Pooling: the maximum or the average of windows of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .checks import MAX_SIDE, ModelError, Shape, check_choice, check_each, describe_shape
from .layer import Layer

POOL_METHODS = ("max", "average")


@dataclass(frozen=True)
class Pool(Layer):
    """Maximum or average over windows of each channel. A window as large as the image is a global pool. No tensors.

    `window`, `stride` and `dilation` are (height, width), `padding` is (top, left, bottom, right) and below what a
    window spans; of a dilated window, every so many pixels count. With `ceil_mode`, a window may reach over the padded
    image's end as long as it begins inside the image or the padding before it. The maximum never counts padding; the
    average counts it with `count_include_pad`, but never what lies beyond it.
    """

    method: str
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    ceil_mode: bool = False
    count_include_pad: bool = False
    dilation: tuple[int, int] = (1, 1)

    kind: ClassVar[str] = "pool"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "method", self.method, POOL_METHODS)
        check_each(self.name, "window", self.window, 2, 1, MAX_SIDE)
        check_each(self.name, "stride", self.stride, 2, 1, MAX_SIDE)
        check_each(self.name, "padding", self.padding, 4, 0, MAX_SIDE)
        check_each(self.name, "dilation", self.dilation, 2, 1, MAX_SIDE)
        if any(pad >= side for pad, side in zip(self.padding, self.spans * 2)):
            raise ModelError(
                f"layer {self.name!r}: padding {list(self.padding)} is not below the window {list(self.spans)}"
            )

    @property
    def spans(self) -> tuple[int, int]:
        """The rows and columns from a window's first pixel to its last."""
        down, across = ((size - 1) * step + 1 for size, step in zip(self.window, self.dilation))
        return down, across

    @property
    def is_plain(self) -> bool:
        """Whether windows lie side by side, without padding, and rows and columns left over are dropped."""
        beside = self.window == self.stride and self.dilation == (1, 1)
        return beside and not any(self.padding) and not self.ceil_mode

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in, (C, H', W') out; ModelError where the input does not fit."""
        channels, *sides = self.image(shapes[0])
        pooled = [
            _windows(side, self.spans[axis], self.stride[axis], self._pads(axis), self.ceil_mode)
            for axis, side in enumerate(sides)
        ]
        if min(pooled) < 1:
            raise ModelError(
                f"layer {self.name!r}: pools over {self.spans[0]}x{self.spans[1]} pixels of an image, but what "
                f"comes before gives {describe_shape(shapes[0])}"
            )
        # Between the pixels of a dilated window, a whole image may be lost.
        if self.dilation != (1, 1) and any(
            not self._reached(axis, side, count, False).all() for axis, (side, count) in enumerate(zip(sides, pooled))
        ):
            raise ModelError(f"layer {self.name!r}: some of its windows reach no pixel of the image, only padding")
        return (channels, pooled[0], pooled[1])

    def counts(self, shape: Shape) -> np.ndarray:
        """How many pixels each window of an average is divided by: float32 [H', W'], for an input (C, H, W)."""
        _, *pooled = self.output_shape(shape)
        lengths = [
            self._reached(axis, side, count, self.count_include_pad)
            for axis, (side, count) in enumerate(zip(shape[1:], pooled))
        ]
        return np.outer(*lengths).astype(np.float32)

    def _reached(self, axis: int, side: int, count: int, with_padding: bool) -> np.ndarray:
        """How many pixels, perhaps of the padding too, each of `count` windows along an axis reaches."""
        before, after = self._pads(axis)
        low, high = (-before, side + after) if with_padding else (0, side)
        first = np.arange(count) * self.stride[axis] - before
        # Taps t with low <= first + t * dilation < high, of 0 to window - 1.
        step = self.dilation[axis]
        start = np.maximum(0, -((first - low) // step))
        end = np.minimum(self.window[axis], -((first - high) // step))
        return np.maximum(0, end - start)

    def _pads(self, axis: int) -> tuple[int, int]:
        return self.padding[axis], self.padding[axis + 2]


def _windows(side: int, window: int, stride: int, pads: tuple[int, int], ceil_mode: bool) -> int:
    """How many windows there are along an axis; below 1 where none fits."""
    room = side + sum(pads) - window
    if not ceil_mode or room < 0:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - ((count - 1) * stride >= side + pads[0])
