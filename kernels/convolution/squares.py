"""Compute outputs in 2x2 squares: 3x3 filters with four ninths of the matmul work, using minimal filtering F(2x2, 3x3).

The scheme of pairs.py is applied to the rows of a square and then to its columns (A. Lavin and S. Gray, Fast Algorithms
for Convolutional Neural Networks, 2016). Four rows of the input are combined into four combinations, and then four
columns of each combination likewise:

    c0 = d0 - d2        c1 = d1 + d2        c2 = d2 - d1        c3 = d1 - d3

Three taps are combined in the same way, with the factors of one half included:

    f0 = g0             f1 = (g0 + g2 + g1) / 2     f2 = (g0 + g2 - g1) / 2     f3 = g2

The products of c and f are summed over the channels in 16 PSUM tiles m, four for each column combination. Each pair of
output rows, and then each pair of output columns, is computed from four tiles:

    y0 = m0 + (m1 + m2)         y1 = (m1 - m2) - m3

Four banks hold half of the 16 tiles; while the Tensor Engine fills them, the Scalar, GpSimd and Vector Engines evict
the other half. GpSimd cannot read PSUM, so it adds values that the Scalar Engine has evicted.
"""

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import ceil_div
from ..tiling.tiles import reshaped
from ..tiling.warm_up import psum_tile

ROW_ORDER = (1, 2, 0, 3)  # order of the row combinations: combinations that are evicted first come first


def square_inputs(tile):
    """Compute the 16 combinations of an input tile [K, images, rows, columns] as [K, 4 (columns), 4 (rows), images,
    squares per column, squares per row]."""
    partitions, images, height, width = tile.shape
    rows = height // 2 - 1  # ignores an odd last row, which no square needs
    columns = width // 2 - 1
    by_rows = nl.ndarray((partitions, 4, images, rows, width), dtype=nl.float32, buffer=nl.sbuf)
    combined = nl.ndarray((partitions, 4, 4, images, rows, columns), dtype=tile.dtype, buffer=nl.sbuf)
    d = []
    for tap in range(4):
        d.append(tile[:, :, tap : tap + 2 * rows - 1 : 2, :])
    _combine(by_rows[:, 0], by_rows[:, 1], by_rows[:, 2], by_rows[:, 3], d)
    stacked = reshaped(by_rows, (partitions, 4 * images * rows, width))
    targets = reshaped(combined, (partitions, 4, 4 * images * rows, columns))
    d = []
    for tap in range(4):
        d.append(stacked[:, :, tap : tap + 2 * columns - 1 : 2])
    _combine(targets[:, 0], targets[:, 1], targets[:, 2], targets[:, 3], d)
    return combined


def _combine(c0, c1, c2, c3, d):
    """Compute c0 = d0 - d2, c1 = d1 + d2, c2 = d2 - d1, c3 = d1 - d3."""
    nisa.tensor_tensor(dst=c0, data1=d[0], data2=d[2], op=nl.subtract, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=c1, data1=d[1], data2=d[2], op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=c2, data1=d[2], data2=d[1], op=nl.subtract, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=c3, data1=d[1], data2=d[3], op=nl.subtract, engine=nisa.engine.vector)


def square_filters(weights):
    """Compute the 16 combinations of nine taps: [K, 9, Cout] to [K, 4 (columns) * 4 (rows), Cout]."""
    partitions, _, count = weights.shape
    by_rows = nl.ndarray((partitions, 4, 3 * count), dtype=nl.float32, buffer=nl.sbuf)
    combined = nl.ndarray((partitions, 16, count), dtype=weights.dtype, buffer=nl.sbuf)
    result = reshaped(combined, (partitions, 4, 4, count))
    taps = reshaped(weights, (partitions, 3, 3 * count))
    _combine_taps([by_rows[:, i] for i in range(4)], [taps[:, i] for i in range(3)])
    taps = reshaped(by_rows, (partitions, 4, 3, count))
    _combine_taps([result[:, i] for i in range(4)], [taps[:, :, i] for i in range(3)])
    return combined


