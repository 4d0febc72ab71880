"""Layer norm and local response normalisation against NumPy in float64."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_arrays import normal
from trninfer import simulator
from trninfer.kernels import layer_norm, local_response_norm, log_softmax

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
ROUNDING = {np.float32: 3e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-10}
SHAPES = [(1, 1), (3, 513), (1, 1, 1, 1), (2, 6, 5, 7), (1, 129, 13, 11), (3, 127, 1, 1), (1, 3, 30, 40), (600, 130)]
dtypes, targets, shapes = st.sampled_from(DTYPES), st.sampled_from(["trn1", "trn2", "trn3"]), st.sampled_from(SHAPES)


def layer_norm_of(x: NDArray[Any], scale: NDArray[Any], shift: NDArray[Any], epsilon: float) -> NDArray[np.float64]:
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + epsilon)
    column = (-1,) + (1,) * (x.ndim - 2)
    return normal * scale.astype(np.float64).reshape(column) + shift.astype(np.float64).reshape(column)


def response_of(x: NDArray[Any], size: int, alpha: float, beta: float, bias: float) -> NDArray[np.float64]:
    wide = x.astype(np.float64)
    sums = np.zeros_like(wide)
    for channel in range(x.shape[1]):
        around = wide[:, max(0, channel - size // 2) : channel + size // 2 + 1]
        sums[:, channel] = (around**2).sum(axis=1)
    return wide / (bias + alpha / size * sums) ** beta


@given(shapes, dtypes, targets, st.sampled_from([1e-6, 0.1]), st.booleans())
def test_layer_norm(shape: tuple[int, ...], dtype: Any, target: str, epsilon: float, single: bool) -> None:
    x = normal(shape, dtype) + dtype(3)
    scale, shift = (normal(shape[1:2], np.float32 if single else dtype, seed) for seed in (1, 2))
    (result,) = simulator.run(layer_norm, x, scale, shift, target=target, epsilon=epsilon).outputs
    assert result is not None and result.dtype == dtype
    expected = layer_norm_of(x, scale, shift, epsilon)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-5)


def test_a_large_mean_costs_no_digits() -> None:
    x = normal((1, 200, 3, 3), np.float32) + np.float32(4096)
    scale, shift = np.ones(200, np.float32), np.zeros(200, np.float32)
    (result,) = simulator.run(layer_norm, x, scale, shift).outputs
    np.testing.assert_allclose(result, layer_norm_of(x, scale, shift, 1e-5), atol=2e-3)


def test_more_channels_than_a_block_of_pixels_has_room_for() -> None:
    x = normal((1, 9000, 10, 12), np.float32)
    scale, shift = normal((9000,), np.float32, 1), normal((9000,), np.float32, 2)
    (result,) = simulator.run(layer_norm, x, scale, shift, target="trn1").outputs
    np.testing.assert_allclose(result, layer_norm_of(x, scale, shift, 1e-5), rtol=3e-6, atol=1e-5)


@given(
    shapes, dtypes, targets, st.sampled_from([1, 3, 5, 129, 255]), st.sampled_from([(1e-4, 0.75, 2.0), (0.5, 1.0, 1.0)])
)
def test_local_response_norm(shape: tuple[int, ...], dtype: Any, target: str, size: int, numbers: Any) -> None:
    alpha, beta, bias = numbers
    x = normal(shape, dtype)
    parameters = {"size": size, "alpha": alpha, "beta": beta, "bias": bias}
    (result,) = simulator.run(local_response_norm, x, target=target, **parameters).outputs
    assert result is not None and result.dtype == dtype
    expected = response_of(x, size, alpha, beta, bias)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-6)


@given(st.sampled_from([(1, 1), (3, 513), (129, 7), (600, 10), (1, 12288)]), dtypes, targets)
def test_log_softmax(shape: tuple[int, ...], dtype: Any, target: str) -> None:
    x = (normal(shape, dtype).astype(np.float64) * 30).astype(dtype)
    (result,) = simulator.run(log_softmax, x, target=target).outputs
    assert result is not None and result.dtype == dtype
    shifted = x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-5)


IMAGE, CHANNELS = np.zeros((2, 5, 3, 4), np.float32), np.zeros(5, np.float32)
RESPONSE = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}


@pytest.mark.parametrize(
    ("kernel", "arrays", "given", "message"),
    [
        (layer_norm, [IMAGE, CHANNELS, CHANNELS[:4]], {}, r"scale and shift must be \[5\], got shape \(4,\)"),
        (layer_norm, [IMAGE[0], CHANNELS, CHANNELS], {}, r"x must be \[B, C, H, W\] or \[B, C\], got shape"),
        (local_response_norm, [IMAGE], {**RESPONSE, "size": 4}, "size must be odd, 1 to 255, got 4"),
        (local_response_norm, [IMAGE], {**RESPONSE, "size": 257}, "size must be odd, 1 to 255, got 257"),
        (local_response_norm, [IMAGE.astype(np.int32)], RESPONSE, "x must be float32, bfloat16 or float16, got int32"),
        (log_softmax, [np.zeros((1, 12289), np.float16)], {}, "x must have at most 12288 columns, got 12289"),
        (local_response_norm, [np.zeros((1, 65537), np.float16)], RESPONSE, "x must have at most 65536 channels"),
    ],
)
def test_arguments_that_do_not_fit(kernel: Any, arrays: list[Any], given: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        simulator.run(kernel, *arrays, **given)
