"""Kernels that demonstrate a single instruction compute the documented results."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_arrays import small_integers
from trninfer import simulator
from trninfer.benchmarks.kernels import instructions
from trninfer.benchmarks.kernels.transpose import matrix_transpose


def output(kernel: Any, *arrays: NDArray[Any], **parameters: Any) -> NDArray[Any]:
    result = simulator.run(kernel, *arrays, target="trn2", **parameters).outputs[0]
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.parametrize("stride", [1, 9])
def test_matmuls_accumulate(stride: int) -> None:
    a, b = small_integers(128, 64, stride), small_integers(128, 30, seed=1)
    np.testing.assert_array_equal(output(instructions.matmuls, a, b, count=3), 3 * (a[:, :, 0].T @ b))


@pytest.mark.parametrize("stride", [1, 9])
def test_transposes(stride: int) -> None:
    a = small_integers(128, 64, stride)
    np.testing.assert_array_equal(output(instructions.transposes, a, count=2), a[:, :, 0].T)


@pytest.mark.parametrize(
    ("unit", "from_psum"), [("scalar", True), ("scalar", False), ("vector", True), ("vector", False)]
)
def test_copies(unit: str, from_psum: bool) -> None:
    a = small_integers(128, 20)
    result = output(instructions.copies, a, unit=unit, from_psum=from_psum, dtype="float16", count=3)
    assert result.dtype == np.float16
    np.testing.assert_array_equal(result, np.repeat(a[:, None], 3, axis=1))


@pytest.mark.parametrize("columns", [1, 20])
def test_additions(columns: int) -> None:
    a, b = small_integers(128, 20), small_integers(128, columns, seed=1)
    np.testing.assert_array_equal(output(instructions.additions, a, b, count=2), np.repeat((a + b)[:, None], 2, axis=1))


def test_maxima() -> None:
    a = small_integers(128, 20)
    halves = output(instructions.maxima, a, halves=True, count=2)
    np.testing.assert_array_equal(halves[:, 1], np.maximum(a[:, :10], a[:, 10:]))
    neighbours = output(instructions.maxima, a, halves=False, count=2)
    np.testing.assert_array_equal(neighbours[:, 1], np.maximum(a[:, ::2], a[:, 1::2]))


def test_squares_in_turn() -> None:
    a = small_integers(128, 2)
    np.testing.assert_array_equal(output(instructions.squares_in_turn, a, count=2), a**4)


@pytest.mark.parametrize("software", [False, True])
def test_load_elements(software: bool) -> None:
    a = small_integers(128, 6, 4)
    np.testing.assert_array_equal(output(instructions.load_elements, a, size=2, software=software), a[:, :, :2])


def test_independent_loads() -> None:
    a = small_integers(128, 6)
    np.testing.assert_array_equal(output(instructions.independent_loads, a, count=2), np.stack([a, a], axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matrix_transpose(dtype: Any) -> None:
    a = np.random.default_rng(0).standard_normal((256, 384)).astype(dtype)
    np.testing.assert_array_equal(output(matrix_transpose, a), a.T)
