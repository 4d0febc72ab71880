"""Two-dimensional convolution with fused activation and max pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import (
    MAX_CHANNELS,
    MAX_KERNEL_ELEMENTS,
    MAX_KERNEL_SIZE,
    MAX_STRIDE,
    Shape,
    check_each,
    check_range,
    describe_shape,
)
from ..errors import ModelError
from .activation import activate, check_activation
from .layer import Layer, Tensors

# Maximum size of the unfolded (im2col) input in the reference, which limits the memory needed for large images.
UNFOLD_BYTES = 32 << 20


@dataclass(frozen=True)
class Conv2d(Layer):
    """Convolution, followed by bias, activation and max pooling (stride = size; incomplete windows are dropped).

    `kernel_size`, `stride` and `dilation` are (height, width), `padding` is (top, left, bottom, right). The
    channels are divided into `groups`: the filters of group g read the g-th part of the input channels. With as many
    groups as channels, the convolution is depthwise.

    Tensors: `<name>.weight` [out_channels, in_channels / groups, kh, kw] and `<name>.bias` [out_channels].
    The activation is applied before pooling, as is usual in trained networks. The order affects the result only if the
    activation is not monotonic, such as gelu.
    """

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pool_size: int = 1
    activation: str = "identity"
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "conv2d"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "in_channels", self.in_channels, 1, MAX_CHANNELS)
        check_range(self.name, "out_channels", self.out_channels, 1, MAX_CHANNELS)
        check_each(self.name, "kernel_size", self.kernel_size, 2, 1, MAX_KERNEL_SIZE)
        check_range(self.name, "kernel_size", math.prod(self.kernel_size), 1, MAX_KERNEL_ELEMENTS)
        check_each(self.name, "padding", self.padding, 4, 0, MAX_STRIDE)
        check_range(self.name, "pool_size", self.pool_size, 1, 2)
        check_each(self.name, "stride", self.stride, 2, 1, MAX_STRIDE)
        check_each(self.name, "dilation", self.dilation, 2, 1, MAX_STRIDE)
        check_range(self.name, "groups", self.groups, 1, self.in_channels)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ModelError(
                f"layer {self.name!r}: {self.in_channels} input and {self.out_channels} output channels cannot be "
                f"divided into {self.groups} groups"
            )
        check_activation(self.name, self.activation, self.activation_parameters)

    @property
    def is_plain(self) -> bool:
        """True if the kernel is square, the padding is equal on all sides, and stride, dilation and groups are 1."""
        height, width = self.kernel_size
        ones = (*self.stride, *self.dilation, self.groups)
        return height == width and len(set(self.padding)) == 1 and set(ones) == {1}

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of the weight and the bias: one filter and one bias per output channel."""
        return {
            "weight": (self.out_channels, self.in_channels // self.groups, *self.kernel_size),
            "bias": (self.out_channels,),
        }

    def convolved_shape(self, shape: Shape) -> tuple[int, int, int]:
        """Return the shape (C', H', W') before pooling for an input (C, H, W); sizes may be less than 1."""
        top, left, bottom, right = self.padding
        sides = [
            (side + pads - dilation * (kernel - 1) - 1) // stride + 1
            for side, pads, dilation, kernel, stride in zip(
                shape[1:], (top + bottom, left + right), self.dilation, self.kernel_size, self.stride
            )
        ]
        return (self.out_channels, sides[0], sides[1])

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (C', H', W') for (C, H, W); raise ModelError if the input shape does not match."""
        shape = shapes[0]
        if len(shape) != 3 or shape[0] != self.in_channels:
            raise ModelError(
                f"layer {self.name!r}: expects an image of {self.in_channels} channels, but its input is "
                f"{describe_shape(shape)}"
            )
        channels, *convolved = self.convolved_shape(shape)
        sides = [side // self.pool_size for side in convolved]
        if min(sides) < 1:
            height, width = self.kernel_size
            padding = self.padding[0] if len(set(self.padding)) == 1 else self.padding
            raise ModelError(
                f"layer {self.name!r}: a {height}x{width} kernel with padding {padding} and "
                f"pool {self.pool_size} is too large for an input of {describe_shape(shape)}"
            )
        return (channels, sides[0], sides[1])

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Return the number of multiply-accumulates for one example."""
        taps = math.prod(self.kernel_size) * (self.in_channels // self.groups)
        return math.prod(self.convolved_shape(shapes[0])) * taps

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Convolve, add the bias, activate and pool, in bands of rows to limit the size of the unfolded input."""
        (x,) = inputs
        w, bias = tensors["weight"], tensors["bias"]
        pool, width = self.pool_size, self.output_shape(x.shape[1:])[2]
        result = np.empty((len(x), *self.output_shape(x.shape[1:])), np.float32)
        top, left, bottom, right = self.padding
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        filters = w.reshape(self.groups, -1, *w.shape[1:])
        row_bytes = 4 * w.size // self.out_channels * width * pool * pool
        rows = max(1, UNFOLD_BYTES // max(1, row_bytes))
        for image, out in zip(padded, result, strict=True):
            windows = self._windows(image.reshape(self.groups, -1, *padded.shape[2:]))
            for first in range(0, out.shape[1], rows):
                last = min(first + rows, out.shape[1])
                band = windows[:, :, first * pool : last * pool, : width * pool]
                sums = _multiply(filters, band).reshape(self.out_channels, -1)
                values = activate(sums + bias[:, None], self.activation, self.activation_parameters)
                pooled = values.reshape(self.out_channels, last - first, pool, width, pool)
                out[:, first:last] = pooled.max(axis=(2, 4))
        return result

    def _windows(self, image: np.ndarray) -> np.ndarray:
        """Return a view of the window that each output pixel reads: [groups, Cin / groups, H', W', kh, kw]."""
        reach = tuple(step * (size - 1) + 1 for step, size in zip(self.dilation, self.kernel_size))
        windows = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(2, 3))
        down, across = self.stride
        return windows[:, :, ::down, ::across, :: self.dilation[0], :: self.dilation[1]]


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    padding: int = 0,
    pool_size: int = 1,
    activation: str = "identity",
) -> np.ndarray:
    """Convolve with stride 1, add the bias, apply the activation, and max-pool with stride = size.

    x [B, Cin, H, W], w [Cout, Cin, kh, kw], bias [Cout] -> [B, Cout, H', W']. `padding` applies to all sides. The
    result is float32.
    """
    outputs, inputs, *kernel = w.shape
    layer = Conv2d(
        name="conv2d",
        in_channels=inputs,
        out_channels=outputs,
        kernel_size=(kernel[0], kernel[1]),
        padding=(padding,) * 4,
        pool_size=pool_size,
        activation=activation,
    )
    return layer.run({"weight": w, "bias": bias}, x)


def _multiply(filters: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Multiply filters [groups, Cout / groups, Cin / groups, kh, kw] by windows (see `Conv2d._windows`)."""
    groups, outputs, inputs, *kernel = filters.shape
    height, width = windows.shape[2:4]
    if inputs == outputs == 1:  # depthwise: process each tap for all channels at once, without unfolding
        total = np.zeros((groups, height, width), np.float32)
        for row, column in np.ndindex(*kernel):
            total += filters[:, 0, 0, row, column, None, None] * windows[:, 0, :, :, row, column]
        return total
    unfolded = windows.transpose(0, 1, 4, 5, 2, 3).reshape(groups, -1, height * width)
    return filters.reshape(groups, outputs, -1) @ unfolded