def _combine_taps(combined, taps):
    """Compute f0 = g0, f1 = (g0 + g2 + g1) / 2, f2 = (g0 + g2 - g1) / 2, f3 = g2 from three taps g."""
    (f0, f1, f2, f3), (g0, g1, g2) = combined, taps
    outer = nl.ndarray(g0.shape, dtype=nl.float32, buffer=nl.sbuf)
    inner = nl.ndarray(g1.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=inner, op=nl.copy, data=g1, scale=0.5)
    nisa.tensor_tensor(dst=outer, data1=g0, data2=g2, op=nl.add, engine=nisa.engine.gpsimd)
    nisa.activation(dst=f0, op=nl.copy, data=g0)
    nisa.activation(dst=f3, op=nl.copy, data=g2)
    nisa.scalar_tensor_tensor(dst=f1, data=outer, op0=nl.multiply, operand0=0.5, op1=nl.add, operand1=inner)
    nisa.scalar_tensor_tensor(dst=f2, data=outer, op0=nl.multiply, operand0=0.5, op1=nl.subtract, operand1=inner)


def multiply_squares(count, units, combined, piece, warm):
    """Return the outputs [count, rows of all images, columns] of a piece in SBUF, float32.

    units: weights combined by `square_filters` for each tile of input channels; combined: inputs combined by
    `square_inputs`.
    """
    rows = ceil_div(piece.rows, 2)
    columns = combined[0].shape[5]
    first = piece.row // 2
    squares = piece.images * rows * columns
    # axes: channels, output rows, columns of m, squares
    halves = nl.ndarray((count, 2, 4, squares), dtype=nl.float32, buffer=nl.sbuf)
    for half in range(2):
        banks: list[nl.NkiTensor] = [None, None, None, None]
        for r in ROW_ORDER:
            zeros = warm if half == 0 and r == ROW_ORDER[0] else None
            bank = psum_tile((count, 2, squares), zeros)
            for c in range(2):
                for t in range(len(units)):
                    nisa.nc_matmul(
                        dst=bank[:, c],
                        stationary=units[t][:, 8 * half + 4 * c + r, :],
                        moving=combined[t][
                            :, 2 * half + c, r, piece.image : piece.image + piece.images, first : first + rows, :
                        ],
                        accumulate=t > 0 or zeros is not None,
                    )
            banks[r] = bank
        _join_rows(halves[:, :, 2 * half : 2 * half + 2], banks)
    outputs = _join_columns(halves, (count, piece.images * rows, columns))
    if piece.rows % 2 == 0:
        return outputs[:, :, 0 : piece.columns]
    return reshaped(outputs, (count, piece.images, 2 * rows, 2 * columns))[:, :, 0 : piece.rows, 0 : piece.columns]


def _join_rows(target, banks):
    """Compute two rows of outputs [count, 2, 2, squares] from four tiles of sums [count, 2, squares] in PSUM."""
    m1 = nl.ndarray(banks[1].shape, dtype=nl.float32, buffer=nl.sbuf)
    m2 = nl.ndarray(banks[2].shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray(m1.shape, dtype=nl.float32, buffer=nl.sbuf)
    difference = nl.ndarray(m1.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=m1, op=nl.copy, data=banks[1])
    nisa.activation(dst=m2, op=nl.copy, data=banks[2])
    nisa.tensor_tensor(dst=total, data1=m1, data2=m2, op=nl.add, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=difference, data1=m1, data2=m2, op=nl.subtract, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=target[:, 0], data1=total, data2=banks[0], op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=target[:, 1], data1=difference, data2=banks[3], op=nl.subtract, engine=nisa.engine.vector)


def _join_columns(halves, shape):
    """Compute the outputs [count, rows, columns] from column combinations of output rows, [count, 2, 4, squares]."""
    count, rows, columns = shape
    total = nl.ndarray((count, 2, rows * columns), dtype=nl.float32, buffer=nl.sbuf)
    difference = nl.ndarray((count, 2, rows * columns), dtype=nl.float32, buffer=nl.sbuf)
    outputs = nl.ndarray((count, rows, 2, columns, 2), dtype=nl.float32, buffer=nl.sbuf)
    permuted = outputs.permute((0, 2, 1, 3, 4))
    m = reshaped(halves, (count, 2, 4, rows, columns))
    total = reshaped(total, (count, 2, rows, columns))
    difference = reshaped(difference, (count, 2, rows, columns))
    nisa.tensor_tensor(dst=total, data1=m[:, :, 1], data2=m[:, :, 2], op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=difference, data1=m[:, :, 1], data2=m[:, :, 2], op=nl.subtract, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=permuted[:, :, :, :, 0], data1=total, data2=m[:, :, 0], op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(
        dst=permuted[:, :, :, :, 1], data1=difference, data2=m[:, :, 3], op=nl.subtract, engine=nisa.engine.vector
    )
    return reshaped(outputs, (count, 2 * rows, 2 * columns))
