"""Normalisation by statistics of the input: over channels, over groups, or over neighbouring channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_CHANNELS, MAX_FEATURES, Shape, check_epsilon, check_numbers, check_range
from ..errors import ModelError
from .layer import Layer, Tensors, by_channel


@dataclass(frozen=True)
class LocalResponseNorm(Layer):
    """x / (bias + alpha / size * sum of x² over the `size` nearest channels) ** beta, at each pixel. No tensors.

    `size` must be odd; channels outside the image are treated as 0.
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
            raise ModelError(f"layer {self.name!r}: size is {self.size}; expected an odd number of channels")
        if self.bias <= 0 or self.alpha < 0:
            raise ModelError(
                f"layer {self.name!r}: alpha {self.alpha:g} and bias {self.bias:g} may cause a division by zero"
            )

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W); raise ModelError for features."""
        return self.image(shapes[0])

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Divide by a power of the sums of squares."""
        (x,) = inputs
        reach = self.size // 2
        squares = np.pad(x * x, ((0, 0), (reach, reach), (0, 0), (0, 0)))
        sums = np.lib.stride_tricks.sliding_window_view(squares, self.size, axis=1).sum(axis=-1)
        return x / (np.float32(self.bias) + np.float32(self.alpha / self.size) * sums) ** np.float32(self.beta)


@dataclass(frozen=True)
class LayerNorm(Layer):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over the channels of each pixel, or over the features.

    If `is_centred` is set, the mean is already zero and is not subtracted. Tensors: `<name>.scale` [channels] and
    `<name>.shift` [channels].
    """

    channels: int
    epsilon: float = 1e-5
    is_centred: bool = False

    kind: ClassVar[str] = "layer_norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "channels", self.channels, 1, MAX_FEATURES)
        check_epsilon(self.name, self.epsilon)

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of the scale and the shift, with one value per channel."""
        return {"scale": (self.channels,), "shift": (self.channels,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W) or (C,); raise ModelError for another number of channels."""
        if shapes[0][0] != self.channels:
            raise ModelError(
                f"layer {self.name!r}: normalises {self.channels} channels, but its input has {shapes[0][0]}"
            )
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Normalise over the channels."""
        (x,) = inputs
        centred = x if self.is_centred else x - x.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        normal = centred / np.sqrt(variance + np.float32(self.epsilon))
        return normal * by_channel(tensors["scale"], x) + by_channel(tensors["shift"], x)


@dataclass(frozen=True)
class GroupNorm(Layer):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift over all pixels of each group of channels; there are
    `groups` groups.

    With as many groups as channels, this is instance norm; with one group, it is layer norm over the whole image.
    Tensors: `<name>.scale` [channels] and `<name>.shift` [channels].
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
            raise ModelError(
                f"layer {self.name!r}: {self.channels} channels cannot be divided into {self.groups} groups"
            )
        check_epsilon(self.name, self.epsilon)

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of the scale and the shift, with one value per channel."""
        return {"scale": (self.channels,), "shift": (self.channels,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W); raise ModelError for features or another number of channels."""
        channels, _, _ = self.image(shapes[0])
        if channels != self.channels:
            raise ModelError(f"layer {self.name!r}: normalises {self.channels} channels, but its input has {channels}")
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Normalise over the pixels of each group."""
        (x,) = inputs
        grouped = x.reshape(len(x), self.groups, -1)
        centred = grouped - grouped.mean(axis=2, keepdims=True)
        variance = (centred * centred).mean(axis=2, keepdims=True)
        normal = (centred / np.sqrt(variance + np.float32(self.epsilon))).reshape(x.shape)
        return normal * by_channel(tensors["scale"], x) + by_channel(tensors["shift"], x)
