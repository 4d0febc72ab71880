"""Values of few channels whose rows lie in groups of F on the partitions: [F C, images, groups of rows, columns].

Group r of a value of offset o holds the rows from F r - o on of the image, the first on partitions [0, C), the next on
[C, 2 C) and so on. Convolutions of such values are convolutions; here is what is not: rows that are none of the image,
and pools of pairs.
"""

import nki.isa as nisa
import nki.language as nl

from ..tiling.tiles import even_tiles
from ..tiling.windows import fold_columns, make_sweep
from .layers import whole_tile

BAND_ELEMENTS = 1024  # of a partition that are pooled at a time: some 1.1 us


def blank_rows(layer, value):
    """Zeros in the rows of the first and of the last group that are above and below the image."""
    above, below, rows = layer.blank
    each = layer.channels // rows
    if above > 0:
        nisa.memset(dst=whole_tile(value, 0)[0 : above * each, :, 0:1], value=0.0, engine=nisa.engine.gpsimd)
    for row in range(rows - below, rows):
        last = whole_tile(value, 0)[row * each : (row + 1) * each, :, layer.rows - 1 : layer.rows]
        nisa.memset(dst=last, value=0.0, engine=nisa.engine.gpsimd)


def pool_pairs(layer, result, data, columns):
    """Maxima of windows that move on by two rows; numbers are 0 or more, so that zeros around them are no maximum.

    result: [C, images, rows, columns] or, in pairs of rows, [2 C, images, pairs, columns]; data: [2 C, images, pairs,
    columns] with the zeros that the windows reach, `columns` of them in the image. A few rows are pooled at a time,
    while the next ones are computed.
    """
    most = max(1, BAND_ELEMENTS // (result.shape[1] * result.shape[3]))
    for band in even_tiles(result.shape[2], most):
        _pool_band(layer, result, data, columns, band)


def _pool_band(layer, result, data, columns, band):
    """A band of the rows, or pairs of rows, of the result."""
    sweep = make_sweep(
        "columns",
        columns,
        layer.kernel[1],
        layer.stride[1],
        layer.dilation[1],
        layer.padding[1],
        layer.padding[3],
        False,
    )
    start, offset, rows = layer.fold
    each = 1 if offset < 0 else 2
    before = start // 2 + layer.padding[0]
    top = max(0, before + each * band.start - max(0, offset))  # of the pairs that the windows reach
    bottom = (start + layer.kernel[0] - 1) // 2 + layer.padding[0] + each * band.end - max(0, offset)
    folded = fold_columns(data[:, :, top : min(bottom, data.shape[2])], "maximum", sweep, sweep.outputs, data.dtype)
    half = data.shape[0] // 2
    # The Vector Engine reads two tensors from the same partition on, so the second rows come beside the first.
    shape = (half, folded.shape[1], folded.shape[2], folded.shape[3])
    seconds = nl.ndarray(shape, dtype=data.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=seconds, src=folded[half : 2 * half])
    halves = (folded[0:half], seconds)
    if offset < 0:
        _fold_rows(result[:, :, band.start : band.end], halves, layer, (band.start, 1, band.size, top))
        return
    for second in range(2):
        first = max(band.start, offset if second == 0 else 0)  # pair whose row of that half is the first in the image
        row = 2 * first - offset + second
        count = min(band.end - first, (rows - row + 1) // 2)
        if count > 0:
            target = result[second * half : (second + 1) * half, :, first : first + count]
            _fold_rows(target, halves, layer, (row, 2, count, top))


def _fold_rows(target, halves, layer, outputs):
    """Rows of windows: halves are the first and the second rows of the pairs from `top` on; outputs (first, step,
    count, top)."""
    row, step, count, top = outputs
    start = layer.fold[0]
    before = None
    for tap in range(layer.kernel[0]):
        side = (start + tap) % 2
        down = (start + tap) // 2 + layer.padding[0] + row - top
        data = halves[side][:, :, down : down + (count - 1) * step + 1 : step]
        if before is None:
            before = data
        else:
            last = tap == layer.kernel[0] - 1
            largest = target if last else nl.ndarray(target.shape, dtype=target.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=largest, data1=before, data2=data, op=nl.maximum)
            before = largest
