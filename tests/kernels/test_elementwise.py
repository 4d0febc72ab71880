"""Elementwise arithmetic of tiles in SBUF against NumPy: sums, gates, numbers for each channel, PReLU, activations."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_programs import run_alone
from numpy.typing import NDArray
from random_arrays import normal
from trninfer import simulator
from trninfer.kernels.activation_functions import activate
from trninfer.models.layers import Activation, Affine, Combine, PRelu

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
ROUNDING = {np.float32: 2e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-10}
SHAPES = [(1, 1), (3, 513), (129, 7), (1, 9001), (1, 1, 1, 1), (2, 3, 5, 7), (1, 129, 13, 11), (3, 127, 1, 1)]
SHAPES += [(1, 64, 20, 30), (1, 3, 127, 129), (2, 1, 60, 70), (40, 130, 3, 3)]
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def wide(x: NDArray[Any]) -> NDArray[np.float64]:
    return x.astype(np.float64)


def per_channel(numbers: NDArray[Any], x: NDArray[Any]) -> NDArray[np.float64]:
    return wide(numbers).reshape(numbers.shape + (1,) * (x.ndim - 1 - numbers.ndim))


def assert_close(result: Any, expected: NDArray[np.float64], dtype: Any, size: float = 1.0) -> None:
    """Within the dtype's rounding of the numbers; `size` is that of what was added up on the way."""
    assert result.dtype == dtype and result.shape == expected.shape
    np.testing.assert_allclose(wide(result), expected, rtol=ROUNDING[dtype], atol=2e-6 * size)


shapes, dtypes, targets = st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.sampled_from(TARGETS)


@given(shapes, dtypes, targets, st.sampled_from(list(OPERATIONS)), st.booleans(), st.sampled_from(["relu", "tanh", ""]))
def test_combine(shape: tuple[int, ...], dtype: Any, target: str, operation: str, gate: bool, activation: str) -> None:
    a = normal(shape, dtype)
    b = normal((*shape[:2], 1, 1) if gate and math.prod(shape[2:]) in range(2, 4096) else shape, dtype, 1)
    if operation == "divide":
        b = (np.abs(b) + np.array(0.5, dtype)).astype(dtype)
    expected = OPERATIONS[operation](wide(a), wide(b))
    after = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "": lambda x: x}[activation]
    result = run_alone(Combine("l", operation, activation or "identity"), a, b, target=target)
    assert_close(result, after(expected), dtype, 8)


@given(shapes, dtypes, targets, st.booleans())
def test_affine(shape: tuple[int, ...], dtype: Any, target: str, every_element: bool) -> None:
    small = len(shape) == 4 and math.prod(shape[2:]) <= 2048
    numbers = shape[1:] if every_element and small else shape[1:2]
    x = normal(shape, dtype)
    scale, shift = (normal(numbers, np.float32, seed) for seed in (1, 2))
    layer = Affine("l", numbers, "clip", (-1.5, 2.0))
    result = run_alone(layer, x, tensors={"scale": scale, "shift": shift}, target=target)
    assert_close(result, np.clip(wide(x) * per_channel(scale, x) + per_channel(shift, x), -1.5, 2), dtype, 8)


@given(shapes, dtypes, targets)
def test_prelu(shape: tuple[int, ...], dtype: Any, target: str) -> None:
    x, slope = normal(shape, dtype), normal(shape[1:2], np.float32, 1)
    result = run_alone(PRelu("l", shape[1]), x, tensors={"slope": slope}, target=target)
    assert_close(result, np.where(x > 0, wide(x), wide(x) * per_channel(slope, x)), dtype)


ERF = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Any]]] = {
    "identity": ((), lambda x: x),
    "relu": ((), lambda x: np.maximum(x, 0)),
    "gelu": ((), lambda x: x / 2 * (1 + ERF(x / np.sqrt(2)))),
    "gelu_tanh": ((), lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    "sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": ((), np.tanh),
    "silu": ((), lambda x: x / (1 + np.exp(-x))),
    "softplus": ((), lambda x: np.logaddexp(x, 0)),
    "mish": ((), lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "exp": ((), np.exp),
    "abs": ((), np.abs),
    "sqrt": ((), np.sqrt),
    "log": ((), np.log),
    "reciprocal": ((), np.reciprocal),
    "power": ((-1.5,), np.power),
    "hardswish": ((), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "softsign": ((), lambda x: x / (1 + np.abs(x))),
    "clip": ((0.0, 6.0), np.clip),
    "leaky_relu": ((0.1,), lambda x, alpha: np.where(x >= 0, x, alpha * x)),
    "hardsigmoid": ((0.2, 0.5), lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1)),
    "elu": ((1.3,), lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x))),
    "selu": ((1.67, 1.05), lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x))),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations(activation: str, dtype: Any, target: str) -> None:
    parameters, function = ACTIVATIONS[activation]
    x = (normal((2, 3, 9, 513), np.float32) * 4).astype(dtype)
    if activation == "sqrt":
        x = np.abs(x)
    if activation in ("log", "reciprocal", "power"):
        x = np.abs(x) + np.array(0.25, dtype)
    if activation == "exp":
        x = np.minimum(x, np.array(10, dtype))
    result = run_alone(Activation("l", activation, parameters), x, target=target)
    assert_close(result, function(wide(x), *parameters), dtype)
    # the same after a scale and a bias of each channel
    scale, shift = np.full(3, 0.5, np.float32), np.full(3, 0.25, np.float32)
    layer = Affine("l", (3,), activation, parameters)
    result = run_alone(layer, x, tensors={"scale": scale, "shift": shift}, target=target)
    assert_close(result, function(wide(x) * 0.5 + 0.25, *parameters), dtype, 4)


@nki.jit
def gates(x: Any) -> Any:
    """sigmoid(x) without a table."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    data = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=data, src=x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    activate(result, data, "sigmoid_by_powers")
    nisa.dma_copy(dst=out, src=result)
    return out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sigmoid_by_powers(dtype: Any, target: str) -> None:
    """As by a table, far from zero too."""
    x = np.concatenate([np.linspace(-20, 20, 123), [-3e4, -200, -80, 80, 3e4]]).astype(dtype).reshape(2, 64)
    (result,) = simulator.run(gates, x, target=target).outputs
    assert_close(result, 1 / (1 + np.exp(-np.maximum(wide(x), -700))), dtype)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 1.0, 1.5])
def test_leaky_relu_of_any_slope(slope: float) -> None:
    x = normal((1, 2, 3, 5), np.float32)
    result = run_alone(Activation("l", "leaky_relu", (slope,)), x)
    assert_close(result, np.where(x >= 0, wide(x), slope * wide(x)), np.float32)


def test_activations_of_large_numbers_do_not_overflow() -> None:
    x = np.array([[-3e38, -1e4, -88.0, 88.0, 1e4, 3e38]], np.float32)
    for name in ("elu", "selu", "softplus", "silu", "sigmoid", "hardswish", "mish", "gelu"):
        parameters = ACTIVATIONS[name][0]
        result = run_alone(Activation("l", name, parameters), x)
        assert np.isfinite(result[0, :5]).all(), name
