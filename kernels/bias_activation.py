"""Add a bias row to every row of a matrix and apply an activation: [N, H] + [1, H] -> [N, H].

Rows are laid out along the partitions, with several short rows per partition. The bias varies along the free axis,
which the bias operand of the Scalar Engine (one number per partition) cannot express. Therefore one DMA copies the bias
row to all 128 partitions.

Softmax subtracts the row's maximum before exponentiating. For a long row, the negative maximum is the bias of the
exponential, and the Scalar Engine accumulates the sum. Short rows share instructions instead, because issuing an
instruction per row would take longer than processing its elements.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .activation_functions import activate
from .tiling.tiles import (
    Tile,
    check_matrix,
    copy_by_hardware,
    even_tiles,
    group_view,
    row_groups,
    sbuf_tile,
    usable_sbuf_bytes,
)

CHUNK = 2048  # elements of a partition processed together: 8 KiB, so that SBUF can hold several chunks in flight
SHORT_ROW = 256  # rows of up to this many elements share softmax instructions


def _bias_chunk(bias, columns):
    """Load a range of columns of the bias row into every partition."""
    chunk = sbuf_tile((nl.tile_size.pmax, columns.size), bias.dtype)
    copy_by_hardware(dst=chunk, src=bias[:, columns.start : columns.end].broadcast(0, nl.tile_size.pmax))
    return chunk


def _add_bias(dst, a, group, columns, bias):
    """Load a range of columns of a row group and add the bias to each row: dst [partitions, rows, columns]."""
    data = sbuf_tile(dst.shape, a.dtype)
    copy_by_hardware(dst=data, src=group_view(a, group, columns))
    repeated = bias[0 : group.partitions, :].expand_dim(1).broadcast(1, group.rows)
    nisa.tensor_tensor(dst=dst, data1=data, data2=repeated, op=nl.add)


def _elementwise(out, a, bias, activation, parameters):
    """Apply an elementwise activation. The bias of each range of columns is loaded once for all rows."""
    rows, width = a.shape
    for columns in even_tiles(width, CHUNK):
        bias_chunk = _bias_chunk(bias, columns)
        for group in row_groups(rows, CHUNK // columns.size):
            shape = (group.partitions, group.rows, columns.size)
            result = sbuf_tile(shape, a.dtype)
            if activation == "identity":
                _add_bias(result, a, group, columns, bias_chunk)
            else:
                total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
                _add_bias(total, a, group, columns, bias_chunk)
                activate(result, total, activation, parameters)
            copy_by_hardware(dst=group_view(out, group, columns), src=result)


def softmax_tile(dst, data, largest):
    """Compute the softmax of rows in SBUF. dst and data (float32, overwritten) are [partitions, rows, columns];
    `largest` [partitions, rows, 1] holds the rows' maxima."""
    partitions, rows, width = data.shape
    sums = nl.ndarray((partitions, rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=data, data1=data, data2=largest.broadcast(2, width), op=nl.subtract)
    nisa.activation(dst=data, op=nl.exp, data=data)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=data, axis=2, keepdims=True)
    nisa.reciprocal(dst=sums, data=sums)
    nisa.tensor_tensor(dst=dst, data1=data, data2=sums.broadcast(2, width), op=nl.multiply)


