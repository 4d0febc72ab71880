"""What each activation computes, element by element, in float32."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..network import ACTIVATIONS

_Function = Callable[..., np.ndarray]


def activate(x: np.ndarray, activation: str, parameters: tuple[float, ...] = ()) -> np.ndarray:
    """`x` through an activation (see `ACTIVATION_PARAMETERS` for its numbers); float32, same shape."""
    if activation not in _FUNCTIONS:
        raise ValueError(f"unknown activation {activation!r}; known are {', '.join(ACTIVATIONS)}")
    result = _FUNCTIONS[activation](x, *(np.float32(value) for value in parameters))
    return result.astype(np.float32, copy=False)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(np.float32)


def _gelu(x: np.ndarray) -> np.ndarray:
    # x/2 * (1 + erf(x / sqrt 2)), written with erfc so that nothing cancels where x is far below 0.
    scaled = (x.astype(np.float64).ravel() * -math.sqrt(0.5)).tolist()
    tail = np.fromiter(map(math.erfc, scaled), np.float64, count=x.size).reshape(x.shape)
    return 0.5 * x * tail


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))


def _elu(x: np.ndarray, alpha: np.float32) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, np.float32(0))))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, np.float32(0)) + np.log1p(np.exp(-np.abs(x)))  # never overflows


_ZERO, _ONE = np.float32(0), np.float32(1)

_FUNCTIONS: dict[str, _Function] = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, _ZERO),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "silu": lambda x: x * _sigmoid(x),
    "hardswish": lambda x: x * np.clip(x / np.float32(6) + np.float32(0.5), _ZERO, _ONE),
    "hardsigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, _ZERO, _ONE),
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "elu": _elu,
    "selu": lambda x, alpha, gamma: gamma * _elu(x, alpha),
    "softplus": _softplus,
    "softsign": lambda x: x / (_ONE + np.abs(x)),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "clip": lambda x, low, high: np.clip(x, low, high),
    "exp": np.exp,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "log": np.log,
    "reciprocal": np.reciprocal,
    "power": np.power,
}
