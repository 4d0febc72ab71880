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

    `window` and `stride` are (height, width), `padding` is (top, left, bottom, right) and below the window's size. With
    `ceil_mode`, a window may reach over the padded image's end as long as it begins inside the image or the padding
    before it. The maximum never counts padding; the average counts it with `count_include_pad`, but never what lies
    beyond it.
    """

    method: str
    window: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    ceil_mode: bool = False
    count_include_pad: bool = False

    kind: ClassVar[str] = "pool"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "method", self.method, POOL_METHODS)
        check_each(self.name, "window", self.window, 2, 1, MAX_SIDE)
        check_each(self.name, "stride", self.stride, 2, 1, MAX_SIDE)
        check_each(self.name, "padding", self.padding, 4, 0, MAX_SIDE)
        if any(pad >= side for pad, side in zip(self.padding, self.window * 2)):
            raise ModelError(
                f"layer {self.name!r}: padding {list(self.padding)} is not below the window {list(self.window)}"
            )

    @property
    def is_plain(self) -> bool:
        """Whether windows lie side by side, without padding, and rows and columns left over are dropped."""
        return self.window == self.stride and not any(self.padding) and not self.ceil_mode

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in, (C, H', W') out; ModelError where the input does not fit."""
        channels, *sides = self.image(shapes[0])
        pooled = [
            _windows(side, self.window[axis], self.stride[axis], self._pads(axis), self.ceil_mode)
            for axis, side in enumerate(sides)
        ]
        if min(pooled) < 1:
            raise ModelError(
                f"layer {self.name!r}: pools over {self.window[0]}x{self.window[1]} pixels of an image, but what "
                f"comes before gives {describe_shape(shapes[0])}"
            )
        return (channels, pooled[0], pooled[1])

    def counts(self, shape: Shape) -> np.ndarray:
        """How many pixels each window of an average is divided by: float32 [H', W'], for an input (C, H, W)."""
        _, *pooled = self.output_shape(shape)
        lengths = []
        for axis, (side, count) in enumerate(zip(shape[1:], pooled)):
            before, after = self._pads(axis)
            starts = np.arange(count) * self.stride[axis] - before
            low, high = (-before, side + after) if self.count_include_pad else (0, side)
            lengths.append(np.minimum(starts + self.window[axis], high) - np.maximum(starts, low))
        return np.outer(*lengths).astype(np.float32)

    def _pads(self, axis: int) -> tuple[int, int]:
        return self.padding[axis], self.padding[axis + 2]


def _windows(side: int, window: int, stride: int, pads: tuple[int, int], ceil_mode: bool) -> int:
    """How many windows there are along an axis; below 1 where none fits."""
    room = side + sum(pads) - window
    if not ceil_mode or room < 0:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - ((count - 1) * stride >= side + pads[0])
