"""A feed-forward network of one hidden layer in one launch: softmax(relu(x @ w1 + b1) @ w2 + b2).

The hidden layer is computed transposed, as w1^T @ x^T: what comes out is what the second product wants as its left
operand, so only x is ever transposed, and each hidden unit lies on a partition, where its bias is one number of the
Scalar Engine's own.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .argmax import argmax
from .bias_activation import bias_activation
from .matmul import matmul_block_free_dimension, matmul_fully_optimized, matmul_hoist_load, matmul_tiled
from .tiling.tiles import check_matrix, even_tiles, group_view, row_groups, sbuf_tile
from .transpose import transpose

CHUNK = 4096  # elements of a partition at once: 16 KiB, so that loads, activations and stores overlap


def _check_network(x, w1, b1, w2, b2):
    check_matrix("x", x)
    check_matrix("w1", w1)
    check_matrix("w2", w2)
    features, hidden, classes = x.shape[1], w1.shape[1], w2.shape[1]
    assert w1.shape[0] == features, f"w1 must have {features} rows for x of shape {x.shape}, got shape {w1.shape}"
    assert w2.shape[0] == hidden, f"w2 must have {hidden} rows for w1 of shape {w1.shape}, got shape {w2.shape}"
    _check_bias("b1", b1, hidden, x)
    _check_bias("b2", b2, classes, x)
    assert w1.dtype == x.dtype and w2.dtype == x.dtype, (
        f"w1 and w2 must have the {x.dtype} of x, got {w1.dtype} and {w2.dtype}"
    )


def _check_bias(name, bias, width, x):
    check_matrix(name, bias)
    assert bias.shape[0] == 1 and bias.shape[1] == width, f"{name} must be a row [1, {width}], got shape {bias.shape}"
    assert bias.dtype == nl.float32 or bias.dtype == x.dtype, (
        f"{name} must be float32 or the {x.dtype} of x, got {bias.dtype}"
    )


def _multiply(lhsT, rhs, matmul):
    """The product by the version of matmul with that name."""
    if matmul == "tiled":
        return matmul_tiled(lhsT, rhs)
    if matmul == "hoist_load":
        return matmul_hoist_load(lhsT, rhs)
    if matmul == "block_free_dimension":
        return matmul_block_free_dimension(lhsT, rhs)
    assert matmul == "fully_optimized", (
        f"matmul must be tiled, hoist_load, block_free_dimension or fully_optimized, got {matmul}"
    )
    return matmul_fully_optimized(lhsT, rhs)


def _relu_of_units(units, bias):
    """relu(units + bias) of [hidden, N], a hidden unit a row: the bias is one number of each row."""
    hidden, samples = units.shape
    out = nl.ndarray(units.shape, dtype=units.dtype, buffer=nl.shared_hbm)
    for group in row_groups(hidden, max(1, CHUNK // samples)):
        bias_column = sbuf_tile((group.partitions, group.rows), bias.dtype)
        nisa.dma_copy(dst=bias_column, src=bias[0, group.start : group.end].reshape((group.partitions, group.rows)))
        for columns in even_tiles(samples, CHUNK):
            data = sbuf_tile((group.partitions, group.rows, columns.size), units.dtype)
            nisa.dma_copy(dst=data, src=group_view(units, group, columns))
            for row in range(group.rows):
                nisa.activation(
                    dst=data[:, row, :], op=nl.relu, data=data[:, row, :], bias=bias_column[:, row : row + 1]
                )
            nisa.dma_copy(dst=group_view(out, group, columns), src=data)
    return out


def _output_layer(x, w1, b1, w2, matmul):
    """relu(x @ w1 + b1) @ w2, [N, classes]."""
    hidden = _relu_of_units(_multiply(w1, transpose(x), matmul), b1)
    return _multiply(hidden, w2, matmul)


@nki.jit
def ffnn_forward(x, w1, b1, w2, b2, matmul="fully_optimized"):
    """Class probabilities of a batch.

    Dimensions:
        N: samples.
        d: features.
        h: hidden units.
        c: classes. All four any, as far as the matmul named takes them.
    Args:
        x: [N, d] in HBM; float32, bfloat16 or float16.
        w1, w2: [d, h] and [h, c] in HBM, of the dtype of x.
        b1, b2: [1, h] and [1, c] in HBM; float32 or the dtype of x.
        matmul: tiled, hoist_load, block_free_dimension or fully_optimized.
    Returns:
        [N, c] in HBM, of the dtype of x: the softmax of each row.
    Notes:
        Products go through HBM in the dtype of x; within each step everything is float32.
    """
    _check_network(x, w1, b1, w2, b2)
    return bias_activation(_output_layer(x, w1, b1, w2, matmul), b2, "softmax")


@nki.jit
def ffnn_predict(x, w1, b1, w2, b2, matmul="fully_optimized"):
    """Classes of a batch, by the largest output; of equals, the first.

    Dimensions and Args:
        Those of `ffnn_forward`.
    Returns:
        int32 [N] in HBM, each from 0 to c - 1.
    Notes:
        Softmax keeps the order of a row, so it is left out: outputs that it would round to equal probabilities are
        still distinguished.
    """
    _check_network(x, w1, b1, w2, b2)
    return argmax(bias_activation(_output_layer(x, w1, b1, w2, matmul), b2, "identity"))
