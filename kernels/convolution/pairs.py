"""Compute output columns in pairs: 3x3 filters with two thirds of the matmul work, using minimal filtering F(2, 3).

For adjacent outputs y0, y1 of a filter row (g0, g1, g2) over inputs d0 to d3 (S. Winograd, Arithmetic Complexity of
Computations, 1980):

    m0 = (d0 - d2) * g0          m1 = (d1 + d2) * (g0 + g1 + g2)
    m3 = (d1 - d3) * g2          m2 = (d2 - d1) * (g0 - g1 + g2)
    y0 = m0 + (m1 + m2) / 2      y1 = (m1 - m2) / 2 - m3

The products are summed over channels and filter rows before the outputs are formed, so m0 to m3 are four matmuls that
accumulate in four PSUM banks. The additions on the input run on the Vector Engine, once for all output channels.
"""

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import ceil_div
from ..tiling.tiles import even_tiles, itemsize, reshaped
from ..tiling.warm_up import psum_tile
from .plan import rows_of_taps

ORDER = (1, 2, 0, 3)  # order in which the sums are computed: sums that are evicted first come first
FIRST = 1
BAND_ELEMENTS = 512  # elements of a combination computed per instruction


def pair_inputs(tile, plan):
    """Compute the four combinations of an input tile [K, images, rows, columns] as [K, 4, images, rows, pairs].

    Rows are combined band by band, so that matmuls of the first rows need not wait for the last rows.
    """
    partitions, images, rows = tile.shape[:3]
    pairs = ceil_div(plan.problem.output[1], 2)
    combined = nl.ndarray((partitions, 4, images, rows, pairs), dtype=tile.dtype, buffer=nl.sbuf)
    for band in even_tiles(rows, max(1, BAND_ELEMENTS // (images * pairs))):
        rows_of_band = tile[:, :, band.start : band.end, 0 : 2 * pairs + 2]
        _combine(combined[:, :, :, band.start : band.end], rows_of_band, plan.problem.filters.come_from_network)
    return combined


def _combine(combined, tile, from_host):
    """Compute the combinations [K, 4, images, rows, pairs] of [K, images, rows, 2 * pairs + 2].

    With 16-bit values, the columns are first split into even and odd columns, which the Vector Engine adds at two
    elements per cycle (trainium2_arch). If the filters are rounded twice (before and after they are combined), the
    rounding error of the input is partly compensated: (c1 + c2) / 2 and (c1 - c2) / 2 replace d2 and d1 in the other
    two combinations.
    """
    partitions, images, rows, columns = tile.shape
    pairs = combined.shape[4]
    even = tile[:, :, :, 0:columns:2]
    odd = tile[:, :, :, 1:columns:2]
    narrow = itemsize(tile.dtype) == 2
    if narrow:
        planes = nl.ndarray((partitions, 2, images, rows, pairs + 1), dtype=tile.dtype, buffer=nl.sbuf)
        nisa.activation(dst=planes[:, 0], op=nl.copy, data=even)
        nisa.activation(dst=planes[:, 1], op=nl.copy, data=odd)
        even, odd = planes[:, 0], planes[:, 1]
    d0, d2 = even[:, :, :, 0:pairs], even[:, :, :, 1 : pairs + 1]
    d1, d3 = odd[:, :, :, 0:pairs], odd[:, :, :, 1 : pairs + 1]
    other = nisa.engine.vector if narrow else nisa.engine.gpsimd
    c1, c2 = combined[:, 1], combined[:, 2]
    nisa.tensor_tensor(dst=c1, data1=d1, data2=d2, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=c2, data1=d2, data2=d1, op=nl.subtract, engine=other)
    if narrow and not from_host:
        doubles = nl.ndarray((partitions, 2, images, rows, pairs), dtype=nl.float32, buffer=nl.sbuf)  # twice d2 and d1
        nisa.tensor_tensor(dst=doubles[:, 0], data1=c1, data2=c2, op=nl.add, engine=nisa.engine.gpsimd)
        nisa.tensor_tensor(dst=doubles[:, 1], data1=c1, data2=c2, op=nl.subtract, engine=nisa.engine.gpsimd)
        _add_half(combined[:, 0], doubles[:, 0], -0.5, nl.add, d0)
        _add_half(combined[:, 3], doubles[:, 1], 0.5, nl.subtract, d3)
    else:
        nisa.tensor_tensor(dst=combined[:, 0], data1=d0, data2=d2, op=nl.subtract, engine=nisa.engine.vector)
        nisa.tensor_tensor(dst=combined[:, 3], data1=d1, data2=d3, op=nl.subtract, engine=nisa.engine.vector)


def _add_half(dst, double, half, op, other):
    """Compute dst = double * half op other."""
    nisa.scalar_tensor_tensor(dst=dst, data=double, op0=nl.multiply, operand0=half, op1=op, operand1=other)


def pair_filters(weights):
    """Compute the four combinations of the taps of each filter row: [K, 3 * filter rows, Cout] to [K, 4 * filter rows,
    Cout]."""
    partitions, steps, count = weights.shape
    rows = steps // 3
    taps = reshaped(weights, (partitions, rows, 3, count))
    g0 = taps[:, :, 0, :]
    g1 = taps[:, :, 1, :]
    g2 = taps[:, :, 2, :]
    outer = nl.ndarray((partitions, rows, count), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((partitions, 4 * rows, count), dtype=weights.dtype, buffer=nl.sbuf)
    combined = reshaped(result, (partitions, rows, 4, count))
    nisa.activation(dst=combined[:, :, 0, :], op=nl.copy, data=g0)
    nisa.activation(dst=combined[:, :, 3, :], op=nl.copy, data=g2)
    nisa.tensor_tensor(dst=outer, data1=g0, data2=g2, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=combined[:, :, 1, :], data1=outer, data2=g1, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=combined[:, :, 2, :], data1=outer, data2=g1, op=nl.subtract, engine=nisa.engine.vector)
    return result


def multiply_pairs(count, units, combined, plan, piece, warm):
    """Compute the four sums of an output piece in PSUM, [count, rows of all images, pairs] each.

    units: weights combined by `pair_filters` for each tile of input channels, computed as needed; combined: inputs
    combined by `pair_inputs`. `warm`, if not None, is the zeroed PSUM tile of the sum that is computed first.
    """
    shape = (count, piece.images * piece.rows, ceil_div(piece.columns, 2))
    sums = [psum_tile(shape, warm if m == FIRST else None) for m in range(4)]
    for t, weights in enumerate(units):
        for m in ORDER:
            target = reshaped(sums[m], (sums[m].shape[0], piece.images, piece.rows, sums[m].shape[2]))
            for s in range(len(plan.steps) // 3):
                step = plan.steps[3 * s]
                tap_rows = rows_of_taps(plan, t, step.taps)
                row = piece.row + step.down
                nisa.nc_matmul(
                    dst=target,
                    stationary=weights[0:tap_rows, 4 * s + m, :],
                    moving=combined[t][
                        0:tap_rows, m, piece.image : piece.image + piece.images, row : row + piece.rows, :
                    ],
                    accumulate=t > 0 or s > 0 or (m == FIRST and warm is not None),
                )
    return sums


def join_pairs(sums, columns, pooled):
    """Combine four sums in PSUM into the outputs [count, rows, columns] in SBUF, in float32.

    If `pooled`, return the maxima of column pairs, [count, rows, pairs].
    """
    count, rows, pairs = sums[0].shape
    half1 = nl.ndarray((count, rows, pairs), dtype=nl.float32, buffer=nl.sbuf)
    half2 = nl.ndarray((count, rows, pairs), dtype=nl.float32, buffer=nl.sbuf)
    even = nl.ndarray((count, rows, pairs), dtype=nl.float32, buffer=nl.sbuf)
    odd = nl.ndarray((count, rows, pairs), dtype=nl.float32, buffer=nl.sbuf)
    outputs = nl.ndarray((count, rows, pairs, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=half1, op=nl.copy, data=sums[1], scale=0.5)
    nisa.activation(dst=half2, op=nl.copy, data=sums[2], scale=0.5)
    nisa.tensor_tensor(dst=even, data1=half1, data2=half2, op=nl.add, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=odd, data1=half1, data2=half2, op=nl.subtract, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=outputs[:, :, :, 0], data1=even, data2=sums[0], op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=outputs[:, :, :, 1], data1=odd, data2=sums[3], op=nl.subtract, engine=nisa.engine.vector)
    if pooled:
        largest = nl.ndarray((count, rows, pairs), dtype=nl.float32, buffer=nl.sbuf)
        first, second = outputs[:, :, :, 0], outputs[:, :, :, 1]
        nisa.tensor_tensor(dst=largest, data1=first, data2=second, op=nl.maximum, engine=nisa.engine.gpsimd)
        return largest
    return reshaped(outputs, (count, rows, 2 * pairs))[:, :, 0:columns]
