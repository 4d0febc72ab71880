"""The kernels of the measurements against NumPy, on shapes small enough to compute."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_arrays import small_integers
from trninfer import simulator
from trninfer.benchmarks.kernels.conv2d import conv2d_row_groups, conv2d_single_rows
from trninfer.benchmarks.kernels.matmul import matmul_blocked
from trninfer.benchmarks.kernels.transpose import matrix_transpose
from trninfer.benchmarks.kernels.vector_add import vector_add_tiled
from trninfer.models import golden


def output(kernel: Any, *arrays: NDArray[Any], **parameters: Any) -> NDArray[Any]:
    result = simulator.run(kernel, *arrays, target="trn2", **parameters).outputs[0]
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.parametrize("row_chunk", [1, 5, 128])
def test_vector_add_tiled(row_chunk: int) -> None:
    a, b = small_integers(1280, seed=1), small_integers(1280, seed=2)
    np.testing.assert_array_equal(output(vector_add_tiled, a, b, row_chunk=row_chunk), a + b)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matrix_transpose(dtype: Any) -> None:
    a = np.random.default_rng(0).standard_normal((256, 384)).astype(dtype)
    np.testing.assert_array_equal(output(matrix_transpose, a), a.T)


@pytest.mark.parametrize("kernel", [conv2d_single_rows, conv2d_row_groups])
@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("batch", "height", "width"), [(2, 8, 6), (1, 12, 130)])
def test_conv2d(kernel: Any, pool_size: int, dtype: Any, batch: int, height: int, width: int) -> None:
    x = small_integers(batch, 256, height, width, dtype=dtype, seed=1)
    w = small_integers(256, 256, 3, 3, dtype=dtype, seed=2)
    bias = small_integers(256, dtype=dtype, seed=3)
    expected = golden.conv2d(x.astype(np.float32), w.astype(np.float32), bias.astype(np.float32), 0, pool_size)
    # Sums of magnitude up to 2,048 are integers that float16 holds; half an ulp more where they are larger.
    np.testing.assert_allclose(
        output(kernel, x, w, bias, pool_size=pool_size), expected, rtol=1e-3 if dtype == np.float16 else 0
    )


def test_matmul_blocked() -> None:
    left, right = small_integers(512, 512, seed=1), small_integers(512, 1024, seed=2)
    result = output(matmul_blocked, left, right, tiles_in_block_m=2, tiles_in_block_n=1, tiles_in_block_k=2)
    np.testing.assert_array_equal(result, left.T @ right)
