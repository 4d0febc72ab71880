"""Depthwise convolution: each channel with a filter of its own, [B, C, H, W] -> [B, C, H', W'].

Channels lie on the partitions, so a tap is a strided view of the image times one number a partition. Two engines can do
that, and both do:

- the Vector Engine multiplies and adds in one instruction, an element a cycle;
- the Tensor Engine multiplies by a diagonal matrix, of which a 128th is of use, yet it streams a column a cycle too (in
  float32 a quarter of one), at more than twice the clock, and adds up in PSUM for nothing.

The taps are shared out so that both are done at about the same time. The GpSimd Engine, idle otherwise, writes the
diagonals; for small images that would take longer than the taps, and the Vector Engine does all of them. The Scalar
Engine adds the bias and applies the activation.
"""

from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl

from .activation_functions import activate
from .tiling.tiles import check_dtype, even_tiles, row_groups, tiles
from .tiling.windows import (
    CHUNK,
    Sweep,
    column_tap,
    cut_into_blocks,
    input_span,
    load_padded,
    make_sweep,
    row_tap,
    whole,
)

BANK = 512  # float32 numbers of a PSUM bank, and columns of a matmul (nl.tile_size.psum_fmax, gemm_moving_fmax)
MAX_WINDOW = 8192  # pixels that a window spans: what it reads, and the outputs beside it, then fit a partition
MAX_DIAGONALS = 64  # of 128 columns each: 32 KiB in float32
SMALL_IMAGE = 64  # outputs below which diagonals take longer to write than they save: 1 us for 9, on trn2


@dataclass
class Convolution:
    """What is the same for all channels: how the filter moves along rows and columns, and what follows it."""

    rows: Sweep
    columns: Sweep
    activation: str
    parameters: tuple[float, ...]


@dataclass
class Filters:
    """A filter for each partition.

    weights: float32 [P, taps], row by row of the filter; diagonals: of the first taps, [P, taps, P] of the data's
    dtype, or None for no tap; bias: float32 [P, 1].
    """

    weights: nl.NkiTensor
    diagonals: nl.NkiTensor | None
    bias: nl.NkiTensor


