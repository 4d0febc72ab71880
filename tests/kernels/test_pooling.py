"""Average pooling against NumPy in float64, on any shape and in each dtype."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from trninfer import simulator
from trninfer.kernels import average_pool

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
PLANES = st.sampled_from([(1, 1), (1, 3), (2, 127), (1, 128), (3, 129), (1, 512), (5, 260)])


def golden(x: NDArray[Any], window: tuple[int, int]) -> NDArray[np.float32]:
    """The mean in float64: ONNX Runtime's own float32 sums drift in large windows."""
    (height, width), (batch, channels, rows, columns) = window, x.shape
    whole = x[:, :, : rows // height * height, : columns // width * width].astype(np.float64)
    windows = whole.reshape(batch, channels, rows // height, height, columns // width, width)
    return windows.mean(axis=(3, 5)).astype(np.float32)


def assert_pools(shape: tuple[int, ...], window: tuple[int, int], dtype: Any, target: str) -> None:
    x = (np.random.default_rng(shape).standard_normal(shape) + 1).astype(dtype)
    (result,) = simulator.run(average_pool, x, target=target, window_height=window[0], window_width=window[1]).outputs
    assert result is not None
    assert result.dtype == x.dtype
    expected = golden(x, window)
    assert result.shape == expected.shape
    rounding = {np.float32: 1e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-11}[dtype]
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=rounding, atol=2e-6)


@settings(max_examples=60)
@given(
    planes=PLANES,
    side=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    window=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    dtype=st.sampled_from(DTYPES),
    target=st.sampled_from(TARGETS),
)
def test_any_shape(
    planes: tuple[int, int], side: tuple[int, int], window: tuple[int, int], dtype: Any, target: str
) -> None:
    assert_pools((*planes, *side), (min(window[0], side[0]), min(window[1], side[1])), dtype, target)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ((1, 512, 7, 7), (7, 7)),
        ((2, 130, 64, 64), (64, 64)),  # one plane fills a chunk
        ((1, 3, 150, 100), (2, 2)),  # rows of windows in several tiles
        ((1, 130, 130, 130), (130, 130)),  # a window in several pieces
        ((1, 5, 90, 601), (45, 3)),  # two rows of windows, each in pieces, with a column left over
        ((1, 2, 3, 16384), (3, 16384)),
        ((1, 1, 1, 16384), (1, 1)),
    ],
)
def test_sizes_that_take_another_path(shape: tuple[int, ...], window: tuple[int, int], dtype: Any) -> None:
    assert_pools(shape, window, dtype, "trn1")


def test_sums_do_not_overflow_in_half_precision() -> None:
    x = np.full((1, 2, 16, 16), 60_000, np.float16)
    (result,) = simulator.run(average_pool, x, window_height=16, window_width=16).outputs
    np.testing.assert_array_equal(result, np.full((1, 2, 1, 1), 60_000, np.float16))


@pytest.mark.parametrize(
    ("x", "window", "message"),
    [
        (np.zeros((3, 4, 5), np.float32), (1, 1), r"x must be \[B, C, H, W\], got shape \(3, 4, 5\)"),
        (np.zeros((1, 2, 4, 4), np.int32), (2, 2), "x must be float32, bfloat16 or float16, got int32"),
        (np.zeros((1, 2, 4, 6), np.float32), (5, 2), "windows must be 1x1 to 4x6, as x is, got 5x2"),
        (np.zeros((1, 2, 4, 6), np.float32), (2, 0), "windows must be 1x1 to 4x6, as x is, got 2x0"),
        (np.zeros((1, 1, 1, 16385), np.float16), (1, 1), "x must be at most 16384 wide"),
    ],
)
def test_arguments_that_do_not_fit(x: NDArray[Any], window: tuple[int, int], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(average_pool, x, window_height=window[0], window_width=window[1])
