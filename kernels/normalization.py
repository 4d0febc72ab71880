"""Normalization of tiles in SBUF: layer norm and local response norm of each pixel over its channels, and the
log-softmax of rows.

Channels are on the partitions, and the Tensor Engine sums over partitions. Multiplying by a matrix of ones sums all
channels and leaves the sum on every partition; multiplying by a band of ones sums the adjacent channels. Sums are
float32 and accumulate in PSUM if there are several tiles of channels.
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import sbuf_tile

# elements per partition over all tiles of channels: 24 KiB, so that about four copies of them fit in SBUF
NORM_ELEMENTS = 6144
GPSIMD_TURN = 5  # GpSimd multiplies one in this many tiles, since it is about this many times slower


def norm_block(tiles):
    """Return the number of pixels, over all images, that layer norm processes together if there are `tiles` tiles of
    channels. They fill at most a PSUM bank."""
    return max(1, min(nl.tile_size.psum_bank_fmax, NORM_ELEMENTS // tiles))


def _tile_of(value, partitions, columns, dtype=nl.float32):
    """Return a tile filled with one number."""
    tile = nl.ndarray((partitions, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=value, engine=nisa.engine.gpsimd)
    return tile


def layer_norm_tiles(results, tiles_of_channels, ones, channels, numbers, turn=0):
    """Normalize tiles [channels, images, rows, columns] over all channels of each pixel, into `results` of any dtype.

    ones: two matrices, in the dtypes of the tiles and of their squares, with ones where two partitions share an image.
    They are [128, 128] for all tiles, or match a single tile with several packed images. channels: the number of
    channels of an image. numbers: the scales and the shifts, each a list of float32 columns (one per tile) or None, and
    epsilon, a float32 column [128, 1]. turn: the number of tiles normalized so far, which determines the tiles that
    GpSimd multiplies.
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
        square = sbuf_tile(tile.shape, ones[1].dtype)
        nisa.activation(dst=square, op=nl.square, data=difference, scale=channels**-0.5)
        centred.append(difference)
        squares.append(square)
    variance = _sum_over_channels(squares, ones[1])
    deviation = nl.ndarray(variance.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=deviation,
        data=variance,
        op0=nl.add,
        operand0=epsilon[0 : ones[1].shape[1]],
        op1=nl.power,
        operand1=-0.5,
        engine=nisa.engine.vector,
    )
    for index in range(len(centred)):
        count = centred[index].shape[0]
        normal = results[index]
        if scales is not None:
            normal = nl.ndarray(centred[index].shape, dtype=nl.float32, buffer=nl.sbuf)
        engine = nisa.engine.gpsimd if (turn + index) % GPSIMD_TURN == 1 else nisa.engine.vector
        nisa.tensor_tensor(dst=normal, data1=centred[index], data2=deviation[0:count], op=nl.multiply, engine=engine)
        if scales is not None:
            nisa.activation(dst=results[index], op=nl.copy, data=normal, scale=scales[index], bias=shifts[index])


def _sum_over_channels(tiles_of_channels, ones):
    """Return ones^T @ channels: float32 [columns of ones, images, rows, columns] in PSUM."""
    _, images, rows, columns = tiles_of_channels[0].shape
    sums = nl.ndarray((ones.shape[1], images, rows, columns), dtype=nl.float32, buffer=nl.psum)
    for index in range(len(tiles_of_channels)):
        tile = tiles_of_channels[index]
        nisa.nc_matmul(dst=sums, stationary=ones[0 : tile.shape[0]], moving=tile, accumulate=index > 0)
    return sums


def write_band(first, channels, onto, count, around):
    """Return a float32 matrix [channels, count] with 1 where the distance between channel `first` + row and channel
    `onto` + column is at most `around`, else 0."""
    band = _tile_of(1.0, channels, count)
    distance = first - onto  # channel p is at distance + p - j relative to output channel j
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


def response_bands(parts, size):
    """For each tile of channels, list the tiles within reach, including the tile itself, as [index, matrix].

    The matrix selects the channels that contribute.
    """
    around = size // 2
    return [
        [
            [other.index, write_band(other.start, other.size, part.start, part.size, around)]
            for other in parts
            if other.start < part.end + around and part.start < other.end + around
        ]
        for part in parts
    ]


@dataclass(frozen=True)
class Response:
    """The divisor of local response norm: (bias + factor * sum of squares) ** beta, with factor = alpha / size."""

    factor: float
    beta: float
    bias: float


def local_response_tiles(results, tiles_of_channels, bands, response):
    """Divide tiles [channels, images, rows, columns], each at most a PSUM bank, by their responses, into `results`.

    bands: the result of `response_bands`. response: a `Response`.
    """
    squares = []
    for tile in tiles_of_channels:
        square = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=square, op=nl.square, data=tile)
        squares.append(square)
    for index in range(len(tiles_of_channels)):
        _divide_by_response(results[index], tiles_of_channels[index], squares, bands[index], response)


def _divide_by_response(result, tile, squares, bands, response):
    """Compute result = tile / (bias + factor * banded sum of squares) ** beta, [channels, pixels]."""
    sums = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.psum)
    for position in range(len(bands)):
        index, band = bands[position]
        nisa.nc_matmul(dst=sums, stationary=band, moving=squares[index], accumulate=position > 0)
    scale = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=scale, data=sums, op0=nl.multiply, operand0=response.factor, op1=nl.add, operand1=response.bias
    )
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.power, operand0=-response.beta)
    nisa.tensor_tensor(dst=result, data1=tile, data2=scale, op=nl.multiply)


def log_softmax_tile(dst, data, largest):
    """Compute the log-softmax of rows in SBUF: dst and data are [partitions, rows, columns], and `largest`, float32
    [partitions, rows, 1], contains the maxima of the rows."""
    partitions, rows, width = data.shape
    shifted = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=shifted, data1=data, data2=largest.broadcast(2, width), op=nl.subtract)
    grown = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=grown, op=nl.exp, data=shifted)
    sums = nl.ndarray((partitions, rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=grown, axis=2, keepdims=True)
    nisa.activation(dst=sums, op=nl.log, data=sums)
    nisa.tensor_tensor(dst=dst, data1=shifted, data2=sums.broadcast(2, width), op=nl.subtract)
