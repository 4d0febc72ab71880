"""Sums that accumulate alternately in one tile of PSUM, compared with NumPy."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.kernels import psum_side_by_side, psum_within

TOLERANCES = {np.float32: 1e-5, np.float16: 2e-3, ml_dtypes.bfloat16: 1e-2}
dtypes, targets = st.sampled_from(list(TOLERANCES)), st.sampled_from(["trn1", "trn2", "trn3"])
inner, rows = st.sampled_from([1, 3, 127, 128, 129, 513]), st.sampled_from([1, 3, 127, 128])


def operands(k: int, m: int, n: int, dtype: Any) -> Any:
    random = np.random.default_rng(k + m + n)
    return [random.standard_normal(shape, np.float32).astype(dtype) for shape in ((k, m), (k, n))]


def assert_close(result: Any, expected: Any, dtype: Any) -> None:
    assert result.dtype == np.dtype(dtype)
    limit = TOLERANCES[dtype] * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=0, atol=limit)


@given(inner, rows, st.sampled_from([1, 3, 127, 129, 512]), st.integers(1, 9), dtypes, targets)
def test_slices_in_turn_are_a_product(k: int, m: int, n: int, slices: int, dtype: Any, target: str) -> None:
    left, right = operands(k, m, n, dtype)
    (result,) = simulator.run(psum_side_by_side, left, right, target=target, slices=min(slices, n)).outputs
    assert_close(result, left.astype(np.float32).T @ right.astype(np.float32), dtype)


@given(inner, rows, st.sampled_from([11, 127, 129, 512]), dtypes, targets)
def test_each_tile_adds_to_fewer_columns(k: int, m: int, n: int, dtype: Any, target: str) -> None:
    left, right = operands(k, m, n, dtype)
    (result,) = simulator.run(psum_within, left, right, target=target).outputs
    expected = np.zeros((m, n), np.float32)
    for index, first in enumerate(range(0, k, 128)):
        part = slice(index, n - index)
        a, b = left[first : first + 128].astype(np.float32), right[first : first + 128, part].astype(np.float32)
        expected[:, part] += a.T @ b
    assert_close(result, expected, dtype)


@pytest.mark.parametrize(
    ("kernel", "shapes", "given", "message"),
    [
        (psum_side_by_side, ((5, 4), (6, 4)), {}, "lhsT has 5 rows and rhs 6"),
        (psum_side_by_side, ((5, 129), (5, 4)), {}, "at most 128 columns, got 129"),
        (psum_side_by_side, ((5, 4), (5, 513)), {}, "at most 512 columns, got 513"),
        (psum_side_by_side, ((5, 4), (5, 3)), {"slices": 4}, "slices must be 1 to 3, got 4"),
        (psum_within, ((257, 4), (257, 6)), {}, "more than 6 columns, got 6"),
    ],
)
def test_what_does_not_fit_is_refused(kernel: Any, shapes: Any, given: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(kernel, *(np.zeros(shape, np.float32) for shape in shapes), **given)
