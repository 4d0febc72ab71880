"""Pooling from SBUF to SBUF, in bands of rows.

    for some images, tile of channels:
        for band of output rows:
            part = the rows that the windows read, copied with padding if they reach beyond the value
            result[band] = maxima, means or sums over the windows of part

| tile | shape | bounds |
|---|---|---|
| part | [channels, images, input rows, columns] | POOL_ELEMENTS of a partition per band |
| result | [channels, images, band, output columns] | 128 channels |
"""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl

from ..pooling import POOL_ELEMENTS, average_pool_tile, lowest, max_pool_tile, pool_band, sum_pool_tile
from ..program import NO_SIDES, AveragePool, MaxPool
from ..tiling.tiles import even_tiles
from ..tiling.windows import Window, fill_border, input_span, make_sweep, whole


def pool_maxima(launch, number, operation: MaxPool, operands):
    """Compute the maxima of windows."""
    fill = lowest(launch.dtype)

    def fold(target, data, rows, columns, band):
        max_pool_tile(target, data, rows, columns, band)

    return _pool(launch, operation, operands[0], fill, fold)


def pool_means(launch, number, operation: AveragePool, operands):
    """Compute the means of windows."""

    def fold(target, data, rows, columns, band):
        if operation.is_sum:
            sum_pool_tile(target, data, rows, columns, band)
        else:
            average_pool_tile(target, data, rows, columns, band, operation.count_include_pad)

    return _pool(launch, operation, operands[0], 0.0, fold)


def _pool(launch, operation, value, fill, fold):
    output = launch.output_of(operation, value.heights)
    top, left, bottom, right = operation.padding
    kernel, stride, dilation = operation.kernel, operation.stride, operation.dilation
    window = Window(kernel[0], stride[0], dilation[0], (top, bottom), operation.ceil_mode)
    rows = make_sweep("rows", value.rows, window)
    window = Window(kernel[1], stride[1], dilation[1], (left, right), operation.ceil_mode)
    columns = replace(make_sweep("columns", value.columns, window), phases=value.column_phases)
    across = input_span(columns, whole(columns.outputs), whole(columns.size))
    end = across.size - across.head - across.tail
    is_apart = value.column_phases > 1  # True if the padding is the value's zero margin, which is never the maximum
    tail = input_span(rows, whole(rows.outputs), whole(rows.size)).tail
    margins = (top, 0, tail, 0) if is_apart else NO_SIDES
    most = max(1, POOL_ELEMENTS // (value.rows * across.size))  # images that are pooled together
    for images in even_tiles(value.images, most):
        line = images.size * across.size
        for t in range(len(value.tiles)):
            result = output.inside(t)[:, images.start : images.end]
            data = value.inside(t, margins)[:, images.start : images.end]
            for band in even_tiles(rows.outputs, pool_band(line, rows.reach, rows.stride)):
                down = input_span(rows, band, whole(rows.size))
                first = down.start + (top if is_apart else down.head)
                part = data[:, :, first : first + down.size - (0 if is_apart else down.head + down.tail)]
                if not is_apart:
                    part = part[:, :, :, 0:end]
                    if down.head + down.tail + across.head + across.tail > 0:
                        part = _padded(part, down, across, fill)
                fold(result[:, :, band.start : band.end], part, rows, columns, band)
    return output


def _padded(data, rows, columns, fill):
    """Return a copy of [partitions, images, rows, columns], padded as two spans specify."""
    copy = nl.ndarray((*data.shape[:2], rows.size, columns.size), dtype=data.dtype, buffer=nl.sbuf)
    fill_border(copy, rows, columns, fill)
    bottom, right = rows.size - rows.tail, columns.size - columns.tail
    nisa.tensor_copy(dst=copy[:, :, rows.head : bottom, columns.head : right], src=data, engine=nisa.engine.gpsimd)
    return copy
