"""16-bit kernels at odd sizes are correct, read only initialised memory, and follow the rules that have been reported
for chips (simulator/instructions/reported.py)."""

import warnings

import ml_dtypes
import numpy as np
import pytest
from trninfer import kernels, simulator
from trninfer.simulator.machine.errors import ReportedOnChipWarning

DTYPES = [ml_dtypes.bfloat16, np.float16]
MATMULS = ["matmul_tiled", "matmul_hoist_load", "matmul_block_free_dimension", "matmul_fully_optimized"]


def run(kernel, *arrays, target="trn2", **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ReportedOnChipWarning)
        return simulator.run(getattr(kernels, kernel), *arrays, target=target, sanitize=True, **parameters).outputs[0]


def random(*shape, dtype):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (17, 5), (127, 129), (513, 1), (1025, 3)], ids=str)
def test_transpose(shape, target, dtype):
    matrix = random(*shape, dtype=dtype)
    assert np.array_equal(run("transpose", matrix, target=target), matrix.T)


@pytest.mark.parametrize("kernel", MATMULS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 130, 3), (129, 3, 513), (257, 129, 1)], ids=str)
def test_matmul(kernel, m, k, n):
    left, right = random(k, m, dtype=DTYPES[0]), random(k, n, dtype=DTYPES[0])
    exact = left.astype(np.float32).T @ right.astype(np.float32)
    assert np.abs(run(kernel, left, right).astype(np.float32) - exact).max() < 0.01 * max(1, np.abs(exact).max())


def test_matmul_in_blocks():
    """Several panels of an operand, the last with one column; K in several blocks."""
    left, right = random(385, 257, dtype=DTYPES[0]), random(385, 1025, dtype=DTYPES[0])
    found = run("matmul_fully_optimized", left, right, tiles_in_block_m=2, tiles_in_block_n=2, tiles_in_block_k=2)
    exact = left.astype(np.float32).T @ right.astype(np.float32)
    assert np.abs(found.astype(np.float32) - exact).max() < 0.01 * np.abs(exact).max()


OTHERS = {
    "vector_add_naive": ([(1,), (1,)], {}),
    "vector_add_tiled": ([(67,), (67,)], {"rows": 64}),
    "bias_activation": ([(130, 1), (1, 1)], {"activation": "relu"}),
    "argmax": ([(131, 1)], {}),
    "average_pool": ([(3, 5, 7, 7)], {"window": (7, 7)}),
    "ffnn_forward": ([(17, 5), (5, 33), (1, 33), (33, 3), (1, 3)], {}),
    "ffnn_predict": ([(1, 3), (3, 129), (1, 129), (129, 1), (1, 1)], {}),
}


@pytest.mark.parametrize("kernel", OTHERS)
def test_others(kernel):
    shapes, parameters = OTHERS[kernel]
    result = run(kernel, *(random(*shape, dtype=DTYPES[0]) for shape in shapes), **parameters)
    assert np.isfinite(result.astype(np.float32)).all()