def _softmax_short_rows(out, a, bias):
    """Compute the softmax of rows of at most SHORT_ROW elements, with several rows per partition."""
    rows, width = a.shape
    columns = Tile(0, 0, width, width)
    bias_chunk = _bias_chunk(bias, columns)
    for group in row_groups(rows, CHUNK // width):
        shape = (group.partitions, group.rows, width)
        row_shape = (group.partitions, group.rows, 1)
        total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        _add_bias(total, a, group, columns, bias_chunk)
        largest = nl.ndarray(row_shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=total, axis=2, keepdims=True)
        result = sbuf_tile(shape, a.dtype)
        softmax_tile(result, total, largest)
        copy_by_hardware(dst=group_view(out, group, columns), src=result)


def exponentials(data, peaks):
    """Replace rows in SBUF with exp(row - maximum), and return the reciprocals of the sums, [partitions, 1].

    data: float32 [partitions, 1, columns], one row per partition. peaks: [partitions, any]; the largest value in each
    partition is the maximum of the row.
    """
    shift = nl.ndarray((data.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=shift, op=nl.maximum, data=peaks, axis=1, negate=True)
    scale = nl.ndarray((data.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=data,
        op=nl.exp,
        data=data,
        bias=shift,
        reduce_op=nl.add,
        reduce_res=scale,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    nisa.reciprocal(dst=scale, data=scale)
    return scale


def _softmax_long_rows(out, a, bias):
    """Compute the softmax of long rows, one per partition. A row stays in SBUF, but is loaded and stored in chunks."""
    rows, width = a.shape
    chunks = even_tiles(width, CHUNK)
    # The whole bias stays in SBUF if it fits in addition to the row and the chunks in flight.
    keep_bias = 4 * (2 * width + 8 * CHUNK) <= usable_sbuf_bytes()
    bias_chunks = []
    if keep_bias:
        for columns in chunks:
            bias_chunks.append(_bias_chunk(bias, columns))
    for group in row_groups(rows, 1):
        total = nl.ndarray((group.partitions, 1, width), dtype=nl.float32, buffer=nl.sbuf)
        peaks = nl.ndarray((group.partitions, len(chunks)), dtype=nl.float32, buffer=nl.sbuf)
        for columns in chunks:
            bias_chunk = bias_chunks[columns.index] if keep_bias else _bias_chunk(bias, columns)
            part = total[:, :, columns.start : columns.end]
            _add_bias(part, a, group, columns, bias_chunk)
            nisa.tensor_reduce(dst=peaks[:, columns.index], op=nl.maximum, data=part, axis=(1, 2))
        scale = exponentials(total, peaks)
        for columns in chunks:
            result = nl.ndarray((group.partitions, 1, columns.size), dtype=a.dtype, buffer=nl.sbuf)
            part = total[:, :, columns.start : columns.end]
            # This step runs on the Scalar Engine because the Vector Engine has already made two passes over the row.
            nisa.activation(dst=result, op=nl.copy, data=part, scale=scale)
            copy_by_hardware(dst=group_view(out, group, columns), src=result)


@nki.jit
def bias_activation(a, bias, activation="identity", parameters=()):
    """Add a bias row and apply an activation.

    Dimensions:
        N: rows, any number.
        H: columns; any number, except for softmax, where a row and six chunks must fit in a partition of SBUF: 32,702
            on trn1.
    Args:
        a: [N, H] in HBM; float32, bfloat16 or float16.
        bias: [1, H] in HBM; float32 or the dtype of a.
        activation, parameters: softmax over each row, or an activation and its parameters as for `activate`.
    Returns:
        [N, H] in HBM, with the same dtype as a. Intermediate results are float32.
    Notes:
        Softmax is numerically stable: rows of large numbers neither overflow nor lose their sum.
    """
    check_matrix("a", a)
    check_matrix("bias", bias)
    rows, width = a.shape
    assert bias.shape[0] == 1 and bias.shape[1] == width, (
        f"bias must be a row [1, {width}] for a of shape {a.shape}, got shape {bias.shape}"
    )
    assert bias.dtype == nl.float32 or bias.dtype == a.dtype, (
        f"bias must be float32 or the {a.dtype} of a, got {bias.dtype}"
    )
    out = nl.ndarray((rows, width), dtype=a.dtype, buffer=nl.shared_hbm)
    if activation != "softmax":
        _elementwise(out, a, bias, activation, parameters)
    elif width <= SHORT_ROW:
        _softmax_short_rows(out, a, bias)
    else:
        longest = usable_sbuf_bytes() // 4 - 6 * CHUNK
        assert width <= longest, (
            f"softmax supports rows of at most {longest} elements for this dtype and target, got {width}"
        )
        _softmax_long_rows(out, a, bias)
    return out
