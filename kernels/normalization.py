"""Normalization of tiles in SBUF: layer norm and local response norm of each pixel over its channels, and the
log-softmax of rows.

Channels are on the partitions, and the Tensor Engine sums over partitions. Multiplying by a matrix of ones sums all
channels and leaves the sum on every partition; multiplying by a band of ones sums the adjacent channels. Sums are
float32 and accumulate in PSUM if there are several tiles of channels.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import nki.isa as nisa
import nki.language as nl

from .tiling.tiles import sbuf_tile

# elements per partition over all tiles of channels: 24 KiB, so that about four copies of them fit in SBUF
NORM_ELEMENTS = 6144
GPSIMD_TURN = 5  # GpSimd multiplies one in this many tiles, since it is about this many times slower
MATMUL_TILES = 2  # for up to this many tiles, matmuls subtract the mean; n tiles require n ** 2 of them
MATMUL_CHANNELS = 256  # bfloat16 represents integers exactly up to this number


class Centring(Enum):
    """The way in which layer norm subtracts the mean of n channels.

    NONE: the mean is zero. MATMUL: products with n times the identity minus a matrix of ones give n times the
    difference, in PSUM. VECTOR: the Vector Engine subtracts the mean.
    """

    NONE = 0
    MATMUL = 1
    VECTOR = 2


def norm_block(tiles):
    """Return the number of pixels, over all images, that layer norm processes together if there are `tiles` tiles of
    channels. They fill at most a PSUM bank."""
    return max(1, min(nl.tile_size.psum_bank_fmax, NORM_ELEMENTS // tiles))


def _tile_of(value, partitions, columns, dtype=nl.float32):
    """Return a tile filled with one number."""
    tile = nl.ndarray((partitions, columns), dtype=dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=value, engine=nisa.engine.gpsimd)
    return tile


@dataclass(frozen=True)
class PixelNorm:
    """The constants of layer norm.

    `ones` is the matrix that sums squares, in their dtype. It contains ones where two partitions share an image.
    `centring` contains the matrices that sum tiles, in the dtype of the tiles: in the mode VECTOR, a matrix of ones; in
    the mode MATMUL, a matrix for the tile itself and, if there are several tiles, one for the other tiles. `scales` and
    `shifts` are float32 columns for each tile, or None for both.
    """

    channels: int  # of an image
    mode: Centring
    dtype: Any  # of the tiles
    ones: nl.NkiTensor
    centring: tuple[nl.NkiTensor, ...]
    epsilon: nl.NkiTensor  # float32 [128, 1]; multiplied by channels ** 2 in the mode MATMUL
    scales: Any
    shifts: Any

    @property
    def rounds_deviations(self):
        """True if the deviations have the dtype of the tiles: the Vector Engine multiplies two bfloat16 tiles twice as
        fast. Otherwise they are float32."""
        return self.mode is Centring.NONE and self.scales is None and self.dtype == nl.bfloat16


@dataclass(frozen=True)
class CentredTiles:
    """Tiles with a mean of zero at each pixel, and their variance, which is in PSUM."""

    tiles: list[nl.NkiTensor]
    variance: nl.NkiTensor


def centring_mode(sizes, channels, dtype, is_centred):
    """Return how layer norm subtracts the mean of an image's channels, which are in tiles of `sizes`."""
    if is_centred:
        return Centring.NONE
    most = 1 if dtype == nl.float32 else MATMUL_TILES
    by_matmul = min(sizes) > 1 and len(sizes) <= most and channels <= MATMUL_CHANNELS
    return Centring.MATMUL if by_matmul else Centring.VECTOR


def centre_tiles(tiles_of_channels, norm: PixelNorm):
    """Subtract from tiles [channels, images, rows, columns] the mean over all channels of each pixel, and compute the
    variance."""
    centred = _centred(tiles_of_channels, norm)
    squares = []
    for tile in centred:
        square = sbuf_tile(tile.shape, norm.ones.dtype)
        nisa.activation(dst=square, op=nl.square, data=tile, scale=norm.channels**-0.5)
        squares.append(square)
    return CentredTiles(centred, _sum_over_channels(squares, norm.ones))


