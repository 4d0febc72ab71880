"""Parts that the measured attention kernels share: tiles of 128 x 128, projection, normalisation and rotation."""

import nki.isa as nisa
import nki.language as nl

P = 128
BATCH = 4  # tiles of keys per matmul


def sbuf(columns=P, dtype=nl.float32):
    return nl.ndarray((P, columns), dtype=dtype, buffer=nl.sbuf)


def copied(src, dtype=nl.float32):
    """Return a copy of a tile in SBUF with the given dtype."""
    dst = nl.ndarray(src.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst, src)
    return dst


def transposed(src):
    """Return the transpose of a bfloat16 tile, through PSUM."""
    flipped = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.psum)
    nisa.nc_transpose(flipped, src)
    return copied(flipped, nl.bfloat16)


def two(op, first, second):
    dst = nl.ndarray(first.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst, first, second, op=op)
    return dst


def scaled(data, op, number):
    dst = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst, data, op0=op, operand0=number)
    return dst


def function(op, data):
    dst = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst, op=op, data=data)
    return dst


def reduced(op, data):
    dst = nl.ndarray((data.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=dst, op=op, data=data, axis=1)
    return dst


def spread(column, columns=P):
    """Return a column that a DMA copies to `columns` columns by reading each element repeatedly."""
    dst = sbuf(columns)
    nisa.dma_copy(dst=dst, src=column.ap(pattern=[[1, P], [0, columns]], offset=0))
    return dst


def loaded(src, dtype=nl.bfloat16):
    dst = nl.ndarray(src.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=dst, src=src)
    return dst


def norm_weight(weight):
    """Load a weight [128], cast it to float32, and broadcast it as columns of a tile."""
    column = loaded(weight.reshape((P, 1)))
    return spread(copied(column))


def normalized(sums, weight, ones, eps=1e-6):
    """Return RMS-normalised rows of a PSUM tile, computed on its transpose with a matmul of ones."""
    rows = copied(sums)
    flipped = copied(transposed(copied(rows, nl.bfloat16)))
    squares = copied(two(nl.multiply, flipped, flipped), nl.bfloat16)
    total = nl.zeros((P, P), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, stationary=ones, moving=squares)
    mean = scaled(copied(total), nl.multiply, 1.0 / P)
    inverse = function(nl.rsqrt, scaled(mean, nl.add, eps))
    result = two(nl.multiply, two(nl.multiply, flipped, inverse), weight)
    return copied(transposed(copied(result, nl.bfloat16)))


def rotated(tile, cos, sin):
    """Apply rotary position embedding to the rows of a tile."""
    half = P // 2
    turned = sbuf()
    negative = scaled(tile[0:P, half:P], nl.multiply, -1.0)
    nisa.tensor_copy(turned[0:P, 0:half], negative)
    nisa.tensor_copy(turned[0:P, half:P], tile[0:P, 0:half])
    return two(nl.add, two(nl.multiply, tile, cos), two(nl.multiply, turned, sin))


def rotated_columns(data, cos, sin):
    """Apply rotary position embedding to columns."""
    half, count = P // 2, data.shape[1]
    turned = sbuf(count)
    nisa.tensor_copy(turned[0:half, 0:count], scaled(data[half:P, 0:count], nl.multiply, -1.0))
    nisa.tensor_copy(turned[half:P, 0:count], data[0:half, 0:count])
    return two(nl.add, two(nl.multiply, data, cos), two(nl.multiply, turned, sin))


def masked(scores, offset):
    """Return the scores, with the smallest number for keys after the query."""
    dst = sbuf(scores.shape[1])
    nisa.affine_select(
        dst=dst,
        on_true_tile=scores,
        on_false_value=-3.4e38,
        pattern=[[-1, scores.shape[1]]],
        offset=offset,
        channel_multiplier=1,
        cmp_op=nl.greater_equal,
    )
    return dst


def scored(queries, keys):
    """Return queries.T @ keys, in SBUF."""
    sums = nl.zeros((P, keys.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary=queries, moving=keys)
    return copied(sums)