def tensor_engine_taps(taps, outputs, dtype):
    """How many of a filter's taps the Tensor Engine takes, for `outputs` pixels of a channel in all images.

    Shares by the engines' pace: a tap of 512 outputs takes the Vector Engine 0.6 us on trn2, the Tensor Engine 0.21 us
    in 16 bits and 0.85 us in float32.
    """
    if outputs <= SMALL_IMAGE or taps < 3:
        return 0
    if dtype == nl.float32:
        return min(MAX_DIAGONALS, (5 * taps + 6) // 12)
    return min(MAX_DIAGONALS, (7 * taps + 8) // 9)


def write_diagonals(weights, taps, dtype):
    """Diagonal matrices of the first `taps` columns of weights [P, taps of the filter]: [P, taps, P] of `dtype`."""
    channels = weights.shape[0]
    diagonals = nl.ndarray((channels, taps, channels), dtype=dtype, buffer=nl.sbuf)
    numbers = weights[:, 0:taps].expand_dim(2).broadcast(2, channels)
    # row p, tap t, column j: the number where p - j is 0
    nisa.affine_select(
        dst=diagonals,
        pattern=[[0, taps], [-1, channels]],
        channel_multiplier=1,
        on_true_tile=numbers,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    return diagonals


def depthwise_tile(dst, data, filters, convolution):
    """Convolve a tile that holds its padding, as zeros.

    dst: [P, images, rows of outputs, columns of outputs] in SBUF; data: [P, images, rows, columns] in SBUF, as the
    sweeps read them for those outputs, whatever their own number of outputs is.
    """
    rows, columns = convolution.rows, convolution.columns
    for piece in bank_pieces(dst.shape[1], dst.shape[2], dst.shape[3]):
        images, high, wide = piece
        pixels = data[
            :,
            images.start : images.end,
            high.start * rows.stride : (high.end - 1) * rows.stride + rows.reach,
            wide.start * columns.stride : (wide.end - 1) * columns.stride + columns.reach,
        ]
        sums = _sum_taps(pixels, filters, rows, columns, high.size, wide.size)
        target = dst[:, images.start : images.end, high.start : high.end, wide.start : wide.end]
        activate(target, sums, convolution.activation, convolution.parameters, bias=filters.bias)


def bank_pieces(images, rows, columns):
    """Pieces of an output, (images, rows, columns) tiles, each of at most the pixels of a PSUM bank."""
    pieces = []
    for wide in even_tiles(columns, BANK):
        for high in even_tiles(rows, BANK // wide.size):
            for some in tiles(images, BANK // (wide.size * high.size)):
                pieces.append((some, high, wide))
    return pieces


def _sum_taps(data, filters, rows, columns, high, wide):
    """All taps of a piece: float32 [P, images, high, wide], in PSUM where the Tensor Engine took all of them."""
    shape = (data.shape[0], data.shape[1], high, wide)
    on_tensor_engine = 0
    sums = None
    if filters.diagonals is not None:
        on_tensor_engine = filters.diagonals.shape[1]
        sums = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
        for tap in range(on_tensor_engine):
            pixels = _tap(data, rows, columns, high, wide, tap)
            nisa.nc_matmul(dst=sums, stationary=filters.diagonals[:, tap, :], moving=pixels, accumulate=tap > 0)
    for tap in range(on_tensor_engine, rows.size * columns.size):
        pixels = _tap(data, rows, columns, high, wide, tap)
        weight = filters.weights[:, tap : tap + 1]
        added = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        if sums is None:
            nisa.tensor_scalar(dst=added, data=pixels, op0=nl.multiply, operand0=weight)
        else:
            nisa.scalar_tensor_tensor(
                dst=added, data=pixels, op0=nl.multiply, operand0=weight, op1=nl.add, operand1=sums
            )
        sums = added
    return sums


def _tap(data, rows, columns, high, wide, tap):
    """What tap number `tap` of a filter reads for high x wide outputs."""
    lines = row_tap(data, rows, high, tap // columns.size)
    return column_tap(lines, columns, wide, tap % columns.size)


@nki.jit
def depthwise_conv2d(
    x, w, bias, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), activation="identity", parameters=()
):
    """activation(depthwise convolution of x with w + bias).

    Dimensions:
        B, C, H, W: images, channels, height, width; kh, kw: filter; H' and W' are what the filters leave of H and W.
    Args:
        x: [B, C, H, W] in HBM; float32, bfloat16 or float16.
        w: [C, 1, kh, kw] in HBM, of the dtype of x.
        bias: [C] in HBM, float32 or of the dtype of x.
        stride, dilation: (rows, columns), each at least 1.
        padding: zeros at (top, left, bottom, right), fewer than a filter spans.
        activation, parameters: as for `activate`.
    Returns:
        [B, C, H', W'] in HBM, of the dtype of x; sums are float32.
    Notes:
        An infinity or NaN in x spreads to other channels at the outputs that see it.
    Pseudocode:
        for group of channels:
            filters = load_filters(w, bias)
            for block of outputs, group of images:
                data = pixels that they read
                for each partition's channels:
                    sums = taps on the Tensor Engine, then the others on the Vector Engine
                    result = activation(sums + bias)
                store result
    """
    rows, columns = _check(x, w, bias, stride, padding, dilation)
    convolution = Convolution(rows, columns, activation, parameters)
    batch, channels = x.shape[0], x.shape[1]
    out = nl.ndarray((batch, channels, rows.outputs, columns.outputs), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = cut_into_blocks(rows, columns, max(CHUNK, 2 * rows.reach * columns.reach))
    planes = max(1, CHUNK // blocks.elements)  # of a partition at once
    together = min(batch, planes)
    for group in row_groups(channels, planes // together):
        filters = load_filters(w, bias, group, batch * rows.outputs * columns.outputs, x.dtype)
        for block in blocks.outputs:
            down = input_span(rows, block.rows, whole(rows.size))
            across = input_span(columns, block.columns, whole(columns.size))
            for images in even_tiles(batch, together):
                shape = (group.partitions, group.rows, images.size, block.rows.size, block.columns.size)
                data = load_padded(_channels(x, group, images), down, across, 0.0)
                data = data.reshape_dim(1, (group.rows, images.size))
                result = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
                for c in range(group.rows):
                    depthwise_tile(result[:, c], data[:, c], filters[c], convolution)
                target = _channels(out, group, images)
                target = target.slice(3, block.rows.start, block.rows.end)
                nisa.dma_copy(dst=target.slice(4, block.columns.start, block.columns.end), src=result)
    return out


def _channels(x, group, images):
    """Channels and images of x [B, C, H, W] in HBM as [partitions, channels of each, images, H, W]."""
    view = x[images.start : images.end, group.start : group.end].reshape_dim(1, (group.partitions, group.rows))
    return view.permute((1, 2, 0, 3, 4))


def load_filters(w, bias, group, outputs, dtype):
    """The filters of a group of channels, one `Filters` for each channel of a partition."""
    taps = w.shape[2] * w.shape[3]
    weights = nl.ndarray((group.partitions, group.rows, taps), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=w[group.start : group.end].reshape(weights.shape))
    biases = nl.ndarray((group.partitions, group.rows), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=biases, src=bias[group.start : group.end].reshape(biases.shape))
    on_tensor_engine = tensor_engine_taps(taps, outputs, dtype)
    filters = []
    for c in range(group.rows):
        diagonals = write_diagonals(weights[:, c, :], on_tensor_engine, dtype) if on_tensor_engine > 0 else None
        filters.append(Filters(weights[:, c, :], diagonals, biases[:, c : c + 1]))
    return filters


def _check(x, w, bias, stride, padding, dilation):
    """Assert what the kernel takes; the sweeps of the filter over rows and columns."""
    assert len(x.shape) == 4, f"x must be [B, C, H, W], got shape {x.shape}"
    check_dtype("x", x)
    channels = x.shape[1]
    assert len(w.shape) == 4 and w.shape[0] == channels and w.shape[1] == 1, (
        f"w must be [{channels}, 1, kh, kw] for x of shape {x.shape}, got shape {w.shape}"
    )
    assert w.dtype == x.dtype, f"w must have the {x.dtype} of x, got {w.dtype}"
    assert len(bias.shape) == 1 and bias.shape[0] == channels, f"bias must be [{channels}], got shape {bias.shape}"
    assert bias.dtype == nl.float32 or bias.dtype == x.dtype, (
        f"bias must be float32 or the {x.dtype} of x, got {bias.dtype}"
    )
    top, left, bottom, right = padding
    rows = make_sweep("rows", x.shape[2], w.shape[2], stride[0], dilation[0], (top, bottom), False)
    columns = make_sweep("columns", x.shape[3], w.shape[3], stride[1], dilation[1], (left, right), False)
    assert rows.reach * columns.reach <= MAX_WINDOW, (
        f"a filter may span at most {MAX_WINDOW} pixels, got {rows.reach}x{columns.reach}"
    )
    return rows, columns
