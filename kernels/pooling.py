"""Maxima and means over windows of images: [B, C, H, W] -> [B, C, H', W'].

Each plane (one channel of an image) is on one partition. Several small planes share a partition, so that each partition
reads one contiguous run of HBM. The Vector Engine reduces windows first along columns, processing whole rows, and then
along rows. A k x k window takes 2k - 2 passes over progressively fewer elements instead of k * k passes. The first
passes read adjacent elements, for which 16-bit maxima run at twice the rate. Means are computed from float32 sums,
which the Scalar Engine multiplies by the reciprocal of the window size while casting to the dtype of the output.

`max_pool_tile` and `average_pool_tile` pool tiles in SBUF; `average_pool` is a separate kernel.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import check_dtype, copy_by_hardware, even_tiles, row_groups, sbuf_tile
from .tiling.windows import (
    CHUNK,
    OutputBlock,
    Window,
    column_tap,
    cut_into_blocks,
    fold_columns,
    fold_rows,
    input_span,
    load_padded,
    make_sweep,
    whole,
)

POOL_ELEMENTS = 2048  # elements of a partition that are pooled together: about 2 us of work for the Vector Engine
SUMMED_ELEMENTS = 1024  # elements of a partition that are summed together for the mean of an image


def pool_band(line, reach, stride):
    """Return the number of output rows that are pooled together in SBUF, while the previous operation computes more
    rows.

    `line` is the number of elements of a partition in a row of the input, over all images; a window spans `reach` rows.
    """
    return max(1, (POOL_ELEMENTS // line - reach) // stride + 1)


def lowest(dtype):
    """Return the lowest finite number of a dtype, which is used to pad the input of maxima."""
    if dtype == nl.float32:
        return -3.4028234663852886e38
    if dtype == nl.bfloat16:
        return -3.3895313892515355e38
    return -65504.0


def max_pool_tile(dst, data, rows, columns, band):
    """Compute the maxima over a band of windows of a tile whose padding is filled with `lowest`.

    dst: [partitions, images, rows of the band, W'] in SBUF. data: [partitions, images, rows, columns] in SBUF or PSUM,
    the rows and columns that the sweeps `rows` and `columns` read for `band`, a range of output rows.
    """
    down = fold_rows(data, "maximum", rows, band.size, rows.size, data.dtype)
    if columns.size == 1:
        nisa.tensor_copy(dst=dst, src=column_tap(down, columns, columns.outputs, 0), engine=nisa.engine.vector)
    else:
        fold_columns(down, "maximum", columns, columns.outputs, data.dtype, dst)


def average_pool_tile(dst, data, rows, columns, band, count_include_pad):
    """Compute the means over a band of windows of a tile that includes zero padding.

    See `max_pool_tile` for the shapes.
    """
    sums = _sum_windows(data, rows, columns, band)
    _store_means(dst, sums, rows, columns, OutputBlock(band, whole(columns.outputs)), count_include_pad)


def sum_pool_tile(dst, data, rows, columns, band):
    """Compute the sums over a band of windows without padding, like `average_pool_tile`."""
    if _is_whole(data, rows, columns):
        _sum_images(dst, data)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=_sum_windows(data, rows, columns, band))


def _is_whole(data, rows, columns):
    """True if the tile is a single window."""
    return rows.outputs == 1 and columns.outputs == 1 and data.shape[2:] == (rows.size, columns.size)


def _sum_windows(data, rows, columns, band):
    """Compute the sums over a band of windows, float32 [partitions, images, rows of the band, W']."""
    if _is_whole(data, rows, columns):
        sums = nl.ndarray((data.shape[0], data.shape[1], 1, 1), dtype=nl.float32, buffer=nl.sbuf)
        _sum_images(sums, data)
        return sums
    down = fold_rows(data, "add", rows, band.size, rows.size, nl.float32)
    return fold_columns(down, "add", columns, columns.outputs, nl.float32)


def _sum_images(sums, data):
    """Compute the sum over the rows and columns of a tile: [partitions, images, 1, 1].

    Large images are summed in bands of rows, while later rows are still being computed.
    """
    bands = even_tiles(data.shape[2], max(1, SUMMED_ELEMENTS // (data.shape[1] * data.shape[3])))
    if len(bands) == 1:
        nisa.tensor_reduce(dst=sums, op=nl.add, data=data, axis=(2, 3))
        return
    parts = nl.ndarray((data.shape[0], data.shape[1], len(bands), 1), dtype=nl.float32, buffer=nl.sbuf)
    for band in bands:
        part = parts[:, :, band.index : band.index + 1]
        nisa.tensor_reduce(dst=part, op=nl.add, data=data[:, :, band.start : band.end], axis=(2, 3))
    nisa.tensor_reduce(dst=sums, op=nl.add, data=parts, axis=(2, 3))


def window_count(sweep, output, count_include_pad):
    """Count the taps of a window that contribute to its mean: those in the image, or in the image and the padding."""
    first = output * sweep.stride - sweep.before
    end = sweep.extent
    begin = max(0, -first)
    if count_include_pad:
        end = sweep.extent + sweep.after
        begin = 0
    skipped = (begin + sweep.dilation - 1) // sweep.dilation
    return min(sweep.size, (end - 1 - first) // sweep.dilation + 1) - skipped


def _uneven_runs(sweep, outputs, count_include_pad):
    """Return [first, end, count] for each run of outputs whose windows extend past the edge and therefore have fewer
    taps."""
    runs = []
    first = 0
    count = window_count(sweep, outputs.start, count_include_pad)
    for position in range(1, outputs.size + 1):
        following = -1
        if position < outputs.size:
            following = window_count(sweep, outputs.start + position, count_include_pad)
        if following != count:
            assert count > 0, (
                f"the window of output {outputs.start + first} contains only padding, so its mean is undefined"
            )
            if count < sweep.size:
                runs.append([first, position, count])
            first = position
            count = following
    return runs


def _store_means(dst, sums, rows, columns, block, count_include_pad):
    """Compute the means of a block of windows from their sums [partitions, images, rows, columns], and store them.

    Windows at the border have fewer taps.
    """
    pixels = rows.size * columns.size
    for run in _uneven_runs(rows, block.rows, count_include_pad):
        part = sums[:, :, run[0] : run[1], :]
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=rows.size / run[2])
    for run in _uneven_runs(columns, block.columns, count_include_pad):
        part = sums[:, :, :, run[0] : run[1]]
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=columns.size / run[2])
    nisa.activation(dst=dst, op=nl.copy, data=sums, scale=1.0 / pixels)


def _sum_block(planes, block, rows, columns, taps):
    """Sum the windows of a block of planes [partitions, planes per partition, H, W] in HBM.

    The result has the same axes, in float32.
    """
    across = input_span(columns, block.columns, whole(columns.size))
    down = None
    for piece in taps:
        data = load_padded(planes, input_span(rows, block.rows, piece), across, 0.0)
        part = fold_rows(data, "add", rows, block.rows.size, piece.size, nl.float32)
        if down is not None:
            total = nl.ndarray(part.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=total, data1=down, data2=part, op=nl.add)
            part = total
        down = part
    return fold_columns(down, "add", columns, block.columns.size, nl.float32)


def _check(x):
    assert len(x.shape) == 4, f"x must be [B, C, H, W], got shape {x.shape}"
    assert min(x.shape) > 0, f"x must not be empty, got shape {x.shape}"
    check_dtype("x", x)


def _sweeps(x, window, stride, padding, dilation, ceil_mode):
    """Return the sweeps of a window over the rows and the columns of x."""
    top, left, bottom, right = padding
    down = Window(window[0], stride[0], dilation[0], (top, bottom), ceil_mode)
    across = Window(window[1], stride[1], dilation[1], (left, right), ceil_mode)
    rows, columns = make_sweep("rows", x.shape[2], down), make_sweep("columns", x.shape[3], across)
    assert max(top, bottom) < rows.reach and max(left, right) < columns.reach, (
        f"padding must be smaller than the {rows.reach}x{columns.reach} that a window spans, got {padding}"
    )
    return rows, columns


@nki.jit
def average_pool(
    x, window, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), ceil_mode=False, count_include_pad=False
):
    """Compute means over windows. A window as large as the image results in a global average pool.

    Dimensions:
        B, C, H, W: images, channels, height, width; H' and W' are the numbers of windows along H and W.
    Args:
        x: [B, C, H, W] in HBM; float32, bfloat16 or float16.
        window, stride, dilation: (rows, columns), each at least 1.
        padding: (top, left, bottom, right), smaller than the extent of a window.
        ceil_mode: whether the last window may extend past the padding, provided that it begins in the image or in the
            padding before it.
        count_include_pad: whether the mean of a window includes its taps in the padding, or only its taps in the image.
            Taps past the padding are never counted.
    Returns:
        [B, C, H', W'] in HBM, with the same dtype as x.
    Notes:
        Sums are float32.
    Pseudocode:
        for block of outputs:
            for group of planes:
                sums = windows summed over their rows and columns, loaded in pieces if a window is larger than a chunk
                store sums / number of taps
    """
    _check(x)
    rows, columns = _sweeps(x, window, stride, padding, dilation, ceil_mode)
    batch, channels, height, width = x.shape
    out = nl.ndarray((batch, channels, rows.outputs, columns.outputs), dtype=x.dtype, buffer=nl.shared_hbm)
    planes = x.reshape((batch * channels, height, width))
    results = out.reshape((batch * channels, rows.outputs, columns.outputs))
    blocks = cut_into_blocks(rows, columns)
    for block in blocks.outputs:
        for group in row_groups(batch * channels, max(1, CHUNK // blocks.elements)):
            shape = (group.partitions, group.rows)
            source = planes[group.start : group.end].reshape_dim(0, shape)
            sums = _sum_block(source, block, rows, columns, blocks.taps)
            result = sbuf_tile(sums.shape, x.dtype)
            _store_means(result, sums, rows, columns, block, count_include_pad)
            target = results[
                group.start : group.end, block.rows.start : block.rows.end, block.columns.start : block.columns.end
            ]
            copy_by_hardware(dst=target.reshape_dim(0, shape), src=result)
    return out
