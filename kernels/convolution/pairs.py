"""Output columns in pairs: 3x3 filters by two thirds of the matmuls, with the minimal filtering algorithm F(2, 3).

For neighbouring outputs y0, y1 of a filter row (g0, g1, g2) over inputs d0 to d3 (S. Winograd, Arithmetic Complexity of
Computations, 1980):

    m0 = (d0 - d2) * g0          m1 = (d1 + d2) * (g0 + g1 + g2)
    m3 = (d1 - d3) * g2          m2 = (d2 - d1) * (g0 - g1 + g2)
    y0 = m0 + (m1 + m2) / 2      y1 = (m1 - m2) / 2 - m3

The products sum over channels and filter rows before the outputs are formed, so that the four m are four matmuls that
accumulate in four PSUM banks. The additions on the input run on the Vector Engine, once for all output channels.
"""

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import ceil_div
from ..tiling.warm_up import psum_tile
from .plan import rows_of_taps

ORDER = (1, 2, 0, 3)  # of the sums: first those that are copied out of PSUM
FIRST = 1


def pair_inputs(tile, plan):
    """The four combinations of an input tile [K, images, rows, columns], as [K, 4, images, rows, pairs]."""
    partitions, images, rows = tile.shape[:3]
    pairs = ceil_div(plan.problem.out_columns, 2)
    end = 2 * pairs
    combined = nl.ndarray((partitions, 4, images, rows, pairs), dtype=tile.dtype, buffer=nl.sbuf)
    d0 = tile[:, :, :, 0:end:2]
    d1 = tile[:, :, :, 1:end:2]
    d2 = tile[:, :, :, 2 : end + 2 : 2]
    d3 = tile[:, :, :, 3 : end + 2 : 2]
    nisa.tensor_tensor(dst=combined[:, 0], data1=d0, data2=d2, op=nl.subtract, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=combined[:, 1], data1=d1, data2=d2, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=combined[:, 2], data1=d2, data2=d1, op=nl.subtract, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=combined[:, 3], data1=d1, data2=d3, op=nl.subtract, engine=nisa.engine.vector)
    return combined


def pair_filters(weights):
    """The four combinations of the taps of a filter row: [K, 3 * filter rows, Cout] to [K, 4 * filter rows, Cout]."""
    partitions, steps, count = weights.shape
    rows = steps // 3
    taps = weights.reshape((partitions, rows, 3, count))
    g0 = taps[:, :, 0, :]
    g1 = taps[:, :, 1, :]
    g2 = taps[:, :, 2, :]
    outer = nl.ndarray((partitions, rows, count), dtype=nl.float32, buffer=nl.sbuf)
    result = nl.ndarray((partitions, 4 * rows, count), dtype=weights.dtype, buffer=nl.sbuf)
    combined = result.reshape((partitions, rows, 4, count))
    nisa.activation(dst=combined[:, :, 0, :], op=nl.copy, data=g0)
    nisa.activation(dst=combined[:, :, 3, :], op=nl.copy, data=g2)
    nisa.tensor_tensor(dst=outer, data1=g0, data2=g2, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=combined[:, :, 1, :], data1=outer, data2=g1, op=nl.add, engine=nisa.engine.vector)
    nisa.tensor_tensor(dst=combined[:, :, 2, :], data1=outer, data2=g1, op=nl.subtract, engine=nisa.engine.vector)
    return result


def pair_sums(count, piece, warm):
    """Four PSUM tiles [count, rows of all images, pairs] for a piece of the output; `warm` is the second, if there."""
    shape = (count, piece.images * piece.rows, ceil_div(piece.columns, 2))
    sums = []
    for m in range(4):
        sums.append(psum_tile(shape, warm if m == FIRST else None))
    return sums


def accumulate_pairs(sums, weights, combined, plan, t, piece, warm):
    """Add the contribution of input tile `t` to the four sums of a piece."""
    for m in ORDER:
        target = sums[m].reshape((sums[m].shape[0], piece.images, piece.rows, sums[m].shape[2]))
        for s in range(len(plan.steps) // 3):
            step = plan.steps[3 * s]
            used = rows_of_taps(plan, t, step.taps)
            row = piece.row + step.down
            nisa.nc_matmul(
                dst=target,
                stationary=weights[0:used, 4 * s + m, :],
                moving=combined[0:used, m, piece.image : piece.image + piece.images, row : row + piece.rows, :],
                accumulate=t > 0 or s > 0 or (m == FIRST and warm is not None),
            )


def join_pairs(sums, columns):
    """The outputs [count, rows, columns] in SBUF, float32, from their four sums in PSUM."""
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
    return outputs.reshape((count, rows, 2 * pairs))[:, :, 0:columns]