def _centred(tiles_of_channels, norm: PixelNorm):
    if norm.mode is Centring.NONE:
        return tiles_of_channels
    if norm.mode is Centring.MATMUL:
        return [
            _sum_over_channels(
                tiles_of_channels, norm.centring[-1], {t: norm.centring[0]}, tiles_of_channels[t].shape[0]
            )
            for t in range(len(tiles_of_channels))
        ]
    centred = []
    sums = _sum_over_channels(tiles_of_channels, norm.centring[0])
    for tile in tiles_of_channels:
        difference = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=difference,
            data=sums[0 : tile.shape[0]],
            op0=nl.multiply,
            operand0=1.0 / norm.channels,
            op1=nl.subtract,
            operand1=tile,
            reverse1=True,
        )
        centred.append(difference)
    return centred


def scale_tiles(results, centred: CentredTiles, norm: PixelNorm, block, turn):
    """Divide centred tiles by their standard deviation, into `results` of any dtype.

    block: the number of the block of pixels. turn: the number of tiles that were normalized before. GpSimd computes the
    deviations of every other block, and multiplies one tile in GPSIMD_TURN.
    """
    deviation = _deviation(centred.variance, norm, on_gpsimd=block % 2 == 1)
    for index in range(len(results)):
        tile = centred.tiles[index]
        normal = results[index]
        if norm.scales is not None:
            normal = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
        is_for_gpsimd = norm.mode is not Centring.MATMUL and (turn + index) % GPSIMD_TURN == 1
        engine = nisa.engine.gpsimd if is_for_gpsimd else nisa.engine.vector
        nisa.tensor_tensor(dst=normal, data1=tile, data2=deviation[0 : tile.shape[0]], op=nl.multiply, engine=engine)
        if norm.scales is not None:
            nisa.activation(
                dst=results[index], op=nl.copy, data=normal, scale=norm.scales[index], bias=norm.shifts[index]
            )


def _deviation(variance, norm: PixelNorm, on_gpsimd):
    """Return (variance + epsilon) ** -0.5, computed by the Vector Engine, or by GpSimd from a copy in SBUF."""
    dtype = norm.dtype if norm.rounds_deviations else nl.float32
    deviation = sbuf_tile(variance.shape, dtype)
    epsilon = norm.epsilon[0 : variance.shape[0]]
    if on_gpsimd:
        copy = nl.ndarray(variance.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=copy, op=nl.copy, data=variance)
        nisa.tensor_scalar(
            dst=deviation, data=copy, op0=nl.add, operand0=epsilon, op1=nl.rsqrt, operand1=0.0,
            engine=nisa.engine.gpsimd,
        )  # fmt: skip
        return deviation
    nisa.tensor_scalar(
        dst=deviation,
        data=variance,
        op0=nl.add,
        operand0=epsilon,
        op1=nl.power,
        operand1=-0.5,
        engine=nisa.engine.vector,
    )
    return deviation


def _sum_over_channels(tiles_of_channels, ones, instead=None, partitions=0):
    """Return the sum of ones^T @ tile over tiles of channels: float32 [columns of ones, images, rows, columns] in PSUM.

    instead: the matrices that replace `ones`, keyed by tile. partitions: the number of columns used, or 0 for all.
    """
    _, images, rows, columns = tiles_of_channels[0].shape
    count = partitions or ones.shape[1]
    sums = nl.ndarray((count, images, rows, columns), dtype=nl.float32, buffer=nl.psum)
    for index in range(len(tiles_of_channels)):
        tile = tiles_of_channels[index]
        matrix = (instead or {}).get(index, ones)
        nisa.nc_matmul(dst=sums, stationary=matrix[0 : tile.shape[0], 0:count], moving=tile, accumulate=index > 0)
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
    """For each tile of channels, list as [index, matrix] the tiles within reach, including the tile itself.

    The matrix selects the channels that contribute.
    """
    reach = size // 2
    return [
        [
            [other.index, write_band(other.start, other.size, part.start, part.size, reach)]
            for other in parts
            if other.start < part.end + reach and part.start < other.end + reach
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
