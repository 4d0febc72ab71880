"""The activations: their names, how many numbers each takes, and what those are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .checks import MAX_CHANNELS, ModelError, Shape, check_choice, check_numbers, check_range
from .layer import Layer

# Name -> its parameters, in order, as ONNX names them.
ACTIVATION_PARAMETERS: dict[str, tuple[str, ...]] = {
    "identity": (),
    "relu": (),
    "gelu": (),  # the exact one, by erf
    "sigmoid": (),
    "tanh": (),
    "gelu_tanh": (),  # gelu as its approximation by tanh
    "silu": (),  # x * sigmoid(x), also called swish
    "hardswish": (),  # x * min(max(x / 6 + 1/2, 0), 1)
    "hardsigmoid": ("alpha", "beta"),  # min(max(alpha * x + beta, 0), 1)
    "leaky_relu": ("alpha",),  # x, below 0 alpha * x
    "elu": ("alpha",),  # x, below 0 alpha * (exp(x) - 1)
    "selu": ("alpha", "gamma"),  # gamma * elu(x)
    "softplus": (),  # log(1 + exp(x))
    "softsign": (),  # x / (1 + |x|)
    "mish": (),  # x * tanh(softplus(x))
    "clip": ("low", "high"),  # relu6 is clip of 0 and 6
    "exp": (),
    "abs": (),
    "sqrt": (),
    "log": (),
    "reciprocal": (),
    "power": ("exponent",),  # of numbers above 0
}

ACTIVATIONS = tuple(ACTIVATION_PARAMETERS)

# Those that never fall as x grows: the maximum over a window may be taken before them as well as after.
MONOTONE = ("identity", "relu", "sigmoid", "tanh", "softplus", "softsign", "clip", "exp")


def check_activation(where: str, activation: str, parameters: tuple[float, ...]) -> None:
    """ModelError unless it is a known activation with the numbers that it takes."""
    check_choice(where, "activation", activation, ACTIVATIONS)
    check_numbers(where, f"activation_parameters of {activation}", parameters, len(ACTIVATION_PARAMETERS[activation]))
    if activation == "clip" and parameters[0] > parameters[1]:
        raise ModelError(f"layer {where!r}: clips to {parameters[0]:g} to {parameters[1]:g}, which is empty")


@dataclass(frozen=True)
class Activation(Layer):
    """An activation of every element, by itself; most are part of the layer before. No tensors."""

    activation: str
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "activation"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_activation(self.name, self.activation, self.activation_parameters)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Any shape in, the same out."""
        return shapes[0]


@dataclass(frozen=True)
class PRelu(Layer):
    """x, below 0 slope * x, with a slope for each channel (or feature).

    Tensors: `<name>.slope` [channels].
    """

    channels: int

    kind: ClassVar[str] = "prelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "channels", self.channels, 1, MAX_CHANNELS)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {f"{self.name}.slope": (self.channels,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) or (C,) in, the same out; ModelError for another number of channels."""
        if shapes[0][0] != self.channels:
            raise ModelError(f"layer {self.name!r}: has {self.channels} slopes, but {shapes[0][0]} channels come in")
        return shapes[0]
