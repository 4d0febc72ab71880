"""Convolution fused with bias, activation and 2x2 max pooling: nothing returns to HBM between them.

A group of image rows (or a few whole images) is loaded once and serves every filter tap and output channel:

1. Input rows lie in SBUF as [channels, images, rows, columns], so that a tap is a strided view of them. The rows that
   the next group shares are copied on chip, not loaded again.
2. Weights lie in SBUF as [channels, taps, output channels]. Each matmul takes one tap (or several, where few channels
   leave room on the partition axis, see conv2d_plan.py) and up to 512 output pixels; all of them accumulate in one
   PSUM bank.
   3x3 filters in float32, where matmuls are slow, take two thirds of them on larger images (conv2d_pairs.py).
3. The Vector Engine takes the maxima of 2x2 windows straight from PSUM, the Scalar Engine adds the bias and applies
   the activation in one instruction. Maximum and activation change places where the activation never decreases.

`fused_conv2d_maxpool` takes filters as frameworks store them and lays them out on chip, in between the first matmuls;
`fused_conv2d_maxpool_packed` takes them in SBUF layout and transposes nothing.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .conv2d_operands import load_biases, load_input, prepare_weights, stage_weights, zeroed_inputs
from .conv2d_pairs import accumulate_pairs, join_pairs, pair_inputs, pair_sums
from .conv2d_plan import (
    PARTITIONS,
    ceil_divide,
    contraction_steps,
    input_columns,
    plan_conv2d,
    psum_pieces,
    rows_of_taps,
    tap_block_stride,
    taps_in_partitions,
)


@nki.jit
def fused_conv2d_maxpool(x, w, bias, pool_size=1, padding=0, activation="identity"):
    """activation(maxpool(conv2d(x, w) + bias)), stride 1, the maxima over pool_size x pool_size windows.

    Dimensions:
        B: batch, Cin and Cout: channels, H and W: image size, k: kernel size
        Ho = (H + 2 * padding - k + 1) // pool_size, Wo alike: odd last rows and columns are dropped by pooling

    Args:
        x: [B, Cin, H, W] in HBM, float32, bfloat16 or float16
        w: [Cout, Cin, k, k] in HBM, of x's dtype
        bias: [Cout] in HBM, float32 or of x's dtype
        pool_size: 1 (no pooling) or 2
        padding: rows and columns of zeros on each side, >= 0
        activation: "identity", "relu", "gelu", "sigmoid" or "tanh"

    Returns:
        [B, Cout, Ho, Wo] in shared HBM, of x's dtype; sums are float32.

    Notes:
        An infinity or NaN in x spreads to the outputs whose window holds it, and in float32 also to the output beside.
    """
    assert len(w.shape) == 4, f"conv2d: w must be [Cout, Cin, k, k], came {w.shape}"
    out_channels, in_channels, kernel_size, filter_columns = w.shape
    assert kernel_size == filter_columns, f"conv2d: filters must be square, came {kernel_size}x{filter_columns}"
    assert w.dtype == x.dtype, f"conv2d: w must have the dtype of x, {x.dtype}, came {w.dtype}"
    assert tuple(bias.shape) == (out_channels,), f"conv2d: bias must be [{out_channels}], came {bias.shape}"
    assert bias.dtype == x.dtype or bias.dtype == nl.float32, (
        f"conv2d: bias must be float32 or have the dtype of x, {x.dtype}, came {bias.dtype}"
    )
    return _convolve(x, w, bias, in_channels, out_channels, kernel_size, pool_size, padding, activation, False)


@nki.jit
def fused_conv2d_maxpool_packed(
    x, w_packed, bias_packed, in_channels, kernel_size, pool_size=1, padding=0, activation="identity"
):
    """`fused_conv2d_maxpool` on weights that are already laid out for SBUF.

    Args:
        x: [B, Cin, H, W] in HBM, float32, bfloat16 or float16
        w_packed: [R, S * Cout] of x's dtype. R is the partitions of the filter taps that share the partition axis: one
            tap, the taps of some filter rows, or the whole filter, one block of Cin rows each (see conv2d_plan.py). S
            matmuls then cover a filter. The columns are in blocks of 128 output channels, each block ordered (S, output
            channel)
        bias_packed: [min(128, Cout), ceil(Cout / 128)] float32, a column for each block of 128 output channels
        in_channels, kernel_size: Cin and k, which the packed shapes do not tell
        pool_size, padding, activation: as for `fused_conv2d_maxpool`

    Returns:
        [B, Cout, Ho, Wo] in shared HBM, of x's dtype.
    """
    assert len(w_packed.shape) == 2, f"conv2d: w_packed must be two-dimensional, came {w_packed.shape}"
    assert w_packed.dtype == x.dtype, f"conv2d: w_packed must have the dtype of x, {x.dtype}, came {w_packed.dtype}"
    assert bias_packed.dtype == nl.float32, f"conv2d: bias_packed must be float32, came {bias_packed.dtype}"
    rows, columns = w_packed.shape
    tap_rows, tap_columns = taps_in_partitions(in_channels, kernel_size)
    packed_rows = (tap_rows * tap_columns - 1) * tap_block_stride(in_channels, tap_rows, tap_columns) + in_channels
    assert rows == packed_rows, (
        f"conv2d: w_packed must have {packed_rows} rows for {in_channels} channels and filters of "
        f"{kernel_size}x{kernel_size}, came {rows}"
    )
    steps = len(contraction_steps(kernel_size, tap_rows, tap_columns))
    out_channels = columns // steps
    assert out_channels * steps == columns, (
        f"conv2d: w_packed has {columns} columns, which must be a multiple of the {steps} matmuls of a filter"
    )
    assert tuple(bias_packed.shape) == (min(PARTITIONS, out_channels), ceil_divide(out_channels, PARTITIONS)), (
        f"conv2d: bias_packed must be [{min(PARTITIONS, out_channels)}, {ceil_divide(out_channels, PARTITIONS)}] for "
        f"{out_channels} output channels, came {bias_packed.shape}"
    )
    return _convolve(
        x, w_packed, bias_packed, in_channels, out_channels, kernel_size, pool_size, padding, activation, True
    )


def _convolve(x, w, bias, in_channels, out_channels, kernel_size, pool_size, padding, activation, packed):
    """The convolution of both entries, which differ in how weights and biases reach SBUF."""
    assert len(x.shape) == 4, f"conv2d: x must be [B, Cin, H, W], came {x.shape}"
    assert x.dtype == nl.float32 or x.dtype == nl.bfloat16 or x.dtype == nl.float16, (
        f"conv2d: x must be float32, bfloat16 or float16, came {x.dtype}"
    )
    batch, channels, height, width = x.shape
    assert channels == in_channels, f"conv2d: x has {channels} channels, the filters {in_channels}"
    assert pool_size == 1 or pool_size == 2, f"conv2d: pool_size must be 1 or 2, came {pool_size}"
    assert padding >= 0, f"conv2d: padding must be at least 0, came {padding}"
    pixels = min(height, width) + 2 * padding - kernel_size + 1
    assert pixels >= pool_size, (
        f"conv2d: {height}x{width} with padding {padding} is too small for filters of {kernel_size}x{kernel_size} and "
        f"pool_size {pool_size}"
    )
    item_bytes = 4 if x.dtype == nl.float32 else 2
    plan = plan_conv2d(
        batch,
        in_channels,
        height,
        width,
        out_channels,
        kernel_size,
        pool_size,
        padding,
        item_bytes,
        packed,
        _sbuf_bytes(),
    )
    out = nl.ndarray(
        (batch, out_channels, plan.out_rows // pool_size, plan.out_columns // pool_size),
        dtype=x.dtype,
        buffer=nl.shared_hbm,
    )
    input_tiles = len(plan.channel_tiles)
    biases = []
    zeroed: list[nl.NkiTensor] = []
    for first in range(0, len(plan.out_tiles), plan.resident_tiles):
        out_tiles = min(plan.resident_tiles, len(plan.out_tiles) - first)
        units = out_tiles * input_tiles  # of weights: one for each tile of output channels and tile of input channels
        staged: list[nl.NkiTensor] = []  # weight chunks on their way
        weights: list[nl.NkiTensor] = []  # units in stationary layout
        loaded = []
        for t in range(input_tiles):  # in the order in which the first matmuls need them
            stage_weights(w, plan, packed, first, units, t + 1, staged)
            loaded.append(load_input(x, plan, 0, t, None, zeroed))
        if first == 0:
            biases = load_biases(bias, plan, packed)
            if plan.tap_columns > 1 and len(plan.groups) > 1:
                zeroed = zeroed_inputs(x, plan)
        inputs = _as_multiplied(loaded, plan)
        for index in range(len(plan.groups)):
            last = index == len(plan.groups) - 1
            following = []
            next_inputs = []
            for tile in range(out_tiles):
                # The next group is loaded, and then combined, ahead of matmuls that take longer.
                if not last and (tile == 0 if plan.paired else tile == out_tiles - 1):
                    following = _load_group(x, plan, index + 1, loaded, zeroed)
                if not last and tile == out_tiles - 1 and tile > 0:
                    next_inputs = _as_multiplied(following, plan)
                _compute_group(
                    out,
                    w,
                    plan,
                    packed,
                    first,
                    index,
                    tile,
                    units,
                    width,
                    inputs,
                    staged,
                    weights,
                    biases[first + tile],
                    activation,
                )
            if not last and out_tiles == 1:
                next_inputs = _as_multiplied(following, plan)
            inputs = next_inputs
            loaded = following
    return out


def _sbuf_bytes():
    """Size of an SBUF partition (trainium_inferentia2_arch, trainium2_arch, trainium3_arch)."""
    version = nisa.get_nc_version()
    if version == nisa.nc_version.gen2:
        return 192 * 1024
    if version == nisa.nc_version.gen3:
        return 224 * 1024
    return 256 * 1024


def _load_group(x, plan, index, previous, zeroed):
    """All input tiles of a group."""
    tiles = []
    for t in range(len(plan.channel_tiles)):
        tiles.append(load_input(x, plan, index, t, previous[t], zeroed))
    return tiles


def _as_multiplied(loaded, plan):
    """Loaded input tiles as the matmuls take them."""
    if not plan.paired:
        return loaded
    tiles = []
    for tile in loaded:
        tiles.append(pair_inputs(tile, plan))
    return tiles


def _compute_group(out, w, plan, packed, first, index, tile, units, width, inputs, staged, weights, bias, activation):
    """One tile of output channels of one group of rows, from the loaded input to HBM."""
    image, images, row, rows, column, columns = plan.groups[index]
    channel, count = plan.out_tiles[first + tile]
    pool_size = plan.pool_size
    pooled_rows = rows // pool_size
    pooled_columns = columns // pool_size
    input_tiles = len(plan.channel_tiles)
    result = nl.ndarray((count, images * pooled_rows, pooled_columns), dtype=out.dtype, buffer=nl.sbuf)
    for piece in psum_pieces(plan, plan.groups[index]):
        piece_image, piece_images, piece_row, piece_rows, piece_column, piece_columns = piece
        if plan.paired:
            sums = pair_sums(count, piece)
        else:
            sums = nl.ndarray((count, piece_images * piece_rows, piece_columns), dtype=nl.float32, buffer=nl.psum)
        for t in range(input_tiles):
            unit = tile * input_tiles + t
            # One unit ahead, so that the Tensor Engine multiplies while the next unit is copied out of PSUM.
            prepare_weights(w, plan, packed, first, units, unit + 2, staged, weights)
            if plan.paired:
                accumulate_pairs(sums, weights[unit], inputs[t], plan, t, piece)
            else:
                _accumulate(sums, weights[unit], inputs[t], plan, t, index, piece, width)
        if plan.paired:
            sums = join_pairs(sums, piece_columns)
        start = (piece_image * rows + piece_row) // pool_size
        left = piece_column // pool_size
        _finish(
            result[:, start : start + piece_images * piece_rows // pool_size, left : left + piece_columns // pool_size],
            sums,
            bias,
            pool_size,
            activation,
        )
    top = row // pool_size
    left = column // pool_size
    nisa.dma_copy(
        dst=out[
            image : image + images, channel : channel + count, top : top + pooled_rows, left : left + pooled_columns
        ].permute((1, 0, 2, 3)),
        src=result.reshape((count, images, pooled_rows, pooled_columns)),
    )


def _accumulate(sums, weights, tile, plan, t, index, piece, width):
    """Add the contribution of input tile `t` of a group to the PSUM tile of a piece."""
    image, images, row, rows, column, columns = piece
    target = sums.reshape((sums.shape[0], images, rows, columns))
    left = input_columns(plan, plan.groups[index], width)[0]
    first = plan.groups[index][4] + column  # of the columns of the whole output
    for n in range(len(plan.steps)):
        s = (plan.first_step + n) % len(plan.steps)
        down, right, taps = plan.steps[s]
        used = rows_of_taps(plan, t, taps)
        shift = right - plan.padding  # from a column of the output to one of the input
        start = first
        end = first + columns
        if not plan.pads_columns:
            start = max(start, -shift)
            end = min(end, width - shift)
        if start < end:
            nisa.nc_matmul(
                dst=target[:, :, :, start - first : end - first],
                stationary=weights[0:used, s, :],
                moving=tile[
                    0:used,
                    image : image + images,
                    row + down : row + down + rows,
                    start + shift - left : end + shift - left,
                ],
                accumulate=t > 0 or n > 0,
            )


def _finish(target, sums, bias, pool_size, activation):
    """Pool, add the bias and apply the activation to a tile [channels, rows, columns] of PSUM or SBUF."""
    function = _activation_function(activation)
    if pool_size == 1:
        nisa.activation(dst=target, op=function, data=sums, bias=bias)
        return
    count, rows, columns = sums.shape
    if activation == "gelu":  # decreases below -0.75: its maximum need not be at the maximum of what goes in
        activated = nl.ndarray((count, rows, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=activated, op=function, data=sums, bias=bias)
        nisa.tensor_reduce(dst=target, op=nl.maximum, data=_windows(activated), axis=(3, 4))
    else:
        largest = nl.ndarray((count, rows // 2, columns // 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=_windows(sums), axis=(3, 4))
        nisa.activation(dst=target, op=function, data=largest, bias=bias)


def _windows(tile):
    """[channels, rows, columns] seen as [channels, rows / 2, columns / 2, 2, 2]."""
    count, rows, columns = tile.shape
    return tile.reshape((count, rows // 2, 2, columns // 2, 2)).permute((0, 1, 3, 2, 4))


def _activation_function(activation):
    """The Scalar Engine function of a name."""
    assert activation in ("identity", "relu", "gelu", "sigmoid", "tanh"), (
        f"conv2d: activation must be identity, relu, gelu, sigmoid or tanh, came {activation}"
    )
    if activation == "relu":
        return nl.relu
    if activation == "gelu":
        return nl.gelu
    if activation == "sigmoid":
        return nl.sigmoid
    if activation == "tanh":
        return nl.tanh
    return nl.copy
