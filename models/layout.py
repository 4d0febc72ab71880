"""Weights as the kernels want them in SBUF, laid out once on the host.

The Tensor Engine contracts over the partition axis, so input channels (and, where they are few, several filter taps)
become rows. A stationary operand is read fastest when its output channels are contiguous, so they come last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTITIONS = 128


def conv2d_taps_in_rows(in_channels: int, kernel_size: int) -> tuple[int, int]:
    """(filter rows, filter columns) that share the partition axis.

    The whole filter where in_channels * kernel_size**2 <= 128, else as many filter rows as fit, evenly divided, else
    one tap: (1, 1).
    """
    if in_channels * kernel_size**2 <= PARTITIONS:
        return kernel_size, kernel_size
    fitting = min(kernel_size, max(1, PARTITIONS // in_channels))
    groups = -(-kernel_size // fitting)
    return -(-kernel_size // groups), 1


def conv2d_block_stride(in_channels: int, kernel_size: int) -> int:
    """Rows from the block of one tap to that of the next; where they hold the whole filter, it spreads over all 128."""
    rows, columns = conv2d_taps_in_rows(in_channels, kernel_size)
    return PARTITIONS // (rows * columns) if columns > 1 else in_channels


def pack_conv2d(w: NDArray[Any], bias: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Filters [Cout, Cin, k, k] and bias [Cout] in the layout of `fused_conv2d_maxpool_packed`.

    Returns `w_packed` [R, S * Cout] in the dtype of w, and `bias_packed` [min(128, Cout), ceil(Cout / 128)] float32.

    With (i, j) = `conv2d_taps_in_rows(Cin, k)` and d = `conv2d_block_stride(Cin, k)`, row (a * j + b) * d + c of step
    (p, q) holds w[:, c, p * i + a, q * j + b] for a < i, b < j, c < Cin; all else is zero. R = (i * j - 1) * d + Cin.
    There are S = ceil(k / i) * ceil(k / j) steps, each of which one matmul covers. Columns are in blocks of 128 output
    channels (the last may be smaller), each block ordered (step, output channel). Column n of `bias_packed` holds the
    biases of block n, filled up with zeros.
    """
    if w.ndim != 4 or w.shape[2] != w.shape[3] or 0 in w.shape:
        raise ValueError(f"conv2d weights must be [Cout, Cin, k, k], came {list(w.shape)}")
    out_channels, in_channels, kernel_size, _ = w.shape
    if bias.shape != (out_channels,):
        raise ValueError(f"conv2d bias must be [{out_channels}], came {list(bias.shape)}")
    rows, columns = conv2d_taps_in_rows(in_channels, kernel_size)
    row_steps, column_steps = -(-kernel_size // rows), -(-kernel_size // columns)
    filters = np.zeros((out_channels, in_channels, row_steps * rows, kernel_size), w.dtype)
    filters[:, :, :kernel_size] = w
    # [Cout, Cin, p, a, q, b] -> [a, b, Cin, p, q, Cout]
    split = filters.reshape(out_channels, in_channels, row_steps, rows, column_steps, columns)
    split = split.transpose(3, 5, 1, 2, 4, 0)
    stride = conv2d_block_stride(in_channels, kernel_size)
    stationary = np.zeros((rows * columns, stride, row_steps * column_steps, out_channels), w.dtype)
    stationary[:, :in_channels] = split.reshape(rows * columns, in_channels, -1, out_channels)
    used = stationary.reshape(-1, *stationary.shape[2:])[: (rows * columns - 1) * stride + in_channels]
    blocks = [
        used[:, :, first : first + PARTITIONS].reshape(len(used), -1) for first in range(0, out_channels, PARTITIONS)
    ]
    width = min(PARTITIONS, out_channels)
    padded = np.zeros(len(blocks) * width, np.float32)
    padded[:out_channels] = bias
    return np.ascontiguousarray(np.concatenate(blocks, axis=1)), np.ascontiguousarray(padded.reshape(-1, width).T)
