"""Convolution and dense layers."""

from __future__ import annotations

import numpy as np

from .activation import activate

# A convolution unfolds this much of its input at a time, so that a large image takes no more memory than a small one.
UNFOLD_BYTES = 32 << 20


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    padding: int | tuple[int, int, int, int] = 0,
    pool_size: int = 1,
    activation: str = "identity",
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    groups: int = 1,
    activation_parameters: tuple[float, ...] = (),
) -> np.ndarray:
    """Convolution, bias, activation, then max pooling with stride = size (rows left over are dropped).

    x [B, Cin, H, W], w [Cout, Cin / groups, kh, kw], bias [Cout] -> [B, Cout, H', W']. `padding` is that of all sides,
    or (top, left, bottom, right). The result is float32.
    """
    top, left, bottom, right = padding if isinstance(padding, tuple) else (padding,) * 4
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    batch, _, *sides = padded.shape
    height, width = (
        ((side - step * (kernel - 1) - 1) // hop + 1) // pool_size
        for side, step, kernel, hop in zip(sides, dilation, w.shape[2:], stride)
    )
    filters = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    result = np.empty((batch, w.shape[0], height, width), np.float32)
    row_bytes = 4 * w.size // w.shape[0] * width * pool_size * pool_size
    rows = max(1, UNFOLD_BYTES // max(1, row_bytes))
    for image, out in zip(padded, result, strict=True):
        windows = _windows(image.reshape(groups, -1, *sides), w.shape[2:], stride, dilation)
        for first in range(0, height, rows):
            last = min(first + rows, height)
            band = windows[:, :, first * pool_size : last * pool_size, : width * pool_size]
            sums = _multiply(filters, band).reshape(w.shape[0], -1)
            values = activate(sums + bias[:, None], activation, activation_parameters)
            pooled = values.reshape(w.shape[0], last - first, pool_size, width, pool_size)
            out[:, first:last] = pooled.max(axis=(2, 4))
    return result


def dense(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    activation: str = "identity",
    activation_parameters: tuple[float, ...] = (),
) -> np.ndarray:
    """x [B, F] @ w [F, F'] + bias [F'], then the activation."""
    return activate(x @ w + bias, activation, activation_parameters)


def _windows(
    image: np.ndarray, kernel: tuple[int, ...], stride: tuple[int, int], dilation: tuple[int, int]
) -> np.ndarray:
    """What each place of the filters covers: a view [groups, Cin / groups, H', W', kh, kw] of an image by groups."""
    reach = tuple(step * (size - 1) + 1 for step, size in zip(dilation, kernel))
    windows = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(2, 3))
    return windows[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


def _multiply(filters: np.ndarray, windows: np.ndarray) -> np.ndarray:
    """Filters [groups, Cout / groups, Cin / groups, kh, kw] on windows: [groups, Cout / groups, H', W']."""
    groups, outputs, inputs, *kernel = filters.shape
    height, width = windows.shape[2:4]
    if inputs == outputs == 1:  # depthwise: a tap at a time, on all channels at once, unfolds nothing
        total = np.zeros((groups, height, width), np.float32)
        for row, column in np.ndindex(*kernel):
            total += filters[:, 0, 0, row, column, None, None] * windows[:, 0, :, :, row, column]
        return total
    unfolded = windows.transpose(0, 1, 4, 5, 2, 3).reshape(groups, -1, height * width)
    return filters.reshape(groups, outputs, -1) @ unfolded
