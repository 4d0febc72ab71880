"""Weights in the SBUF layout of kernels, converted once on the host.

The Tensor Engine contracts over the partition axis, so input channels (and several filter taps, if there are few
channels) are mapped to rows. Reading a stationary operand is fastest if its output channels are contiguous, so they
form the last axis. `kernels/tiling/packing.py` determines for both host and kernel which taps and channel groups share
rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels.program import OutputOrder
from ..kernels.tiling.packing import Taps, output_blocks, packed_layout
from ..simulator.machine.chip import PARTITIONS


def pack_conv2d(w: NDArray[Any], bias: NDArray[Any], groups: int = 1) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Convert filters [Cout, Cin / groups, kh, kw] and bias [Cout] to the layout of `fused_conv2d_maxpool_packed`.

    Returns `w_packed` [R, S * Cout] in the dtype of w, and `bias_packed` [channels of a block, blocks] float32.

    With (i, j, d) = `taps_in_partitions` of the channels of a section, row (a * j + b) * d + c of step (p, q) contains
    w[:, c, p * i + a, q * j + b] for a < i, b < j and each channel c of the section; all other elements are zero.
    There are S = ceil(kh / i) * ceil(kw / j) steps, each computed by one matmul. Columns are grouped into blocks of 128
    output channels (the last block of a section may be smaller), each ordered (step, output channel). In a section of
    several groups, the weights between channels of different groups are zero. Column n of `bias_packed` contains the
    biases of block n, padded with zeros.
    """
    if w.ndim != 4 or 0 in w.shape:
        raise ValueError(f"conv2d weights must be [Cout, Cin / groups, kh, kw], got {list(w.shape)}")
    out_channels, each_in, kernel_rows, kernel_columns = w.shape
    if bias.shape != (out_channels,):
        raise ValueError(f"conv2d bias must be [{out_channels}], got {list(bias.shape)}")
    if groups < 1 or out_channels % groups:
        raise ValueError(f"conv2d: {out_channels} output channels cannot be cut into {groups} groups")
    kernel = (kernel_rows, kernel_columns)
    layout = packed_layout(each_in * groups, out_channels, kernel, groups, PARTITIONS)
    columns = []
    for section in layout.sections:
        filters = np.zeros((section.channels_out, section.channels_in, *kernel), w.dtype)
        count = section.channels_in // each_in
        each_out = section.channels_out // count
        for group in range(count):
            group_outputs = slice(group * each_out, (group + 1) * each_out)
            filters[group_outputs, group * each_in : (group + 1) * each_in] = w[section.first_out :][group_outputs]
        columns += _pack_section(filters, layout.taps, layout.rows, PARTITIONS)
    blocks = output_blocks(layout.sections, PARTITIONS)
    bias_packed = np.zeros((len(blocks), blocks[0][1]), np.float32)
    for number, (first, count) in enumerate(blocks):
        bias_packed[number, :count] = bias[first : first + count]
    return np.ascontiguousarray(np.concatenate(columns, axis=1)), np.ascontiguousarray(bias_packed.T)


def pack_images(w: NDArray[Any], order: OutputOrder, taps: Taps, block: int) -> NDArray[Any]:
    """Convert filters for images packed along the partition axis; return [rows, steps * outputs].

    `w` is [order.rows * order.channels, Cin, kh, kw], with the filter rows outermost. Rows of the result are ordered
    (image, channel) of the input; the weights between different images are zero. Columns are grouped into blocks of
    `block` outputs in the order defined by `order`, each ordered (step, output). `taps` is the result of
    `taps_in_partitions`.
    """
    in_channels, *kernel = w.shape[1:]
    together = order.phases * order.images
    filters = np.zeros((together, len(w), together, in_channels, *kernel), w.dtype)
    for image in range(together):
        filters[image, :, image] = w
    apart = filters.reshape(order.phases, order.images, order.rows, order.channels, together * in_channels, *kernel)
    filters = apart.swapaxes(1, 2).reshape(together * len(w), together * in_channels, *kernel)
    rows = taps.used_partitions(together * in_channels)
    return np.concatenate(_pack_section(filters, taps, rows, block), axis=1)


def _pack_section(filters: NDArray[Any], taps: Taps, rows: int, block: int) -> list[NDArray[Any]]:
    """Return the blocks of one section, [rows, steps * output channels] each, from its filters [Cout, Cin, kh, kw]."""
    out_channels, in_channels, kernel_rows, kernel_columns = filters.shape
    tap_rows, tap_columns, stride = taps.rows, taps.columns, taps.stride
    row_steps, column_steps = -(-kernel_rows // tap_rows), -(-kernel_columns // tap_columns)
    padded = np.zeros((out_channels, in_channels, row_steps * tap_rows, kernel_columns), filters.dtype)
    padded[:, :, :kernel_rows] = filters
    # [Cout, Cin, p, a, q, b] -> [a, b, Cin, p, q, Cout]
    split = padded.reshape(out_channels, in_channels, row_steps, tap_rows, column_steps, tap_columns)
    split = split.transpose(3, 5, 1, 2, 4, 0)
    tap_channels = max(stride, in_channels)
    stationary = np.zeros((tap_rows * tap_columns, tap_channels, row_steps * column_steps, out_channels), filters.dtype)
    stationary[:, :in_channels] = split.reshape(tap_rows * tap_columns, in_channels, -1, out_channels)
    filled_rows = stationary.reshape(-1, *stationary.shape[2:])
    laid_out = np.zeros((rows, *filled_rows.shape[1:]), filters.dtype)
    laid_out[: min(rows, len(filled_rows))] = filled_rows[:rows]
    return [laid_out[:, :, first : first + block].reshape(rows, -1) for first in range(0, out_channels, block)]
