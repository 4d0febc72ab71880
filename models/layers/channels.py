"""Layers that concatenate, select or reorder channels (or features). They have no tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_CHANNELS, MAX_READS, Shape, check_range, describe_shape
from ..errors import ModelError
from .layer import Layer, Tensors


@dataclass(frozen=True)
class Concat(Layer):
    """Concatenation of the channels (or features) of several layers."""

    kind: ClassVar[str] = "concat"
    only_moves: ClassVar[bool] = True

    def reads(self) -> tuple[int, int]:
        """Return the limits: the layer reads one or more layers."""
        return 1, MAX_READS

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the shape with all channels; raise ModelError if the shapes differ in other axes."""
        for shape in shapes:
            if len(shape) != len(shapes[0]) or shape[1:] != shapes[0][1:]:
                raise ModelError(
                    f"layer {self.name!r}: the channels of {describe_shape(shapes[0])} and of {describe_shape(shape)} "
                    "cannot be concatenated"
                )
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Concatenate the channels."""
        return np.concatenate(inputs, axis=1)


@dataclass(frozen=True)
class ChannelSlice(Layer):
    """Selection of the channels (or features) `first` to `last - 1`."""

    first: int
    last: int

    kind: ClassVar[str] = "channel_slice"
    only_moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "first", self.first, 0, 1 << 24)
        check_range(self.name, "last", self.last, self.first + 1, 1 << 24)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (last - first, H, W) for (C, H, W), or (last - first,) for (C,).

        Raises ModelError if the input has fewer than `last` channels.
        """
        if self.last > shapes[0][0]:
            raise ModelError(f"layer {self.name!r}: reads channels up to {self.last}, but its input has {shapes[0][0]}")
        return (self.last - self.first, *shapes[0][1:])

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Select the channels."""
        return inputs[0][:, self.first : self.last]


@dataclass(frozen=True)
class ChannelShuffle(Layer):
    """Transposition of the channels, viewed as [groups, C / groups]: 0, C/groups, 2C/groups, …, 1, C/groups + 1, …"""

    groups: int

    kind: ClassVar[str] = "channel_shuffle"
    only_moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "groups", self.groups, 1, MAX_CHANNELS)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W); raise ModelError if the groups do not divide the channels."""
        channels, _, _ = self.image(shapes[0])
        if channels % self.groups:
            raise ModelError(f"layer {self.name!r}: {channels} channels cannot be divided into {self.groups} groups")
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Exchange the axis of the groups and the axis of the channels within them."""
        batch, channels, *sides = inputs[0].shape
        split = inputs[0].reshape(batch, self.groups, channels // self.groups, *sides)
        return split.swapaxes(1, 2).reshape(inputs[0].shape)
