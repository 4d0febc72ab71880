"""Average pooling with stride = window: [B, C, H, W] -> [B, C, H', W'].

A plane (a channel of an image) lies on one partition, small planes several to a partition, so that each partition
reads one contiguous run of HBM. The Vector Engine then sums all the windows of a tile in one reduction, over the two
inner axes of a view that puts each window's pixels last; the Scalar Engine multiplies by one over their number on the
way to the output's dtype. Windows too large for that, such as a global pool over a large image, are summed piece by
piece.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiles import Tile, check_dtype, even_tiles, group_view, row_groups, tiles

CHUNK = 4096  # elements of a partition at once: 16 KiB, so that several chunks are in flight in SBUF
MAX_WIDTH = 16384  # pixels of a row, which SBUF holds whole: 64 KiB of the 192 that a partition has at least


def _sum_windows(dst, data, height, width, window_width):
    """Sum the windows of `data`, [planes, rows of windows * height * width] on each partition: dst in float32."""
    partitions, rows, columns = dst.shape
    pixels = data.reshape((partitions, rows, height, width))[:, :, :, 0 : columns * window_width]
    windows = pixels.reshape_dim(3, (columns, window_width)).permute((0, 1, 3, 2, 4))
    nisa.tensor_reduce(dst=dst, op=nl.add, data=windows, axis=(3, 4))


def _store_mean(out, group, columns, sums, pixels):
    """Divide sums by the pixels of a window and store them as columns of a row group of the output."""
    mean = nl.ndarray(sums.shape, dtype=out.dtype, buffer=nl.sbuf)
    nisa.activation(dst=mean, op=nl.copy, data=sums, scale=1.0 / pixels)
    nisa.dma_copy(dst=group_view(out, group, columns), src=mean.reshape((group.partitions, group.rows, columns.size)))


def _pool_whole(out, x, width, window_height, window_width):
    """Tiles of whole rows of windows, of as many planes as fit: x [planes, H * W], out [planes, H' * W']."""
    out_columns = width // window_width
    strip = window_height * width  # pixels that a row of windows covers
    for rows in even_tiles(out.shape[1] // out_columns, CHUNK // strip):
        pixels = Tile(rows.index, rows.start * strip, rows.size * strip, rows.end * strip)
        results = Tile(rows.index, rows.start * out_columns, rows.size * out_columns, rows.end * out_columns)
        for group in row_groups(x.shape[0], CHUNK // pixels.size):
            data = nl.ndarray((group.partitions, group.rows, pixels.size), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=data, src=group_view(x, group, pixels))
            shape = (group.partitions, group.rows * rows.size, out_columns)
            sums = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
            _sum_windows(sums, data, window_height, width, window_width)
            _store_mean(out, group, results, sums, window_height * window_width)


def _pool_in_pieces(out, x, width, window_height, window_width):
    """A row of windows at a time, in pieces of a few rows of pixels: x [planes, H * W], out [planes, H' * W']."""
    out_columns = width // window_width
    for results in tiles(out.shape[1], out_columns):
        top = results.index * window_height
        for group in row_groups(x.shape[0], 1):
            shape = (group.partitions, 1, out_columns)
            sums = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
            for rows in even_tiles(window_height, max(1, CHUNK // width)):
                pixels = Tile(rows.index, (top + rows.start) * width, rows.size * width, (top + rows.end) * width)
                data = nl.ndarray((group.partitions, 1, pixels.size), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=data, src=group_view(x, group, pixels))
                if rows.index == 0:
                    _sum_windows(sums, data, rows.size, width, window_width)
                else:
                    part = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
                    _sum_windows(part, data, rows.size, width, window_width)
                    nisa.tensor_tensor(dst=sums, data1=sums, data2=part, op=nl.add)
            _store_mean(out, group, results, sums, window_height * window_width)


@nki.jit
def average_pool(x, window_height, window_width):
    """Average over windows that lie side by side; rows and columns left over are dropped.

    Dimensions:
        B, C, H, W: images, channels, height, width (at most 16384); H' = H // window_height, W' = W // window_width.
    Args:
        x: [B, C, H, W] in HBM; float32, bfloat16 or float16.
        window_height, window_width: 1 to H and 1 to W; H and W themselves make it a global pool.
    Returns:
        [B, C, H', W'] in HBM, of the dtype of x.
    Notes:
        Sums are float32.
    """
    assert len(x.shape) == 4, f"x must be [B, C, H, W], got shape {x.shape}"
    batch, channels, height, width = x.shape
    assert batch > 0 and channels > 0, f"x must not be empty, got shape {x.shape}"
    check_dtype("x", x)
    assert width <= MAX_WIDTH, f"x must be at most {MAX_WIDTH} wide, got shape {x.shape}"
    fits = window_height >= 1 and window_height <= height and window_width >= 1 and window_width <= width
    assert fits, f"windows must be 1x1 to {height}x{width}, as x is, got {window_height}x{window_width}"
    out_shape = (batch, channels, height // window_height, width // window_width)
    out = nl.ndarray(out_shape, dtype=x.dtype, buffer=nl.shared_hbm)
    planes = x.reshape((batch * channels, height * width))
    results = out.reshape((batch * channels, out_shape[2] * out_shape[3]))
    if window_height * width <= CHUNK:
        _pool_whole(results, planes, width, window_height, window_width)
    else:
        _pool_in_pieces(results, planes, width, window_height, window_width)
    return out
