"""Group norm, compared with NumPy in float64: groups of one channel, some, more than 128, and all."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_programs import run_alone
from numpy.typing import NDArray
from onnx_layer import run_onnx
from random_arrays import normal
from trninfer.models.layers import GroupNorm

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
ROUNDING = {np.float32: 4e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-10}
CASES = [
    ((1, 1, 1, 1), 1),
    ((2, 6, 5, 7), 6),
    ((2, 6, 5, 7), 1),
    ((3, 129, 3, 3), 3),
    ((1, 254, 1, 5), 2),
    ((2, 254, 2, 5), 127),
    ((1, 260, 3, 1), 1),
    ((1, 513, 2, 2), 3),
    ((1, 3, 70, 90), 3),
    ((1, 129, 1, 1), 129),
    ((1, 130, 64, 65), 1),
    ((1, 260, 12, 12), 1),
    ((1, 260, 6, 6), 13),
]


def golden(x: NDArray[Any], scale: NDArray[Any], shift: NDArray[Any], groups: int, epsilon: float) -> NDArray[Any]:
    grouped = x.astype(np.float64).reshape(len(x), groups, -1)
    centred = grouped - grouped.mean(axis=2, keepdims=True)
    result = (centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + epsilon)).reshape(x.shape)
    return result * scale.astype(np.float64)[:, None, None] + shift.astype(np.float64)[:, None, None]


@given(
    st.sampled_from(CASES),
    st.sampled_from(DTYPES),
    st.sampled_from(["trn1", "trn2", "trn3"]),
    st.sampled_from([1e-5, 0.1]),
    st.booleans(),
)
def test_group_norm(case: Any, dtype: Any, target: str, epsilon: float, is_scaled: bool) -> None:
    shape, groups = case
    x = normal(shape, dtype) + dtype(3)
    scale, shift = np.ones(shape[1], np.float32), np.zeros(shape[1], np.float32)
    if is_scaled:
        scale, shift = (normal(shape[1:2], np.float32, seed) for seed in (1, 2))
    layer = GroupNorm("l", shape[1], groups, epsilon)
    result = run_alone(layer, x, tensors={"scale": scale, "shift": shift}, target=target)
    assert result.dtype == dtype
    expected = golden(x, scale, shift, groups, epsilon)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-5)


def test_a_large_mean_costs_no_digits() -> None:
    x = normal((1, 200, 3, 3), np.float32) + np.float32(4096)
    scale, shift = np.ones(200, np.float32), np.zeros(200, np.float32)
    result = run_alone(GroupNorm("l", 200, 25), x, tensors={"scale": scale, "shift": shift})
    np.testing.assert_allclose(result, golden(x, scale, shift, 25, 1e-5), atol=2e-3)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("side", [(64, 65), (16, 32), (3, 5)])
def test_16_bit_pixels_of_large_means(batch: int, dtype: Any, side: tuple[int, int]) -> None:
    """The variance is a difference of two sums, which must not be negative if all pixels of a group are equal."""
    x = (normal((batch, 28, *side), np.float32) + np.float32(20)).astype(dtype)
    x[0] = np.repeat(np.linspace(20, 150, 4), 7)[:, None, None].astype(dtype)
    scale, shift = np.ones(28, np.float32), np.zeros(28, np.float32)
    expected = run_onnx("GroupNormalization", x.astype(np.float32), scale, shift, num_groups=4, epsilon=1e-5)
    result = run_alone(GroupNorm("l", 28, 4), x, tensors={"scale": scale, "shift": shift})
    np.testing.assert_allclose(result[1:].astype(np.float32), expected[1:], rtol=2 * ROUNDING[dtype], atol=1e-3)
    assert np.abs(result[0].astype(np.float32)).max() < 0.01
