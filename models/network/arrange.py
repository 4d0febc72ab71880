"""Layers that compute nothing: they put the same numbers elsewhere. None has tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from .checks import (
    MAX_CHANNELS,
    MAX_READS,
    MAX_SIDE,
    ModelError,
    Shape,
    check_each,
    check_numbers,
    check_range,
    check_shape,
    describe_shape,
)
from .layer import Layer

MAX_AXES = 5  # of a transpose's split: of a DMA's access pattern


@dataclass(frozen=True)
class Flatten(Layer):
    """(C, H, W) to (C * H * W,), channel by channel and row by row."""

    kind: ClassVar[str] = "flatten"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Any shape in, one axis out."""
        return (math.prod(shapes[0]),)


@dataclass(frozen=True)
class Reshape(Layer):
    """The same numbers in the same order under another shape, (C, H, W) or (F,)."""

    shape: tuple[int, ...]

    kind: ClassVar[str] = "reshape"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shape(self.name, "shape", self.shape)

    def output_shape(self, *shapes: Shape) -> Shape:
        """As many numbers in as `shape` has; ModelError where there are others."""
        _check_count(self.name, shapes[0], self.shape)
        return self.shape


@dataclass(frozen=True)
class Transpose(Layer):
    """The input seen as axes of `split`, these in another order (`order[i]` is the axis that comes i-th), then `shape`.

    (C, H, W) to channels last, as features: split (C, H, W), order (1, 2, 0), shape (H * W * C,).
    """

    split: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    kind: ClassVar[str] = "transpose"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shape(self.name, "shape", self.shape)
        if not 1 <= len(self.split) <= MAX_AXES or sorted(self.order) != list(range(len(self.split))):
            raise ModelError(f"layer {self.name!r}: order {list(self.order)[:8]} is none of the axes of split")
        if min(self.split) < 1:
            raise ModelError(f"layer {self.name!r}: split {list(self.split)} has sizes below 1")
        _check_count(self.name, self.split, self.shape)

    def output_shape(self, *shapes: Shape) -> Shape:
        """As many numbers in as `shape` has; ModelError where there are others."""
        _check_count(self.name, shapes[0], self.shape)
        return self.shape


@dataclass(frozen=True)
class ChannelShuffle(Layer):
    """Channels seen as [groups, C / groups], and read group by group: 0, C/groups, 2C/groups, …, 1, C/groups + 1, …"""

    groups: int

    kind: ClassVar[str] = "channel_shuffle"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "groups", self.groups, 1, MAX_CHANNELS)

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in and out; ModelError where the groups do not divide the channels."""
        channels, _, _ = self.image(shapes[0])
        if channels % self.groups:
            raise ModelError(f"layer {self.name!r}: {self.groups} groups do not divide {channels} channels")
        return shapes[0]


@dataclass(frozen=True)
class Concat(Layer):
    """The channels (or features) of several layers, one after another."""

    kind: ClassVar[str] = "concat"

    def reads(self) -> tuple[int, int]:
        """One layer or more."""
        return 1, MAX_READS

    def output_shape(self, *shapes: Shape) -> Shape:
        """Shapes that agree but for the channels; ModelError where they do not."""
        for shape in shapes:
            if len(shape) != len(shapes[0]) or shape[1:] != shapes[0][1:]:
                raise ModelError(
                    f"layer {self.name!r}: the channels of {describe_shape(shapes[0])} and of {describe_shape(shape)} "
                    "cannot stand one after another"
                )
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])


@dataclass(frozen=True)
class ChannelSlice(Layer):
    """Channels (or features) `first` to `last - 1`."""

    first: int
    last: int

    kind: ClassVar[str] = "channel_slice"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "first", self.first, 0, 1 << 24)
        check_range(self.name, "last", self.last, self.first + 1, 1 << 24)

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) or (C,) in, (last - first, H, W) out; ModelError where there are fewer channels."""
        if self.last > shapes[0][0]:
            raise ModelError(f"layer {self.name!r}: reads channels up to {self.last}, but {shapes[0][0]} come in")
        return (self.last - self.first, *shapes[0][1:])


@dataclass(frozen=True)
class Pad(Layer):
    """`value` around an image; `padding` is (top, left, bottom, right), and one below 0 cuts pixels off."""

    padding: tuple[int, int, int, int]
    value: float = 0.0

    kind: ClassVar[str] = "pad"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_each(self.name, "padding", self.padding, 4, -MAX_SIDE, MAX_SIDE)
        check_numbers(self.name, "value", (self.value,), 1)

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in, (C, H + top + bottom, W + left + right) out; ModelError where nothing is left."""
        channels, height, width = self.image(shapes[0])
        top, left, bottom, right = self.padding
        sides = (height + top + bottom, width + left + right)
        kept = (height + min(top, 0) + min(bottom, 0), width + min(left, 0) + min(right, 0))
        if min(kept) < 1 or max(sides) > 2 * MAX_SIDE:
            raise ModelError(
                f"layer {self.name!r}: padding {list(self.padding)} does not fit {describe_shape(shapes[0])}"
            )
        return (channels, *sides)


def _check_count(name: str, before: Shape, after: Shape) -> None:
    if math.prod(before) != math.prod(after):
        raise ModelError(f"layer {name!r}: {list(before)} and {list(after)} do not have as many numbers")
