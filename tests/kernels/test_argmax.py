"""argmax, compared with NumPy: always equal, including the first of equal values."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import kernel

argmax = kernel("argmax")  # even if another module has imported the module of that name
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
ROWS = st.one_of(st.sampled_from([1, 3, 127, 128, 129, 513]), st.integers(1, 600))
COLUMNS = st.one_of(st.sampled_from([1, 2, 7, 8, 9, 127, 128, 129, 513]), st.integers(1, 300))


def assert_finds(a: NDArray[Any], target: str = "trn2") -> None:
    (result,) = simulator.run(argmax, a, target=target).outputs
    assert result is not None
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, a.astype(np.float32).argmax(axis=1))


@settings(max_examples=50)
@given(
    rows=ROWS, columns=COLUMNS, kinds=st.integers(1, 6), dtype=st.sampled_from(DTYPES), target=st.sampled_from(TARGETS)
)
def test_any_shape_with_many_equals(rows: int, columns: int, kinds: int, dtype: Any, target: str) -> None:
    a = np.random.default_rng(rows + columns).integers(-kinds, kinds, (rows, columns)).astype(dtype)
    assert_finds(a, target)


@settings(max_examples=20)
@given(rows=ROWS, columns=COLUMNS, dtype=st.sampled_from(DTYPES))
def test_real_numbers(rows: int, columns: int, dtype: Any) -> None:
    assert_finds(np.random.default_rng(rows + columns).standard_normal((rows, columns)).astype(dtype))


@pytest.mark.parametrize("columns", [8191, 8192, 8193, 8195, 16_384, 16_385, 50_000])
def test_rows_of_several_chunks(columns: int) -> None:
    """The maximum occurs in several chunks, at a different first position in each row, and in one row only in the last
    column."""
    random = np.random.default_rng(columns)
    a = random.integers(0, 1000, (130, columns)).astype(np.float32)
    for row in range(129):
        a[row, random.integers(0, columns, 3)] = 1000
    a[129, -1] = 1001
    assert_finds(a, "trn1")


@pytest.mark.parametrize("columns", [1, 5, 8, 40, 9000])
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_and_extremes(columns: int, dtype: Any) -> None:
    lowest = np.finfo(np.float32).min if dtype == np.float32 else float(ml_dtypes.finfo(dtype).min)
    a = np.full((5, columns), -np.inf, dtype)  # row 0: all -inf
    a[1] = lowest
    a[2, columns // 2] = lowest  # above -inf
    a[3] = 1
    a[3, columns - 1] = np.inf
    a[4] = -0.0
    a[4, columns - 1] = 0.0  # equal to -0.0, and so not the first
    assert_finds(a)


def test_close_numbers_of_float32_are_distinguished() -> None:
    a = np.full((2, 9000), 1.0, np.float32)
    a[0, 8999] = np.nextafter(np.float32(1), np.float32(2))
    a[1, 17] = np.nextafter(np.float32(1), np.float32(2))
    assert_finds(a)


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (np.zeros(4, np.float32), "a must have 2 dimensions"),
        (np.zeros((2, 4), np.int32), "a must be float32, bfloat16 or float16, got int32"),
    ],
)
def test_arguments_that_do_not_fit(a: NDArray[Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(argmax, a)


def test_more_columns_than_an_index_counts_exactly() -> None:
    with pytest.raises(AssertionError, match="a must have at most 16777216 columns, got 16777217"):
        simulator.run(argmax, simulator.TensorSpec((1, (1 << 24) + 1), "float32"), functional=False)
