"""Normalisation: over the channels of each pixel by layer norm and local response, over rows by log-softmax.

Channels lie on the partitions, and a sum over partitions is what the Tensor Engine does: a matrix of ones sums up all
channels and leaves the sum on every partition at once, one of ones in a band the channels around each. Sums are
float32, and where there are more channels than partitions, their tiles add up in PSUM.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import PARTITIONS, ceil_div, check_dtype, check_matrix, even_tiles, group_view, row_groups, tiles
from .tiling.windows import whole

NORM_ELEMENTS = 6144  # of a partition, of all channels' tiles: 24 KiB, so that some four forms of them fit SBUF at once
LONGEST_ROW = 12288  # of a log-softmax: three float32 forms of it fit a partition, 144 of the 192 KiB of trn1
MAX_CHANNELS = 1 << 16


def norm_block(tiles):
    """Return the pixels, of all images, that layer norm computes at a time of so many tiles of channels: a PSUM bank,
    or fewer."""
    return max(1, min(nl.tile_size.psum_bank_fmax, NORM_ELEMENTS // tiles))


def _check(x):
    """Assert what both kernels take; x as [B, C, pixels]."""
    assert len(x.shape) == 4 or len(x.shape) == 2, f"x must be [B, C, H, W] or [B, C], got shape {x.shape}"
    assert x.shape[1] <= MAX_CHANNELS, f"x must have at most {MAX_CHANNELS} channels, got {x.shape[1]}"
    check_dtype("x", x)
    pixels = x.shape[2] * x.shape[3] if len(x.shape) == 4 else 1
    return x.reshape((x.shape[0], x.shape[1], pixels))


def _blocks(x):
    """(images, pixels) tiles of x [B, C, pixels], each of as many pixels as `norm_block` says."""
    most = norm_block(ceil_div(x.shape[1], PARTITIONS))
    blocks = []
    for pixels in even_tiles(x.shape[2], most):
        for images in even_tiles(x.shape[0], most // pixels.size):
            blocks.append((images, pixels))
    return blocks


def _view(x, block, channels):
    """A block of some channels of x [B, C, pixels] in HBM, as [channels, images, pixels]."""
    images, pixels = block
    part = x[images.start : images.end, channels.start : channels.end, pixels.start : pixels.end]
    return part.permute((1, 0, 2))


def _load(x, block):
    """All channels of a block as tiles [channels, images, 1, pixels], of up to 128 channels each."""
    loaded = []
    for channels in tiles(x.shape[1], PARTITIONS):
        view = _view(x, block, channels)
        data = nl.ndarray(view.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=data, src=view)
        loaded.append(data.expand_dim(2))
    return loaded


def _store(out, block, index, result):
    """Store a tile of channels of a block."""
    channels = tiles(out.shape[1], PARTITIONS)[index]
    view = _view(out, block, channels)
    nisa.dma_copy(dst=view, src=result.reshape(view.shape))


def _column(vector, channels):
    column = nl.ndarray((channels.size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=vector[channels.start : channels.end].reshape((channels.size, 1)))
    return column


def _tile_of(value, partitions, columns, dtype=nl.float32):
    """A tile that holds one number all over."""
    tile = nl.ndarray((partitions, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=value, engine=nisa.engine.gpsimd)
    return tile


def layer_norm_tiles(results, tiles_of_channels, ones, channels, numbers):
    """Normalise tiles [channels, images, rows, columns] over all channels of each pixel, into `results` of any dtype.

    ones: two matrices, of the tiles' dtype and float32, one where two partitions are of one image: for all tiles [128,
    128], or of a single tile with several packed images. channels: of an image. numbers: scales and shifts, float32
    columns of each tile, and epsilon, a float32 column [128, 1].
    """
    scales, shifts, epsilon = numbers
    sums = _sum_over_channels(tiles_of_channels, ones[0])
    centred = []
    squares = []
    for tile in tiles_of_channels:
        difference = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=difference,
            data=sums[0 : tile.shape[0]],
            op0=nl.multiply,
            operand0=1.0 / channels,
            op1=nl.subtract,
            operand1=tile,
            reverse1=True,
        )
        square = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=square, op=nl.square, data=difference)
        centred.append(difference)
        squares.append(square)
    variance = _sum_over_channels(squares, ones[1])
    deviation = nl.ndarray(variance.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=deviation, op=nl.rsqrt, data=variance, scale=1.0 / channels, bias=epsilon[0 : ones[1].shape[1]])
    for index in range(len(centred)):
        count = centred[index].shape[0]
        normal = nl.ndarray(centred[index].shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=normal, data1=centred[index], data2=deviation[0:count], op=nl.multiply)
        nisa.activation(dst=results[index], op=nl.copy, data=normal, scale=scales[index], bias=shifts[index])


def _sum_over_channels(tiles_of_channels, ones):
    """ones^T @ channels: float32 [columns of ones, images, rows, columns] in PSUM."""
    _, images, rows, columns = tiles_of_channels[0].shape
    sums = nl.ndarray((ones.shape[1], images, rows, columns), dtype=nl.float32, buffer=nl.psum)
    for index in range(len(tiles_of_channels)):
        tile = tiles_of_channels[index]
        nisa.nc_matmul(dst=sums, stationary=ones[0 : tile.shape[0]], moving=tile, accumulate=index > 0)
    return sums


@nki.jit
def layer_norm(x, scale, shift, epsilon=1e-5):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift, over the channels of each pixel.

    Dimensions:
        B, C, H, W: images, channels, height, width; C at most 65536.
    Args:
        x: [B, C, H, W] or [B, C] in HBM; float32, bfloat16 or float16.
        scale, shift: [C] in HBM, float32 or of the dtype of x.
        epsilon: above 0.
    Returns:
        The shape and dtype of x, in HBM.
    Notes:
        The variance is that of differences from the mean, so that a large mean costs no digits.
    """
    source = _check(x)
    channels = x.shape[1]
    for vector in (scale, shift):
        assert len(vector.shape) == 1 and vector.shape[0] == channels, (
            f"scale and shift must be [{channels}], got shape {vector.shape}"
        )
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    target = out.reshape(source.shape)
    scales, shifts = [], []
    for part in tiles(channels, PARTITIONS):
        scales.append(_column(scale, part))
        shifts.append(_column(shift, part))
    ones = []
    for dtype in (x.dtype, nl.float32):
        ones.append(_tile_of(1.0, PARTITIONS, PARTITIONS, dtype))
    small = _tile_of(epsilon, PARTITIONS, 1)
    for block in _blocks(source):
        loaded = _load(source, block)
        results = []
        for tile in loaded:
            results.append(nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf))
        layer_norm_tiles(results, loaded, ones, channels, (scales, shifts, small))
        for index in range(len(results)):
            _store(target, block, index, results[index])
    return out


