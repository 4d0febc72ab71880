"""A feed-forward network with one hidden layer in one launch: softmax(relu(x @ w1 + b1) @ w2 + b2).

The hidden layer is computed in transposed form, as w1^T @ x^T, which is the left operand that the second product
requires. Therefore only x must be transposed. Each hidden unit occupies a partition, so that the Scalar Engine can add
its bias as part of the activation instruction.

`fused` keeps the hidden layer of a row block in SBUF (ffnn_fused.py). The versions that are named after a matmul kernel
store intermediate results in HBM. They show successive optimization steps, and support networks for which too few rows
fit in SBUF.
"""

import nki
import nki.isa as nisa
import nki.language as nl

from .argmax import SEARCH_WIDTH, argmax, fill_up, find_largest
from .bias_activation import SHORT_ROW, bias_activation, exponentials, softmax_tile
from .ffnn_fused import Finish, run_fused
from .ffnn_plan import LEAST_ROWS, LEAST_ROWS_APART, LEAST_ROWS_OF_TRN1, PITCH, WIDTH, Sizes, plan_fused
from .matmul import matmul_block_free_dimension, matmul_fully_optimized, matmul_hoist_load, matmul_tiled
from .matmul_blocks import whole_rows
from .tiling.tiles import (
    ceil_div,
    check_matrix,
    copy_by_hardware,
    even_tiles,
    group_view,
    itemsize,
    row_groups,
    sbuf_tile,
    store_rows,
    usable_sbuf_bytes,
)
from .transpose import transpose

CHUNK = 4096  # elements of a partition processed together: 16 KiB, so that loads, activations and stores overlap


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
    """Multiply with the matmul kernel of the given name."""
    if matmul == "tiled":
        return matmul_tiled(lhsT, rhs)
    if matmul == "hoist_load":
        return matmul_hoist_load(lhsT, rhs)
    if matmul == "block_free_dimension":
        return matmul_block_free_dimension(lhsT, rhs)
    assert matmul in ("fused", "fully_optimized"), (
        f"matmul must be fused, tiled, hoist_load, block_free_dimension or fully_optimized, got {matmul}"
    )
    return matmul_fully_optimized(lhsT, rhs)


