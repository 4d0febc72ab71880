"""Transposition, compared with NumPy bit for bit."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.kernels import kernel

transpose = kernel("transpose")  # even if another module has imported the module of that name
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
SIZES = st.one_of(st.sampled_from([1, 3, 127, 128, 129, 511, 513, 640]), st.integers(1, 700))


def assert_transposes(rows: int, columns: int, dtype: Any, target: str) -> None:
    a = np.random.default_rng(rows + columns).standard_normal((rows, columns)).astype(dtype)
    (result,) = simulator.run(transpose, a, target=target).outputs
    assert result is not None
    assert result.dtype == a.dtype
    np.testing.assert_array_equal(result.astype(np.float32), a.T.astype(np.float32))


@settings(max_examples=40)
@given(rows=SIZES, columns=SIZES, dtype=st.sampled_from(DTYPES), target=st.sampled_from(["trn1", "trn2", "trn3"]))
def test_any_shape(rows: int, columns: int, dtype: Any, target: str) -> None:
    assert_transposes(rows, columns, dtype, target)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_blocks_in_both_directions(dtype: Any) -> None:
    assert_transposes(1153, 2100, dtype, "trn1")


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        ((3,), np.float32, "a must have 2 dimensions"),
        ((2, 3, 4), np.float32, "a must have 2 dimensions"),
        ((2, 3), np.int32, "a must be float32, bfloat16 or float16, got int32"),
    ],
)
def test_arguments_that_do_not_fit(shape: tuple[int, ...], dtype: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(transpose, np.zeros(shape, dtype))
