"""The vector additions, compared with NumPy bit for bit: the sum in float32, rounded once."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import kernels, simulator

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
SIZES = st.one_of(st.sampled_from([1, 2, 3, 127, 128, 129, 255, 256, 513]), st.integers(1, 3000))


def vectors(n: int, dtype: Any, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    random = np.random.default_rng(seed)
    return random.standard_normal(n).astype(dtype), random.standard_normal(n).astype(dtype)


def assert_adds(kernel: Any, a: NDArray[Any], b: NDArray[Any], target: str = "trn2", **parameters: Any) -> None:
    (result,) = simulator.run(kernel, a, b, target=target, **parameters).outputs
    expected = (a.astype(np.float32) + b.astype(np.float32)).astype(a.dtype)
    assert result is not None
    assert result.dtype == a.dtype
    np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 129])
def test_naive(n: int, dtype: Any) -> None:
    assert_adds(kernels.vector_add_naive, *vectors(n, dtype))


@settings(max_examples=25)
@given(n=SIZES, rows=st.integers(1, 128), dtype=st.sampled_from(DTYPES))
def test_tiled(n: int, rows: int, dtype: Any) -> None:
    assert_adds(kernels.vector_add_tiled, *vectors(min(n, 20 * rows), dtype), rows=rows)


@settings(max_examples=25)
@given(
    n=SIZES, free=st.integers(1, 40), dtype=st.sampled_from(DTYPES), target=st.sampled_from(["trn1", "trn2", "trn3"])
)
def test_stream(n: int, free: int, dtype: Any, target: str) -> None:
    assert_adds(kernels.vector_add_stream, *vectors(n, dtype), target, free=free)


@settings(max_examples=25)
@given(n=SIZES, free=st.integers(1, 40), tiles=st.integers(1, 6), dtype=st.sampled_from(DTYPES))
def test_direct_allocation(n: int, free: int, tiles: int, dtype: Any) -> None:
    assert_adds(kernels.vector_add_direct_allocation, *vectors(n, dtype), free=free, tiles=tiles)


@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_direct_allocation_writes_the_same_addresses_again(tiles: int) -> None:
    """Twelve tiles and a remainder share fewer buffers: every buffer is reused, and no tile is overwritten too
    early."""
    a, b = vectors(12 * 128 * 16 + 77, np.float32)
    assert_adds(kernels.vector_add_direct_allocation, a, b, free=16, tiles=tiles)


def test_default_sizes_take_the_published_length() -> None:
    a, b = vectors(256_000, np.float32)
    for kernel in (kernels.vector_add_stream, kernels.vector_add_direct_allocation):
        assert_adds(kernel, a, b)


@pytest.mark.parametrize(
    ("kernel", "parameters", "message"),
    [
        (kernels.vector_add_tiled, {"rows": 0}, "rows must be between 1 and 128, got 0"),
        (kernels.vector_add_tiled, {"rows": 129}, "rows must be between 1 and 128, got 129"),
        (kernels.vector_add_stream, {"free": 0}, "free must be between 1 and"),
        (kernels.vector_add_stream, {"free": 30_000}, "free must be between 1 and .* got 30000"),
        (kernels.vector_add_direct_allocation, {"free": 0}, "free must be at least 1, got 0"),
        (kernels.vector_add_direct_allocation, {"tiles": 0}, "tiles must be at least 1, got 0"),
        (kernels.vector_add_direct_allocation, {"tiles": 40}, "use a smaller free or fewer tiles"),
    ],
)
def test_parameters_that_do_not_fit(kernel: Any, parameters: dict[str, Any], message: str) -> None:
    a, b = vectors(1000, np.float32)
    with pytest.raises(AssertionError, match=message):
        simulator.run(kernel, a, b, **parameters)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32), "a must have 1 dimension"),
        (np.zeros(2, np.float32), np.zeros(3, np.float32), "must have the same shape"),
        (np.zeros(2, np.float32), np.zeros(2, np.float16), "must have the same dtype"),
        (np.zeros(2, np.int32), np.zeros(2, np.int32), "must be float32, bfloat16 or float16, got int32"),
    ],
)
def test_arguments_that_do_not_fit(a: NDArray[Any], b: NDArray[Any], message: str) -> None:
    for kernel in (kernels.vector_add_naive, kernels.vector_add_tiled, kernels.vector_add_stream):
        with pytest.raises(AssertionError, match=message):
            simulator.run(kernel, a, b)
