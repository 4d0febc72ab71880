"""The first part of the measured fused MoE blocks (rows o27 to o40), on both cores: RMS norm, router, softmax, and the
eight largest probabilities. This module also contains helpers that the blocks share."""

import nki.isa as nisa
import nki.language as nl

P = 128
CHOSEN = 8  # number of experts per token
EPSILON = 1e-6
STATIC = nisa.dge_mode.none


def tile(rows, columns, dtype=nl.float32):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


def psum(rows, columns, dtype=nl.float32):
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.psum)


def computed(op, data, dtype=nl.float32):
    """Apply op to data on the Scalar Engine."""
    dst = nl.ndarray(data.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.activation(dst, op=op, data=data)
    return dst


def combined(first, second, op=nl.multiply, dtype=nl.float32):
    dst = nl.ndarray(first.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst, first, second, op)
    return dst


def by_column(data, column, op=nl.multiply):
    """Return data <op> column, where the column has one number per partition."""
    dst = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst, data=data, op0=op, operand0=column)
    return dst


def reduced(op, data):
    dst = tile(data.shape[0], 1)
    nisa.tensor_reduce(dst, op, data, axis=1)
    return dst


def spread_rows(dst):
    """Copy row 0 of a tile to all partitions."""
    width = dst.shape[1]
    for quadrant in range(4):
        nisa.nc_stream_shuffle(
            dst=dst[quadrant * 32 : (quadrant + 1) * 32, 0:width], src=dst[0:1, 0:width], shuffle_mask=[0] * 32
        )


def columns_of(vector, by_dma):
    """Return a vector of H elements as columns [128, H / 128], which a DMA or the Tensor Engine transposes."""
    count = vector.shape[-1] // P
    rows = vector.reshape((count, P))
    if by_dma:
        turned = nl.ndarray((P, 1, 1, count), dtype=vector.dtype, buffer=nl.sbuf)
        nisa.dma_transpose(dst=turned, src=rows.reshape((count, 1, 1, P)))
        return turned.reshape((P, count))
    flat = tile(count, P, vector.dtype)
    nisa.dma_copy(dst=flat, src=rows, dge_mode=STATIC)
    flipped = psum(P, count, vector.dtype)
    nisa.nc_transpose(dst=flipped, data=flat)
    return computed(nl.copy, flipped, vector.dtype)


def normalized(hidden, gamma, by_dma):
    """Return the normalised token as columns [128, H / 128] bfloat16."""
    data, weight = columns_of(hidden, by_dma), columns_of(gamma, by_dma)
    count = data.shape[1]
    squares = reduced(nl.add, computed(nl.square, data))
    weighted = combined(data, weight)
    total = tile(1, 1)
    nisa.tensor_partition_reduce(dst=total, data=squares, op=nl.add)
    everywhere = tile(P, 1)
    nisa.tensor_copy(dst=everywhere[0:1, 0:1], src=total)
    spread_rows(everywhere)
    epsilon = tile(P, 1)
    nisa.memset(epsilon, value=EPSILON)
    factor = tile(P, 1)
    nisa.activation(factor, op=nl.rsqrt, data=everywhere, scale=1.0 / (P * count), bias=epsilon)
    return computed(nl.copy, combined(weighted, factor.ap([[1, P], [0, count]], offset=0)), nl.bfloat16)


def logits(token, router, batch, mode):
    """Return the router's scores [1, E]. Each DMA loads the weights for `batch` columns of the token."""
    experts = router.shape[1]
    sums = psum(1, experts)
    weights = nl.ndarray((P, batch, experts), dtype=router.dtype, buffer=nl.sbuf)
    for first in range(0, token.shape[1], batch):
        source = router.ap(pattern=[[experts, P], [P * experts, batch], [1, experts]], offset=first * P * experts)
        nisa.dma_copy(dst=weights, src=source, dge_mode=mode)
        for b in range(batch):
            moving = weights[0:P, b, 0:experts]
            nisa.nc_matmul(dst=sums, stationary=token[0:P, first + b : first + b + 1], moving=moving)
    return computed(nl.copy, sums)


def chosen_experts(scores):
    """Return the eight largest probabilities [1, 8] and their experts."""
    centred = by_column(scores, reduced(nl.maximum, scores), nl.subtract)
    exponentials = computed(nl.exp, centred)
    inverse = computed(nl.reciprocal, reduced(nl.add, exponentials))
    probabilities = by_column(exponentials, inverse)
    values, indices = tile(1, CHOSEN), tile(1, CHOSEN, nl.uint32)
    nisa.max8(dst=values, src=probabilities)
    nisa.nc_find_index8(dst=indices, data=probabilities, vals=values)
    return values, indices


def affinities(values):
    """Return the probabilities of the chosen experts, divided by their sum, on all partitions, [128, 8]."""
    inverse = computed(nl.reciprocal, reduced(nl.add, values))
    weights = by_column(values, inverse)
    everywhere = tile(P, CHOSEN)
    nisa.memset(everywhere, value=0.0)
    nisa.tensor_copy(dst=everywhere[0:1, 0:CHOSEN], src=weights)
    spread_rows(everywhere)
    return everywhere


def expert_of(indices, number):
    return indices.ap(pattern=[[CHOSEN, 1], [1, 1]], offset=number)


def stored(total, features):
    """Store this core's half of the token, [128, H / 256], as bfloat16."""
    out = nl.ndarray((1, features), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    half = total.shape[1] * P
    row = tile(1, half, nl.bfloat16)
    for column in range(total.shape[1]):
        flipped = psum(1, P)
        nisa.nc_transpose(dst=flipped, data=total[0:P, column : column + 1])
        nisa.activation(dst=row[0:1, column * P : (column + 1) * P], op=nl.copy, data=flipped)
    start = nl.program_id(axis=0) * half
    nisa.dma_copy(dst=out[0:1, start : start + half], src=row)
    return out
