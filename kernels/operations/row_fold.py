"""Values whose rows are in groups of F along the partitions: [F C, images, groups, columns].

Group r of a value with offset o contains the image rows starting at F r - o: the first row on partitions [0, C), the
next on [C, 2 C), and so on. Convolutions of such values are ordinary convolutions. This module implements the
differences: rows outside the image, and pooling over groups of two rows.
"""

from dataclasses import replace

import nki.isa as nisa
import nki.language as nl

from ..program import RowFold, RowFoldPool
from ..tiling.tiles import PARTITIONS, even_tiles
from ..tiling.windows import Window, fold_columns, make_sweep
from .value import copy_down

BAND_ELEMENTS = 1024  # elements of a partition pooled per band: about 1.1 us


def blank_rows(groups: RowFold, value):
    """Set the rows of the first and last groups that are outside the image to zero."""
    if value.hbm is None and groups.above + groups.below > 0:
        for t, height in enumerate(value.heights):
            blank_tile(groups, value.inside(t), height // groups.count, value.rows)


def blank_tile(groups: RowFold, tile, each, rows):
    """Set the rows of a tile [channels, images, groups, columns] that are outside the image to zero.

    `rows` is the number of groups in the tile, and `each` is the number of channels in each row.
    """
    if groups.above > 0:
        nisa.memset(dst=tile[0 : groups.above * each, :, 0:1], value=0.0, engine=nisa.engine.gpsimd)
    start, end = (groups.count - groups.below) * each, groups.count * each
    while start < end:  # engines can write all partitions from 0, half from the second half, else a quarter
        size = PARTITIONS // 2 if start % (PARTITIONS // 2) == 0 else PARTITIONS // 4
        last = tile[start : min(start + size, end), :, rows - 1 : rows]
        nisa.memset(dst=last, value=0.0, engine=nisa.engine.gpsimd)
        start += size


def pool_row_fold(launch, number, operation: RowFoldPool, operands):
    """Compute maxima of windows with a row stride of 2.

    Bands of a few rows are pooled while the next rows are computed.

    The values are nonnegative, so the zero padding never exceeds the maximum.
    """
    (value,) = operands
    output = launch.output_of(operation, [operation.channels])
    result, data = output.inside(0)[0 : output.heights[0]], value.inside(0, operation.padding)
    _, images, rows, columns = result.shape
    sides = (operation.padding[1], operation.padding[3])
    window = Window(operation.kernel[1], operation.stride[1], operation.dilation[1], sides)
    sweep = replace(make_sweep("columns", value.columns, window), phases=value.column_phases)
    for part in even_tiles(images, max(1, BAND_ELEMENTS // (rows * columns))):
        image_data, pooled = data[:, part.start : part.end], result[:, part.start : part.end]
        for band in even_tiles(rows, max(1, BAND_ELEMENTS // (part.size * columns))):
            _pool_band(operation, pooled, image_data, sweep, band)
    blank_rows(operation.row_fold, output)
    copy_down(operation.copies, output)
    return output


def _pool_band(operation, result, data, sweep, band):
    """Pool a band of rows or row groups of the result. `sweep`: the sweep of the window over the columns."""
    start, offset = operation.start, operation.offset
    taps = 1 if offset < 0 else 2
    before = start // 2 + operation.padding[0]
    top = max(0, before + taps * band.start - max(0, offset))  # the first group that the windows read
    bottom = (start + operation.kernel[0] - 1) // 2 + operation.padding[0] + taps * band.end - max(0, offset)
    folded = fold_columns(data[:, :, top : min(bottom, data.shape[2])], "maximum", sweep, result.shape[3], data.dtype)
    half = data.shape[0] // 2
    # Both operands of the Vector Engine must start at the same partition, so the second rows are copied to the
    # partitions of the first rows.
    seconds = nl.ndarray((half, *folded.shape[1:]), dtype=data.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=seconds, src=folded[half : 2 * half])
    halves = (folded[0:half], seconds)
    if offset < 0:
        _fold_rows(result[:, :, band.start : band.end], halves, operation, (band.start, 1, band.size, top))
        return
    for second in range(2):
        blank = operation.row_fold.above if second == 0 else 0
        first = max(band.start, blank)  # first group whose row in this half is inside the image
        row = 2 * first - offset + second
        count = min(band.end - first, (operation.image_rows - row + 1) // 2)
        if count > 0:
            target = result[second * half : (second + 1) * half, :, first : first + count]
            _fold_rows(target, halves, operation, (row, 2, count, top))


def _fold_rows(target, halves, operation, outputs):
    """Reduce the rows of windows.

    `halves`: the first and second rows of the groups, starting at group `top`. `outputs`: (first, step, count, top).
    """
    row, step, count, top = outputs
    before = None
    for tap in range(operation.kernel[0]):
        down, side = divmod(operation.start + tap, 2)
        down += operation.padding[0] + row - top
        data = halves[side][:, :, down : down + (count - 1) * step + 1 : step]
        if before is None:
            before = data
        else:
            last = tap == operation.kernel[0] - 1
            largest = target if last else nl.ndarray(target.shape, dtype=target.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=largest, data1=before, data2=data, op=nl.maximum)
            before = largest
