"""Normalisation by what comes in itself: across channels, and softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from .checks import MAX_CHANNELS, MAX_FEATURES, ModelError, Shape, check_numbers, check_range, describe_shape
from .layer import Layer


def check_epsilon(where: str, epsilon: float) -> None:
    """ModelError unless a variance and this number are above 0 together."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ModelError(f"layer {where!r}: epsilon is {epsilon}, but it must be above 0")


@dataclass(frozen=True)
class LocalResponseNorm(Layer):
    """x / (bias + alpha / size * sum of x² over `size` channels around it) ** beta, at each pixel. No tensors.

    `size` is odd; channels outside the image count as 0.
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    kind: ClassVar[str] = "local_response_norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "size", self.size, 1, MAX_CHANNELS)
        check_numbers(self.name, "alpha, beta and bias", (self.alpha, self.beta, self.bias), 3)
        if self.size % 2 == 0:
            raise ModelError(f"layer {self.name!r}: size is {self.size}; an odd number of channels is needed")
        if self.bias <= 0 or self.alpha < 0:
            raise ModelError(f"layer {self.name!r}: alpha {self.alpha:g}, bias {self.bias:g} may divide by zero")

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in and out; ModelError for features."""
        return self.image(shapes[0])


@dataclass(frozen=True)
class LayerNorm(Layer):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over the channels of each pixel, or over the features.

    Tensors: `<name>.scale` [channels] and `<name>.shift` [channels].
    """

    channels: int
    epsilon: float = 1e-5

    kind: ClassVar[str] = "layer_norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "channels", self.channels, 1, MAX_FEATURES)
        check_epsilon(self.name, self.epsilon)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {f"{self.name}.scale": (self.channels,), f"{self.name}.shift": (self.channels,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) or (C,) in, the same out; ModelError for another number of channels."""
        if shapes[0][0] != self.channels:
            raise ModelError(
                f"layer {self.name!r}: normalises {self.channels} channels, but {shapes[0][0]} channels come in"
            )
        return shapes[0]


@dataclass(frozen=True)
class GroupNorm(Layer):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over all pixels of each of `groups` groups of channels.

    As many groups as channels is instance norm; one is layer norm over the whole image. Tensors: `<name>.scale`
    [channels] and `<name>.shift` [channels].
    """

    channels: int
    groups: int
    epsilon: float = 1e-5

    kind: ClassVar[str] = "group_norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "channels", self.channels, 1, MAX_CHANNELS)
        check_range(self.name, "groups", self.groups, 1, self.channels)
        if self.channels % self.groups:
            raise ModelError(f"layer {self.name!r}: {self.groups} groups do not divide {self.channels} channels")
        check_epsilon(self.name, self.epsilon)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {f"{self.name}.scale": (self.channels,), f"{self.name}.shift": (self.channels,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in and out; ModelError for features, or another number of channels."""
        channels, _, _ = self.image(shapes[0])
        if channels != self.channels:
            raise ModelError(f"layer {self.name!r}: normalises {self.channels} channels, but {channels} come in")
        return shapes[0]


@dataclass(frozen=True)
class Softmax(Layer):
    """Probabilities over the features, or their logarithms with `log`; always the last layer. No tensors."""

    log: bool = False

    kind: ClassVar[str] = "softmax"

    def output_shape(self, *shapes: Shape) -> Shape:
        """(F,) in, (F,) out; ModelError for an image."""
        if len(shapes[0]) != 1:
            raise ModelError(
                f"layer {self.name!r}: takes features, but what comes before gives {describe_shape(shapes[0])}"
            )
        return shapes[0]
