"""Activation functions: names, parameters, reference implementations, and the layers that apply them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_CHANNELS, Shape, check_choice, check_numbers, check_range
from ..errors import ModelError
from .layer import Layer, Tensors, by_channel

# Maps each activation to the names of its parameters, in order, as in ONNX.
ACTIVATION_PARAMETERS: dict[str, tuple[str, ...]] = {
    "identity": (),
    "relu": (),
    "gelu": (),  # the exact version, based on erf
    "sigmoid": (),
    "tanh": (),
    "gelu_tanh": (),  # the approximation of gelu based on tanh
    "silu": (),  # x * sigmoid(x), also called swish
    "hardswish": (),  # x * min(max(x / 6 + 1/2, 0), 1)
    "hardsigmoid": ("alpha", "beta"),  # min(max(alpha * x + beta, 0), 1)
    "leaky_relu": ("alpha",),  # x, or alpha * x if x < 0
    "elu": ("alpha",),  # x, or alpha * (exp(x) - 1) if x < 0
    "selu": ("alpha", "gamma"),  # gamma * elu(x)
    "softplus": (),  # log(1 + exp(x))
    "softsign": (),  # x / (1 + |x|)
    "mish": (),  # x * tanh(softplus(x))
    "clip": ("low", "high"),  # relu6 is clip from 0 to 6
    "exp": (),
    "abs": (),
    "sqrt": (),
    "log": (),
    "reciprocal": (),
    "power": ("exponent",),  # for inputs above 0
    "erf": (),
    "sin": (),
    "cos": (),
    "sign": (),  # -1, 0 or 1
    "step": ("limit",),  # 1 if x > limit, else 0
    "threshold": ("limit",),  # x if x > limit, else 0
}

ACTIVATIONS = tuple(ACTIVATION_PARAMETERS)

# Monotonically increasing activations, which may be applied either before or after max pooling.
MONOTONE = ("identity", "relu", "sigmoid", "tanh", "softplus", "softsign", "clip", "exp")


def check_activation(where: str, activation: str, parameters: tuple[float, ...]) -> None:
    """Raise ModelError unless the activation is known and has the required parameters."""
    check_choice(where, "activation", activation, ACTIVATIONS)
    check_numbers(where, f"activation_parameters of {activation}", parameters, len(ACTIVATION_PARAMETERS[activation]))
    if activation == "clip" and parameters[0] > parameters[1]:
        raise ModelError(f"layer {where!r}: the range of the clip, {parameters[0]:g} to {parameters[1]:g}, is empty")


def activate(x: np.ndarray, activation: str, parameters: tuple[float, ...] = ()) -> np.ndarray:
    """Apply an activation (see `ACTIVATION_PARAMETERS` for its parameters) to every element; float32, same shape."""
    if activation not in _FUNCTIONS:
        raise ValueError(f"unknown activation {activation!r}; known: {', '.join(ACTIVATIONS)}")
    result = _FUNCTIONS[activation](x, *(np.float32(value) for value in parameters))
    return result.astype(np.float32, copy=False)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(np.float32)


def _gelu(x: np.ndarray) -> np.ndarray:
    # x/2 * (1 + erf(x / sqrt 2)), expressed with erfc to avoid cancellation for large negative x.
    scaled = (x.astype(np.float64).ravel() * -math.sqrt(0.5)).tolist()
    tail = np.fromiter(map(math.erfc, scaled), np.float64, count=x.size).reshape(x.shape)
    return 0.5 * x * tail


def _erf(x: np.ndarray) -> np.ndarray:
    return np.fromiter(map(math.erf, x.astype(np.float64).ravel().tolist()), np.float64, count=x.size).reshape(x.shape)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))


def _elu(x: np.ndarray, alpha: np.float32) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, np.float32(0))))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, np.float32(0)) + np.log1p(np.exp(-np.abs(x)))  # never overflows


_ZERO, _ONE = np.float32(0), np.float32(1)

_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
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
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "sign": np.sign,
    "step": lambda x, limit: (x > limit).astype(np.float32),
    "threshold": lambda x, limit: np.where(x > limit, x, _ZERO),
}


@dataclass(frozen=True)
class Activation(Layer):
    """An activation as a separate layer, without tensors; most activations are fused into the preceding layer."""

    activation: str
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "activation"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_activation(self.name, self.activation, self.activation_parameters)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape."""
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Apply the activation."""
        return activate(inputs[0], self.activation, self.activation_parameters)


@dataclass(frozen=True)
class PRelu(Layer):
    """PReLU: x, or slope * x if x < 0, with one slope per channel (or feature).

    Tensors: `<name>.slope` [channels].
    """

    channels: int

    kind: ClassVar[str] = "prelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "channels", self.channels, 1, MAX_CHANNELS)

    def tensors(self) -> dict[str, Shape]:
        """Return the shape of the slopes, one per channel."""
        return {"slope": (self.channels,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W) or (C,); raise ModelError for another number of channels."""
        if shapes[0][0] != self.channels:
            raise ModelError(
                f"layer {self.name!r}: has {self.channels} slopes, but its input has {shapes[0][0]} channels"
            )
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Multiply negative elements by the slopes of their channels."""
        (x,) = inputs
        return np.where(x >= 0, x, x * by_channel(tensors["slope"], x))
