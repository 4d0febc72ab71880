"""Layer norm, local response normalisation and log-softmax of tiles in SBUF, compared with NumPy in float64."""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_programs import run_alone
from numpy.typing import NDArray
from random_arrays import normal
from trninfer.models.layers import LayerNorm, LocalResponseNorm, Softmax
from trninfer.simulator.machine.errors import ReportedOnChipWarning

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


@given(shapes, dtypes, targets, st.sampled_from([1e-6, 0.1]))
def test_layer_norm(shape: tuple[int, ...], dtype: Any, target: str, epsilon: float) -> None:
    x = normal(shape, dtype) + dtype(3)
    scale, shift = (normal(shape[1:2], np.float32, seed) for seed in (1, 2))
    result = run_alone(LayerNorm("l", shape[1], epsilon), x, tensors={"scale": scale, "shift": shift}, target=target)
    assert result.dtype == dtype
    expected = layer_norm_of(x, scale, shift, epsilon)
    # Squares of bfloat16 values are bfloat16; the error is half a digit of the scaled value, which is large relative to
    # a result near 0.
    scaled = np.abs(expected - shift.reshape((-1,) + (1,) * (x.ndim - 2)))
    allowed = 1e-5 + ROUNDING[dtype] * np.abs(expected) + (dtype is ml_dtypes.bfloat16) * 2.0**-9 * scaled
    assert (np.abs(result.astype(np.float64) - expected) <= allowed).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("channels", "is_centred"), [(96, False), (192, False), (256, False), (40, True), (300, True)])
def test_layer_norm_of_several_blocks(channels: int, is_centred: bool, dtype: Any) -> None:
    """The mean is subtracted by matmuls, or is zero; GpSimd computes the deviations of the second block."""
    x = normal((1, channels, 25, 30), dtype) * dtype(0.5) + dtype(0 if is_centred else 3)
    scale, shift = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    result = run_alone(LayerNorm("l", channels, 1e-6, is_centred), x, tensors={"scale": scale, "shift": shift})
    wide = x.astype(np.float64)
    expected = (
        wide / np.sqrt((wide**2).mean(axis=1, keepdims=True)) if is_centred else layer_norm_of(x, scale, shift, 0)
    )
    assert (np.abs(result.astype(np.float64) - expected) <= 1e-5 + 2.1 * ROUNDING[dtype] * np.abs(expected)).all()


@pytest.mark.parametrize("channels", [1, 2, 130])
def test_one_pixel_makes_no_single_column_of_16_bits(channels: int) -> None:
    x = normal((1, channels, 1, 1), ml_dtypes.bfloat16)
    scale, shift = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ReportedOnChipWarning)
        run_alone(LayerNorm("l", channels), x, tensors={"scale": scale, "shift": shift})
    assert not [f"{each.filename}: {each.message}" for each in caught if each.category is ReportedOnChipWarning]


def test_a_large_mean_costs_no_digits() -> None:
    x = normal((1, 200, 3, 3), np.float32) + np.float32(4096)
    scale, shift = np.ones(200, np.float32), np.zeros(200, np.float32)
    result = run_alone(LayerNorm("l", 200), x, tensors={"scale": scale, "shift": shift})
    np.testing.assert_allclose(result, layer_norm_of(x, scale, shift, 1e-5), atol=2e-3)


def test_more_channels_than_a_block_of_pixels_has_room_for() -> None:
    x = normal((1, 9000, 10, 12), np.float32)
    scale, shift = normal((9000,), np.float32, 1), normal((9000,), np.float32, 2)
    result = run_alone(LayerNorm("l", 9000), x, tensors={"scale": scale, "shift": shift}, target="trn1")
    np.testing.assert_allclose(result, layer_norm_of(x, scale, shift, 1e-5), rtol=3e-6, atol=1e-5)


@given(
    st.sampled_from([shape for shape in SHAPES if len(shape) == 4] + [(1, 400, 2, 3)]),
    dtypes,
    targets,
    st.sampled_from([1, 3, 5, 129, 255, 257, 301, 511]),
    st.sampled_from([(1e-4, 0.75, 2.0), (0.5, 1.0, 1.0)]),
)
def test_local_response_norm(shape: tuple[int, ...], dtype: Any, target: str, size: int, numbers: Any) -> None:
    x = normal(shape, dtype)
    result = run_alone(LocalResponseNorm("l", size, *numbers), x, target=target)
    assert result.dtype == dtype
    expected = response_of(x, size, *numbers)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-6)


@given(st.sampled_from([(1, 1), (3, 513), (129, 7), (300, 10), (1, 2048)]), dtypes, targets)
def test_log_softmax(shape: tuple[int, ...], dtype: Any, target: str) -> None:
    x = (normal(shape, dtype).astype(np.float64) * 30).astype(dtype)
    result = run_alone(Softmax("l", log=True), x, target=target)
    assert result.dtype == dtype
    shifted = x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=ROUNDING[dtype], atol=1e-5)