def write_band(first, channels, onto, count, around):
    """Which of `channels` channels from `first` on count for each of `count` channels from `onto` on: those at most
    `around` away. A float32 matrix [channels, count] of ones and zeros."""
    band = _tile_of(1.0, channels, count)
    distance = first - onto  # of channel p from output channel j: distance + p - j
    above = nl.ndarray(band.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=above,
        pattern=[[-1, count]],
        channel_multiplier=1,
        on_true_tile=band,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
        offset=distance + around,
    )
    both = nl.ndarray(band.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=both,
        pattern=[[-1, count]],
        channel_multiplier=1,
        on_true_tile=above,
        on_false_value=0.0,
        cmp_op=nl.less_equal,
        offset=distance - around,
    )
    return both


@nki.jit
def local_response_norm(x, size, alpha, beta, bias):
    """x / (bias + alpha / size * sum of squares of the `size` channels around each) ** beta.

    Dimensions:
        B, C, H, W: images, channels, height, width.
    Args:
        x: [B, C, H, W] in HBM; float32, bfloat16 or float16.
        size: odd, at most 255; channels outside the image count as 0.
        alpha, beta, bias: numbers; bias above 0.
    Returns:
        The shape and dtype of x, in HBM.
    """
    assert size >= 1 and size % 2 == 1 and size <= 255, f"size must be odd, 1 to 255, got {size}"
    source = _check(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    target = out.reshape(source.shape)
    bands = response_bands(tiles(x.shape[1], PARTITIONS), size)
    for block in _blocks(source):
        loaded = _load(source, block)
        results = [nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf) for tile in loaded]
        local_response_tiles(results, loaded, bands, alpha / size, beta, bias)
        for index in range(len(results)):
            _store(target, block, index, results[index])
    return out


