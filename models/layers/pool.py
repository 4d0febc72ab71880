"""Pooling: the maximum or the average over windows of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_SIDE, Shape, check_choice, check_each, describe_shape
from ..errors import ModelError
from .layer import Layer, Tensors

POOL_METHODS = ("max", "average")


@dataclass(frozen=True)
class Pool(Layer):
    """Maximum or average over windows of each channel; global pooling if the window is as large as the image.

    The layer has no tensors. `window`, `stride` and `dilation` are (height, width); `padding` is (top, left, bottom,
    right) and must be smaller than the span of a window. With `ceil_mode`, a window may extend beyond the end of the
    padded image if it begins inside the image or the leading padding. The maximum ignores padding; the average includes
    it if `count_include_pad` is set, but never includes pixels beyond the padding.
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
                f"layer {self.name!r}: padding {list(self.padding)} must be smaller than the window {list(self.spans)}"
            )

    @property
    def spans(self) -> tuple[int, int]:
        """The number of rows and columns that a window spans, including gaps due to dilation."""
        down, across = ((size - 1) * step + 1 for size, step in zip(self.window, self.dilation))
        return down, across

    @property
    def is_plain(self) -> bool:
        """True if windows neither overlap nor leave gaps, there is no padding, and incomplete windows are dropped."""
        is_tiling = self.window == self.stride and self.dilation == (1, 1)
        return is_tiling and not any(self.padding) and not self.ceil_mode

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (C, H', W') for (C, H, W); raise ModelError if the input shape does not match."""
        channels, *sides = self.image(shapes[0])
        pooled = [
            _windows(side, self.spans[axis], self.stride[axis], self._pads(axis), self.ceil_mode)
            for axis, side in enumerate(sides)
        ]
        if min(pooled) < 1:
            raise ModelError(
                f"layer {self.name!r}: pools over {self.spans[0]}x{self.spans[1]} pixels of an image, but its input "
                f"is {describe_shape(shapes[0])}"
            )
        # An image that is smaller than the dilation may lie entirely between the taps of a window.
        if self.dilation != (1, 1) and any(
            not self._reached(axis, side, count, False).all() for axis, (side, count) in enumerate(zip(sides, pooled))
        ):
            raise ModelError(f"layer {self.name!r}: some of its windows would contain only padding")
        return (channels, pooled[0], pooled[1])

    def counts(self, shape: Shape) -> np.ndarray:
        """Return the divisor of each window's average, float32 [H', W'], for an input (C, H, W)."""
        _, *pooled = self.output_shape(shape)
        lengths = [
            self._reached(axis, side, count, self.count_include_pad)
            for axis, (side, count) in enumerate(zip(shape[1:], pooled))
        ]
        return np.outer(*lengths).astype(np.float32)

    def _reached(self, axis: int, side: int, count: int, with_padding: bool) -> np.ndarray:
        """Return how many pixels each of `count` windows covers along an axis, including padding if `with_padding`."""
        before, after = self._pads(axis)
        low, high = (-before, side + after) if with_padding else (0, side)
        first = np.arange(count) * self.stride[axis] - before
        # Taps t in 0 to window - 1 with low <= first + t * dilation < high.
        step = self.dilation[axis]
        start = np.maximum(0, -((first - low) // step))
        end = np.minimum(self.window[axis], -((first - high) // step))
        return np.maximum(0, end - start)

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Pool every channel."""
        (x,) = inputs
        _, height, width = self.output_shape(x.shape[1:])
        is_max = self.method == "max"
        padded = self._pad(x, (height, width), -np.inf if is_max else 0.0)
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.spans, axis=(2, 3))
        windows = windows[:, :, :: self.stride[0], :: self.stride[1]][:, :, :height, :width]
        windows = windows[..., :: self.dilation[0], :: self.dilation[1]]
        if is_max:
            return windows.max(axis=(4, 5))
        return windows.sum(axis=(4, 5), dtype=np.float32) / self.counts(x.shape[1:])

    def _pad(self, x: np.ndarray, counts: tuple[int, int], value: float) -> np.ndarray:
        """Pad images so that they contain `counts` windows (rows, columns)."""
        sides = []
        for axis, count in enumerate(counts):
            before = self.padding[axis]
            after = (count - 1) * self.stride[axis] + self.spans[axis] - before - x.shape[2 + axis]
            sides.append((before, max(0, after)))
        return np.pad(x, ((0, 0), (0, 0), *sides), constant_values=value)

    def _pads(self, axis: int) -> tuple[int, int]:
        return self.padding[axis], self.padding[axis + 2]


def average_pool(x: np.ndarray, window_height: int, window_width: int) -> np.ndarray:
    """Average over non-overlapping windows: x [B, C, H, W] -> [B, C, H // window_height, W // window_width]."""
    window = (window_height, window_width)
    return Pool("pool", "average", window, window).run({}, x)


def _windows(side: int, window: int, stride: int, pads: tuple[int, int], ceil_mode: bool) -> int:
    """Return the number of windows along an axis; less than 1 if none fits."""
    slack = side + sum(pads) - window
    if not ceil_mode or slack < 0:
        return slack // stride + 1
    count = -(-slack // stride) + 1
    return count - ((count - 1) * stride >= side + pads[0])
