"""Activations, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.layers.activation import ACTIVATION_PARAMETERS, PRelu, activate

# Name -> ONNX's name, with its attributes computed from the parameters.
ONNX_ACTIVATIONS = {
    "relu": ("Relu", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "hardswish": ("HardSwish", {}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.07}),
    "elu": ("Elu", {"alpha": 1.3}),
    "selu": ("Selu", {"alpha": 1.6, "gamma": 1.1}),
    "softplus": ("Softplus", {}),
    "softsign": ("Softsign", {}),
    "mish": ("Mish", {}),
    "exp": ("Exp", {}),
    "abs": ("Abs", {}),
    "sqrt": ("Sqrt", {}),
    "log": ("Log", {}),
    "reciprocal": ("Reciprocal", {}),
    "erf": ("Erf", {}),
    "sin": ("Sin", {}),
    "cos": ("Cos", {}),
    "sign": ("Sign", {}),
    "threshold": ("ThresholdedRelu", {"alpha": 0.3}),
}


@pytest.mark.parametrize(
    "activation", sorted(set(ACTIVATION_PARAMETERS) - {"identity", "silu", "clip", "power", "step"})
)
def test_activations(activation: str) -> None:
    low = {"sqrt": 0, "log": 1e-6, "reciprocal": 1e-6}.get(activation, -20)
    x = np.concatenate([np.linspace(low, 20, 1001), [max(low, 0.0), 1e-6, 80]]).astype(np.float32)
    op, attributes = ONNX_ACTIVATIONS[activation]
    parameters = tuple(attributes[name] for name in ACTIVATION_PARAMETERS[activation] if activation != "threshold")
    parameters = parameters or tuple(value for value in attributes.values() if activation == "threshold")
    result = activate(x, activation, parameters)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, run_onnx(op, x, **attributes), rtol=5e-6, atol=2e-6)


def test_silu_and_clip() -> None:
    x = np.linspace(-30, 30, 1001).astype(np.float32)
    # ONNX Runtime's sigmoid flushes small results to zero
    expected = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(activate(x, "silu"), expected, rtol=2e-6, atol=1e-12)
    limits = np.array(0, np.float32), np.array(6, np.float32)
    np.testing.assert_array_equal(activate(x, "clip", (0.0, 6.0)), run_onnx("Clip", x, *limits))


@pytest.mark.parametrize("exponent", [-1.5, 0.3, 3.0])
def test_power(exponent: float) -> None:
    x = np.linspace(0.01, 30, 1001).astype(np.float32)
    expected = run_onnx("Pow", x, np.array(exponent, np.float32))
    np.testing.assert_allclose(activate(x, "power", (exponent,)), expected, rtol=5e-6)


@pytest.mark.parametrize("activation", ["relu", "gelu", "sigmoid", "tanh"])
def test_activations_over_their_whole_range(activation: str) -> None:
    x = np.concatenate([np.linspace(-20, 20, 4001), [-1e4, -100, -0.0, 100, 1e4]]).astype(np.float32)
    result = activate(x, activation)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, run_onnx(activation.capitalize(), x), rtol=2e-6, atol=1e-6)


def test_gelu_keeps_its_precision_far_below_zero() -> None:
    # x/2 * erfc(-x / sqrt 2) at -8, using a table of erfc with 40 digits: erfc(5.6568542494923802) =
    # 1.2441921148543569e-15
    result = activate(np.array([-8.0], np.float32), "gelu")
    np.testing.assert_allclose(result, [-4 * 1.2441921148543569e-15], rtol=1e-6)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown activation 'swish'; known: identity"):
        activate(np.zeros(1, np.float32), "swish")


def test_step_is_1_above_its_limit() -> None:
    limit = np.float32(0.3)
    x = np.array(
        [-np.inf, -1, 0, np.nextafter(limit, np.float32(0)), limit, np.nextafter(limit, np.float32(1)), np.inf]
    )
    result = activate(x.astype(np.float32), "step", (float(limit),))
    assert result.dtype == np.float32 and result.tolist() == [0, 0, 0, 0, 0, 1, 1]


def test_prelu() -> None:
    x, slope = normal(7, 2, 5, 7, 3), normal(10, 5)
    expected = run_onnx("PRelu", x, slope.reshape(5, 1, 1))
    np.testing.assert_allclose(PRelu("p", 5).run({"slope": slope}, x), expected, **TOLERANCE)