def response_bands(parts, size):
    """Return of each tile of channels its neighbours and itself: [index, matrix] of the channels that count for it."""
    return [
        [
            [other.index, write_band(other.start, other.size, part.start, part.size, size // 2)]
            for other in parts[max(0, part.index - 1) : part.index + 2]
        ]
        for part in parts
    ]


def local_response_tiles(results, tiles_of_channels, bands, factor, beta, bias):
    """Divide tiles [channels, images, rows, columns], at most a PSUM bank each, by their responses, into `results`.

    bands: as `response_bands` returns them. factor: alpha / size.
    """
    squares = []
    for tile in tiles_of_channels:
        square = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=square, op=nl.square, data=tile)
        squares.append(square)
    for index in range(len(tiles_of_channels)):
        _divide_by_response(results[index], tiles_of_channels[index], squares, bands[index], factor, beta, bias)


def _divide_by_response(result, tile, squares, bands, factor, beta, bias):
    """result = tile / (bias + factor * banded sum of squares) ** beta, [channels, pixels]."""
    sums = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.psum)
    for position in range(len(bands)):
        index, band = bands[position]
        nisa.nc_matmul(dst=sums, stationary=band, moving=squares[index], accumulate=position > 0)
    response = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=response, data=sums, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=bias)
    nisa.tensor_scalar(dst=response, data=response, op0=nl.power, operand0=-beta)
    nisa.tensor_tensor(dst=result, data1=tile, data2=response, op=nl.multiply)


@nki.jit
def log_softmax(x):
    """Logarithms of the softmax of each row.

    Args:
        x: [N, C] in HBM, C at most 12288; float32, bfloat16 or float16.
    Returns:
        [N, C] in HBM, of the dtype of x. Everything between load and store is float32.
    """
    check_matrix("x", x)
    rows, width = x.shape
    assert width <= LONGEST_ROW, f"x must have at most {LONGEST_ROW} columns, got {width}"
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for group in row_groups(rows, max(1, 2048 // width)):
        shape = (group.partitions, group.rows, width)
        data = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=data, src=group_view(x, group, whole(width)))
        largest = nl.ndarray((group.partitions, group.rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=data, axis=2, keepdims=True)
        result = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        log_softmax_tile(result, data, largest)
        nisa.dma_copy(dst=group_view(out, group, whole(width)), src=result)
    return out


def log_softmax_tile(dst, data, largest):
    """Logarithms of the softmax of rows in SBUF: dst and data [partitions, rows, columns], the rows' maxima `largest`
    [partitions, rows, 1], float32."""
    partitions, rows, width = data.shape
    shifted = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=shifted, data1=data, data2=largest.broadcast(2, width), op=nl.subtract)
    grown = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=grown, op=nl.exp, data=shifted)
    sums = nl.ndarray((partitions, rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=grown, axis=2, keepdims=True)
    nisa.activation(dst=sums, op=nl.log, data=sums)
    nisa.tensor_tensor(dst=dst, data1=shifted, data2=sums.broadcast(2, width), op=nl.subtract)