def _relu_of_units(units, bias):
    """Compute relu(units + bias) for units [hidden, N], with one hidden unit per row."""
    hidden, samples = units.shape
    out = nl.ndarray(units.shape, dtype=units.dtype, buffer=nl.shared_hbm)
    for group in row_groups(hidden, max(1, CHUNK // samples)):
        bias_column = sbuf_tile((group.partitions, group.rows), bias.dtype)
        copy_by_hardware(dst=bias_column, src=bias[0, group.start : group.end].reshape((group.partitions, group.rows)))
        for columns in even_tiles(samples, CHUNK):
            data = sbuf_tile((group.partitions, group.rows, columns.size), units.dtype)
            copy_by_hardware(dst=data, src=group_view(units, group, columns))
            for row in range(group.rows):
                nisa.activation(
                    dst=data[:, row, :], op=nl.relu, data=data[:, row, :], bias=bias_column[:, row : row + 1]
                )
            copy_by_hardware(dst=group_view(out, group, columns), src=data)
    return out


def _output_layer(x, w1, b1, w2, matmul):
    """Compute relu(x @ w1 + b1) @ w2, [N, classes]."""
    hidden = _relu_of_units(_multiply(w1, transpose(x), matmul), b1)
    return _multiply(hidden, w2, matmul)


class Probabilities(Finish):
    """A `Finish` that computes the softmax of each row."""

    wants_peaks = True

    def __init__(self, out):
        self.out = out

    def answer(self, start, end, logits, peaks):
        classes = self.out.shape[1]
        data = logits[:, :, 0:classes]
        rows = self.out[start:end, :]
        result = sbuf_tile(data.shape, self.out.dtype)
        if classes <= SHORT_ROW or peaks is None:
            largest = nl.ndarray((*data.shape[0:2], 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(dst=largest, op=nl.maximum, data=data, axis=2, keepdims=True)
            softmax_tile(result, data, largest)
            _store_tiles(rows, result)
            return
        scale = exponentials(data, peaks)
        for half in even_tiles(classes, ceil_div(classes, 2)):
            part, source = result[:, 0, half.start : half.end], data[:, 0, half.start : half.end]
            if half.index == 0:
                nisa.activation(dst=part, op=nl.copy, data=source, scale=scale)
            else:
                nisa.tensor_scalar(dst=part, data=source, op0=nl.multiply, operand0=scale, engine=nisa.engine.vector)
            copy_by_hardware(dst=rows[:, half.start : half.end], src=part)


class Classes(Finish):
    """A `Finish` that finds the largest logit of each row, or the first of them if several are equal."""

    def __init__(self, out, classes):
        self.out = out
        self.classes = classes

    def answer(self, start, end, logits, peaks):
        indices = nl.ndarray(logits.shape[0:2], dtype=nl.int32, buffer=nl.sbuf)
        fill_up(logits, self.classes)
        find_largest(indices, logits[:, :, 0 : max(self.classes, SEARCH_WIDTH)])
        _store_tiles(self.out[start:end].reshape((end - start, 1)), indices.expand_dim(2))


def _store_tiles(dst, src):
    """Store tiles [partitions, tiles, columns] to rows in HBM. All tiles have 128 rows, or there is a single smaller
    tile."""
    if src.shape[1] > 1:
        store_rows(dst, src)
    else:
        copy_by_hardware(dst=dst, src=src[:, 0, :])


def _plan(x, w2, matmul):
    """Return the plan of the fused version, or None if another version was requested or if no row block fits."""
    if matmul != "fused":
        return None
    size = itemsize(x.dtype)
    widths = [columns for columns in w2.shape if columns > WIDTH]
    pitched = whole_rows() and any(columns * size % PITCH == 0 for columns in widths)
    least = LEAST_ROWS_APART if pitched else LEAST_ROWS_OF_TRN1 if whole_rows() else LEAST_ROWS
    sizes = Sizes(x.shape[0], x.shape[1], w2.shape[0], w2.shape[1], size, pitched)
    return plan_fused(sizes, usable_sbuf_bytes(), least[size])


@nki.jit
def ffnn_forward(x, w1, b1, w2, b2, matmul="fused"):
    """Compute the class probabilities of a batch.

    Dimensions:
        N: samples.
        d: features.
        h: hidden units.
        c: classes. All four are limited only by the selected matmul kernel.
    Args:
        x: [N, d] in HBM; float32, bfloat16 or float16.
        w1, w2: [d, h] and [h, c] in HBM, with the same dtype as x.
        b1, b2: [1, h] and [1, c] in HBM; float32 or the dtype of x.
        matmul: "fused", "tiled", "hoist_load", "block_free_dimension" or "fully_optimized". "fused" keeps hidden units
        in SBUF; if too few rows fit, or if there are more than 8,192 classes, "fully_optimized" is used instead.
    Returns:
        [N, c] in HBM, with the same dtype as x: the softmax of each row.
    Notes:
        Hidden units have the dtype of x. Products also have this dtype, except in the fused version. Everything else is
        float32.
    """
    _check_network(x, w1, b1, w2, b2)
    plan = _plan(x, w2, matmul)
    if plan is not None:
        out = nl.ndarray((x.shape[0], w2.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        run_fused((x, w1, b1, w2, b2), plan, Probabilities(out))
        return out
    return bias_activation(_output_layer(x, w1, b1, w2, matmul), b2, "softmax")


@nki.jit
def ffnn_predict(x, w1, b1, w2, b2, matmul="fused"):
    """Compute the class of each sample: the index of its largest output or, if several are equal, the first of them.

    Dimensions and Args:
        See `ffnn_forward`.
    Returns:
        int32 [N] in HBM, each from 0 to c - 1.
    Notes:
        No softmax is applied. It would not change the order of the outputs, but would round some distinct outputs to
        equal probabilities.
    """
    _check_network(x, w1, b1, w2, b2)
    plan = _plan(x, w2, matmul)
    if plan is not None:
        out = nl.ndarray((x.shape[0],), dtype=nl.int32, buffer=nl.shared_hbm)
        run_fused((x, w1, b1, w2, b2), plan, Classes(out, w2.shape[1]))
        return out
    return argmax(bias_activation(_output_layer(x, w1, b1, w2, matmul), b2, "identity"))
