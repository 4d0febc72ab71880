"""Values of few channels whose rows lie in pairs on the partitions: [2 C, images, pairs of rows, columns].

Pair r of a value of offset o holds rows 2r - o and 2r - o + 1 of the image, the first on partitions [0, C), the second
on [C, 2 C). Convolutions of such values are convolutions; here is what is not.
"""

import nki.isa as nisa
import nki.language as nl

from ..tiling.windows import fold_columns, make_sweep
from .layers import whole_tile


def blank_rows(layer, value):
    """Zeros in the rows of the first and of the last pair that are above and below the image."""
    half = layer.channels // 2
    if layer.blank[0]:
        nisa.memset(dst=whole_tile(value, 0)[0:half, :, 0:1], value=0.0, engine=nisa.engine.gpsimd)
    if layer.blank[1]:
        last = whole_tile(value, 0)[half : 2 * half, :, layer.rows - 1 : layer.rows]
        nisa.memset(dst=last, value=0.0, engine=nisa.engine.gpsimd)


def pool_pairs(layer, result, data, columns):
    """Maxima of windows that move on by two rows; numbers are 0 or more, so that zeros around them are no maximum.

    result: [C, images, rows, columns] or, in pairs of rows, [2 C, images, pairs, columns]; data: [2 C, images, pairs,
    columns] with the zeros that the windows reach, `columns` of them in the image.
    """
    sweep = make_sweep(
        "columns", columns, layer.kernel[1], layer.stride[1], 1, layer.padding[1], layer.padding[3], False
    )
    folded = fold_columns(data, "maximum", sweep, sweep.outputs, data.dtype)
    offset, rows = layer.fold[1], layer.fold[2]
    half = data.shape[0] // 2
    # The Vector Engine reads two tensors from the same partition on, so the second rows come beside the first.
    shape = (half, folded.shape[1], folded.shape[2], folded.shape[3])
    seconds = nl.ndarray(shape, dtype=data.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=seconds, src=folded[half : 2 * half])
    halves = (folded[0:half], seconds)
    if offset < 0:
        _fold_rows(result, halves, layer, (0, 1, rows))
        return
    for second in range(2):
        first = offset if second == 0 else 0  # pair whose row of that half is the first in the image
        row = 2 * first - offset + second
        count = (rows - row + 1) // 2
        if count > 0:
            target = result[second * half : (second + 1) * half, :, first : first + count]
            _fold_rows(target, halves, layer, (row, 2, count))


def _fold_rows(target, halves, layer, outputs):
    """Rows of windows: halves are the first and the second rows of the pairs, outputs (first, step, count)."""
    row, step, count = outputs
    start = layer.fold[0]
    before = None
    for tap in range(layer.kernel[0]):
        side = (start + tap) % 2
        down = (start + tap) // 2 + layer.padding[0] + row
        data = halves[side][:, :, down : down + (count - 1) * step + 1 : step]
        if before is None:
            before = data
        else:
            last = tap == layer.kernel[0] - 1
            largest = target if last else nl.ndarray(target.shape, dtype=target.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=largest, data1=before, data2=data, op=nl.maximum)
            before = largest
