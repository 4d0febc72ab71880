"""Convolution with fused bias and max pooling, in the two versions that were measured.

`conv2d_single_rows` computes one output row per PSUM tile. The input rows are loaded again for each output row, and the
stationary operand is read with a stride. `conv2d_row_groups` computes as many pairs of output rows per PSUM tile as
fit, with contiguous weights.

Both accept filters in the layout of frameworks and first transpose each tap on the Tensor Engine.
"""

import nki
import nki.isa as nisa
import nki.language as nl

TILE = 128  # channels per tile: partitions
BANK = 512  # float32 of one partition in a PSUM bank


def _output_shape(x, w, pool_size):
    """Return [B, Cout, rows, columns] of the pooled output, and the rows and columns of the convolution."""
    batch, in_channels, height, width = x.shape
    out_channels, filter_channels, filter_size, filter_columns = w.shape
    assert in_channels == filter_channels, f"x has {in_channels} channels, the filters {filter_channels}"
    assert filter_size == filter_columns, f"filters must be square, got {filter_size}x{filter_columns}"
    assert in_channels % TILE == 0 and out_channels % TILE == 0, (
        f"channels must be multiples of {TILE}, got {in_channels} and {out_channels}"
    )
    rows = height - filter_size + 1
    columns = width - filter_size + 1
    assert rows % pool_size == 0 and columns % pool_size == 0, (
        f"{rows}x{columns} pixels cannot be pooled by {pool_size} without a remainder"
    )
    return (batch, out_channels, rows // pool_size, columns // pool_size), rows, columns


def _transpose_tap(dst, src):
    """Transpose the [out, in] weights of one tap in SBUF to [in, out] in SBUF, through PSUM."""
    turned = nl.ndarray((TILE, TILE), dtype=src.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=src, engine=nisa.engine.tensor)
    nisa.tensor_copy(dst=dst, src=turned, engine=nisa.engine.scalar)


@nki.jit
def conv2d_single_rows(x, w, bias, pool_size=1):
    """maxpool(conv2d(x, w)) + bias, stride 1, no padding, one output row per PSUM tile.

    Dimensions:
        B: batch, Cin and Cout: channels, multiples of 128, H and W: image size, k: kernel size.
    Args:
        x: [B, Cin, H, W] in HBM.
        w: [Cout, Cin, k, k] in HBM, of x's dtype.
        bias: [Cout] in HBM, of x's dtype.
        pool_size: 1 or 2.
    Returns:
        [B, Cout, (H - k + 1) / pool_size, (W - k + 1) / pool_size] in HBM, of x's dtype.
    Notes:
        The taps of a channel pair are the innermost dimensions of the weights in SBUF, as they are in HBM, so that the
        stationary operand is read with a stride of (Cout / 128) * (Cin / 128) * k * k elements. The measured kernel
        declared one buffer for an input row and one for the rows to pool, which the compiler of that time replicated as
        often as space permitted. This kernel therefore allocates them anew each time.
    """
    shape, _, columns = _output_shape(x, w, pool_size)
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    filter_size = w.shape[2]
    in_tiles = x.shape[1] // TILE
    out_tiles = w.shape[0] // TILE
    weights = nl.ndarray((TILE, TILE, out_tiles * in_tiles, filter_size, filter_size), dtype=w.dtype, buffer=nl.sbuf)
    for o in range(out_tiles):
        for i in range(in_tiles):
            pair = o * in_tiles + i
            nisa.dma_copy(
                dst=weights[:, :, pair, :, :], src=w[o * TILE : (o + 1) * TILE, i * TILE : (i + 1) * TILE, :, :]
            )
            for r in range(filter_size):
                for c in range(filter_size):
                    _transpose_tap(weights[:, :, pair, r, c], weights[:, :, pair, r, c])
    for b in range(x.shape[0]):
        for o in range(out_tiles):
            for pooled_row in range(shape[2]):
                convolved = nl.ndarray((TILE, pool_size, columns), dtype=x.dtype, buffer=nl.sbuf)
                windows = convolved.reshape((TILE, pool_size, columns // pool_size, pool_size)).permute((0, 2, 1, 3))
                for p in range(pool_size):
                    sums = nl.ndarray((TILE, columns), dtype=nl.float32, buffer=nl.psum)
                    for i in range(in_tiles):
                        for r in range(filter_size):
                            image_row = nl.ndarray((TILE, x.shape[3]), dtype=x.dtype, buffer=nl.sbuf)
                            nisa.dma_copy(
                                dst=image_row, src=x[b, i * TILE : (i + 1) * TILE, pooled_row * pool_size + p + r, :]
                            )
                            for c in range(filter_size):
                                nisa.nc_matmul(
                                    dst=sums,
                                    stationary=weights[:, :, o * in_tiles + i, r, c],
                                    moving=image_row[:, c : c + columns],
                                    accumulate=i + r + c > 0,
                                )
                    nisa.tensor_copy(dst=convolved[:, p, :], src=sums, engine=nisa.engine.scalar)
                largest = nl.ndarray((TILE, columns // pool_size), dtype=x.dtype, buffer=nl.sbuf)
                nisa.tensor_reduce(dst=largest, op=nl.maximum, data=windows, axis=(2, 3))
                offset = nl.ndarray((TILE, 1), dtype=bias.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=offset, src=bias[o * TILE : (o + 1) * TILE].reshape((TILE, 1)))
                result = nl.ndarray((TILE, columns // pool_size), dtype=x.dtype, buffer=nl.sbuf)
                nisa.tensor_tensor(
                    dst=result, data1=largest, data2=offset.broadcast(1, columns // pool_size), op=nl.add
                )
                nisa.dma_copy(dst=out[b, o * TILE : (o + 1) * TILE, pooled_row, :], src=result)
    return out


def _load_weights(w):
    """Load stationary tiles [in, out], indexed by out-channel tile, tap and in-channel tile, with one load per
    out-channel tile."""
    filter_size = w.shape[2]
    weights = []
    for o in range(w.shape[0] // TILE):
        staged = nl.ndarray((TILE, w.shape[1], filter_size, filter_size), dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=staged, src=w[o * TILE : (o + 1) * TILE, :, :, :])
        taps = []
        for i in range(w.shape[1] // TILE):
            of_input = []
            for r in range(filter_size):
                for c in range(filter_size):
                    tap = nl.ndarray((TILE, TILE), dtype=w.dtype, buffer=nl.sbuf)
                    _transpose_tap(tap, staged[:, i * TILE : (i + 1) * TILE, r, c])
                    of_input.append(tap)
            taps.append(of_input)
        weights.append(taps)
    return weights


def _pool_pairs(sums, out_dtype):
    """Return the maxima over 2x2 windows of [128, rows, columns], first over pairs of rows and then over pairs of
    columns."""
    rows, columns = sums.shape[1], sums.shape[2]
    tall = nl.ndarray((TILE, rows // 2, columns), dtype=out_dtype, buffer=nl.sbuf)
    row_pairs = sums.reshape((TILE, rows // 2, 2, columns)).permute((0, 1, 3, 2))
    nisa.tensor_reduce(dst=tall, op=nl.maximum, data=row_pairs, axis=3)
    pooled = nl.ndarray((TILE, rows // 2, columns // 2), dtype=out_dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=pooled, op=nl.maximum, data=tall.reshape((TILE, rows // 2, columns // 2, 2)), axis=3)
    return pooled


@nki.jit
def conv2d_row_groups(x, w, bias, pool_size=1):
    """maxpool(conv2d(x, w) + bias), stride 1, no padding, pairs of output rows per PSUM tile.

    Dimensions:
        B: batch, Cin and Cout: channels, multiples of 128, H and W: image size, k: kernel size; an even number of
        output rows.
    Args:
        x: [B, Cin, H, W] in HBM.
        w: [Cout, Cin, k, k] in HBM, of x's dtype.
        bias: [Cout] in HBM, of x's dtype.
        pool_size: 1 or 2.
    Returns:
        [B, Cout, (H - k + 1) / pool_size, (W - k + 1) / pool_size] in HBM, of x's dtype.
    Notes:
        Input rows are loaded once for each output row that needs them, that is, up to k times.
    """
    shape, rows, columns = _output_shape(x, w, pool_size)
    assert rows % 2 == 0, f"the number of output rows must be even, got {rows}"
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    filter_size = w.shape[2]
    in_tiles = x.shape[1] // TILE
    out_tiles = w.shape[0] // TILE
    weights = _load_weights(w)
    biases = nl.ndarray((TILE, out_tiles), dtype=bias.dtype, buffer=nl.sbuf)
    for o in range(out_tiles):
        nisa.dma_copy(dst=biases[:, o : o + 1], src=bias[o * TILE : (o + 1) * TILE].reshape((TILE, 1)))
    group = 2 * min(BANK // (2 * x.shape[3]), rows // 2)
    assert group > 0, f"two rows of {x.shape[3]} pixels do not fit a PSUM bank of {BANK}"
    for b in range(x.shape[0]):
        for first in range(0, rows, group):
            count = min(group, rows - first)
            inputs = []
            for _ in range(in_tiles):
                inputs.append(nl.ndarray((TILE, filter_size, count, x.shape[3]), dtype=x.dtype, buffer=nl.sbuf))
            for row in range(count):
                for i in range(in_tiles):
                    nisa.dma_copy(
                        dst=inputs[i][:, :, row, :],
                        src=x[b, i * TILE : (i + 1) * TILE, first + row : first + row + filter_size, :],
                    )
            for o in range(out_tiles):
                sums = nl.ndarray((TILE, count, columns), dtype=nl.float32, buffer=nl.psum)
                for r in range(filter_size):
                    for c in range(filter_size):
                        for i in range(in_tiles):
                            nisa.nc_matmul(
                                dst=sums,
                                stationary=weights[o][i][r * filter_size + c],
                                moving=inputs[i][:, r, :, c : c + columns],
                                accumulate=r + c + i > 0,
                            )
                result = nl.ndarray((TILE, count, columns), dtype=x.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=result, src=sums, engine=nisa.engine.scalar)
                offset = biases[:, o : o + 1].reshape((TILE, 1, 1)).broadcast(1, count).broadcast(2, columns)
                nisa.tensor_tensor(dst=result, data1=result, data2=offset, op=nl.add)
                if pool_size == 2:
                    result = _pool_pairs(result, x.dtype)
                top = first // pool_size
                nisa.dma_copy(dst=out[b, o * TILE : (o + 1) * TILE, top : top + count // pool_size, :], src=result)
    return out
