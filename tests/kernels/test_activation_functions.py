"""Activations on a tile, compared with NumPy: on plain tiles in SBUF, and on scaled and shifted tiles in PSUM."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from numpy.typing import NDArray
from random_arrays import normal
from trninfer import simulator
from trninfer.kernels.activation_functions import IN_STEPS, NEVER_DECREASE, activate, slope_below_zero

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
ROUNDING = {np.float32: 2e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-10}
ERF = np.vectorize(math.erf, otypes=[np.float64])
ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Any]]] = {
    "identity": ((), lambda x: x),
    "relu": ((), lambda x: np.maximum(x, 0)),
    "at_least": ((0.5,), np.maximum),
    "within": ((-0.5, 0.75), np.clip),
    "gelu": ((), lambda x: x / 2 * (1 + ERF(x / np.sqrt(2)))),
    "gelu_tanh": ((), lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    "sigmoid": ((), lambda x: 1 / (1 + np.exp(-x))),
    "sigmoid_by_powers": ((), lambda x: 1 / (1 + np.exp(-x))),
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
    "erf": ((), ERF),
    "sign": ((), np.sign),
    "sin": ((), np.sin),
    "cos": ((), np.cos),
    "step": ((0.5,), lambda x, limit: np.where(x > limit, 1, 0)),
    "threshold": ((0.5,), lambda x, limit: np.where(x > limit, x, 0)),
}


@nki.jit
def apply(x: Any, columns: Any, activation: str, parameters: Any) -> Any:
    """Compute activation(x), and activation(x * columns[:, 0] + columns[:, 1]) with x in PSUM."""
    outs = [nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2)]
    data, result, after = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=data, src=x)
    activate(result, data, activation, parameters)
    nisa.dma_copy(dst=outs[0], src=result)
    numbers = nl.ndarray(columns.shape, dtype=columns.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=columns)
    sums = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.tensor_copy(dst=sums, src=data)
    activate(after, sums, activation, parameters, bias=numbers[:, 1:2], scale=numbers[:, 0:1])
    nisa.dma_copy(dst=outs[1], src=after)
    return tuple(outs)


def run(x: NDArray[Any], activation: str, parameters: Any = None, target: str = "trn2") -> list[NDArray[Any]]:
    """Return both results; channel p is scaled by 1/2 and shifted by p / 8."""
    columns = np.stack([np.full(len(x), 0.5), np.arange(len(x)) / 8], axis=1).astype(np.float32)
    given = ACTIVATIONS[activation][0] if parameters is None else parameters
    return simulator.run(apply, x, columns, activation=activation, parameters=given, target=target).outputs


def wide(x: NDArray[Any]) -> NDArray[np.float64]:
    return x.astype(np.float64)


def assert_close(result: NDArray[Any], expected: NDArray[np.float64], dtype: Any, size: float = 1.0) -> None:
    """Compare within the rounding of the dtype; `size` is the magnitude of the intermediate sums."""
    assert result.dtype == dtype and result.shape == expected.shape
    np.testing.assert_allclose(wide(result), expected, rtol=ROUNDING[dtype], atol=2e-6 * size)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_activations(activation: str, dtype: Any, target: str) -> None:
    parameters, function = ACTIVATIONS[activation]
    x = (normal((3, 511), np.float32) * 4).astype(dtype)
    if activation in ("log", "reciprocal", "power", "sqrt"):
        x = np.abs(x) + np.array(0.25, dtype)
    if activation == "exp":
        x = np.minimum(x, np.array(10, dtype))
    plain, after = run(x, activation, target=target)
    assert_close(plain, function(wide(x), *parameters), dtype)
    assert_close(after, function(wide(x) * 0.5 + np.arange(3)[:, None] / 8, *parameters), dtype, 4)


@pytest.mark.parametrize("name", NEVER_DECREASE)
def test_what_never_decreases_keeps_the_order(name: str) -> None:
    """A maximum may then be computed before the activation."""
    x = np.sort(normal((1, 400), np.float32) * 4 + (20 if name == "sqrt" else 0))
    assert (np.diff(run(x, name)[0]) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sigmoid_by_powers_far_from_zero(dtype: Any) -> None:
    x = np.array([[-3e4, -200, -80, 80, 200, 3e4]]).astype(dtype)
    assert_close(run(x, "sigmoid_by_powers")[0], 1 / (1 + np.exp(-np.maximum(wide(x), -700))), dtype)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_roots_of_few_numbers_load_no_table(dtype: Any) -> None:
    few, many = (np.abs(normal((128, count), dtype)) for count in (8, 512))
    columns = np.ones((128, 2), np.float32)
    for x in (few, many):
        result = simulator.run(apply, x, columns, activation="sqrt", parameters=())
        assert_close(result.outputs[0], np.sqrt(wide(x)), dtype)
        assert_close(result.outputs[1], np.sqrt(wide(x) + 1), dtype)
        assert any(event.op == "load_table" for event in result.timeline) == (x is many)


def test_sines_of_many_turns() -> None:
    """After a thousand periods, float32 still distinguishes angles that differ by 0.0005."""
    x = np.linspace(-6283, 6283, 510, dtype=np.float32).reshape(1, -1)
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        np.testing.assert_allclose(run(x, name)[0], function(wide(x)), atol=5e-4)


@pytest.mark.parametrize("slope", [-0.5, 0.0, 1.0, 1.5])
def test_leaky_relu_of_any_slope(slope: float) -> None:
    x = normal((2, 15), np.float32)
    assert_close(run(x, "leaky_relu", (slope,))[0], np.where(x >= 0, wide(x), slope * wide(x)), np.float32)


def test_limits_are_exclusive() -> None:
    """A step is 1 only above its limit, and a threshold passes only larger numbers."""
    x = np.array([[0.5, np.nextafter(np.float32(0.5), np.float32(1)), -0.5]], np.float32)
    assert run(x, "step")[0].tolist() == [[0, 1, 0]]
    assert run(x, "threshold")[0].tolist() == [[0, x[0, 1], 0]]


@pytest.mark.parametrize("name", ["elu", "selu", "softplus", "silu", "sigmoid", "hardswish", "mish", "gelu"])
def test_large_numbers_do_not_overflow(name: str) -> None:
    x = np.array([[-3e38, -1e4, -88.0, 88.0, 1e4]], np.float32)
    assert np.isfinite(run(x, name)[0]).all()


@nki.jit
def prelu(x: Any, slopes: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    data, numbers, result = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=data, src=x)
    nisa.dma_copy(dst=numbers, src=slopes)
    slope_below_zero(result, data, numbers)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_each_number_has_its_slope_below_zero() -> None:
    x, slopes = (np.array([numbers], np.float32) for numbers in ([-2, -2, 0, 3, 3], [0.5, -1, 7, 0.5, -1]))
    assert simulator.run(prelu, x, slopes).outputs[0].tolist() == [[-1, 2, 0, 3, 3]]


def test_names() -> None:
    """ACTIVATIONS lists all functions that take several instructions; unknown names are rejected."""
    assert set(IN_STEPS) <= set(ACTIVATIONS)
    with pytest.raises(AssertionError, match="there is no activation swish"):
        run(np.zeros((1, 2), np.float32), "swish", ())
