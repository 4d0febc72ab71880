"""Layers that are matrix multiplications: convolution and dense."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from .activation import check_activation
from .checks import (
    MAX_CHANNELS,
    MAX_FEATURES,
    MAX_KERNEL_ELEMENTS,
    MAX_KERNEL_SIZE,
    MAX_STRIDE,
    ModelError,
    Shape,
    check_each,
    check_range,
    describe_shape,
)
from .layer import Layer


@dataclass(frozen=True)
class Conv2d(Layer):
    """Convolution, then bias, activation and max pooling (stride = size, rows left over are dropped).

    `kernel_size`, `stride` and `dilation` are (height, width), `padding` is (top, left, bottom, right). `groups`
    divides the channels: filters of group g read the g-th part of the input's channels; as many groups as channels is
    a depthwise convolution.

    Tensors: `<name>.weight` [out_channels, in_channels / groups, kh, kw] and `<name>.bias` [out_channels].
    The activation comes before the pool, as in the networks that people train; only one that is not monotone, such as
    gelu, can tell the difference.
    """

    in_channels: int
    out_channels: int
    kernel_size: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    pool_size: int = 1
    activation: str = "identity"
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "conv2d"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "in_channels", self.in_channels, 1, MAX_CHANNELS)
        check_range(self.name, "out_channels", self.out_channels, 1, MAX_CHANNELS)
        check_each(self.name, "kernel_size", self.kernel_size, 2, 1, MAX_KERNEL_SIZE)
        check_range(self.name, "kernel_size", math.prod(self.kernel_size), 1, MAX_KERNEL_ELEMENTS)
        check_each(self.name, "padding", self.padding, 4, 0, MAX_STRIDE)
        check_range(self.name, "pool_size", self.pool_size, 1, 2)
        check_each(self.name, "stride", self.stride, 2, 1, MAX_STRIDE)
        check_each(self.name, "dilation", self.dilation, 2, 1, MAX_STRIDE)
        check_range(self.name, "groups", self.groups, 1, self.in_channels)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ModelError(
                f"layer {self.name!r}: {self.groups} groups do not divide {self.in_channels} channels into "
                f"{self.out_channels}"
            )
        check_activation(self.name, self.activation, self.activation_parameters)

    @property
    def is_plain(self) -> bool:
        """Whether it is square, padded alike on all sides, of stride and dilation 1, in one group."""
        height, width = self.kernel_size
        ones = (*self.stride, *self.dilation, self.groups)
        return height == width and len(set(self.padding)) == 1 and set(ones) == {1}

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {
            f"{self.name}.weight": (self.out_channels, self.in_channels // self.groups, *self.kernel_size),
            f"{self.name}.bias": (self.out_channels,),
        }

    def convolved_shape(self, shape: Shape) -> tuple[int, int, int]:
        """(C, H, W) in, (C', H', W') before the pool; sizes may come out below 1."""
        top, left, bottom, right = self.padding
        sides = [
            (side + pads - dilation * (kernel - 1) - 1) // stride + 1
            for side, pads, dilation, kernel, stride in zip(
                shape[1:], (top + bottom, left + right), self.dilation, self.kernel_size, self.stride
            )
        ]
        return (self.out_channels, sides[0], sides[1])

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) in, (C', H', W') out; ModelError where the input does not fit."""
        shape = shapes[0]
        if len(shape) != 3 or shape[0] != self.in_channels:
            raise ModelError(
                f"layer {self.name!r}: takes {self.in_channels} channels of an image, but what comes before gives "
                f"{describe_shape(shape)}"
            )
        channels, *convolved = self.convolved_shape(shape)
        sides = [side // self.pool_size for side in convolved]
        if min(sides) < 1:
            height, width = self.kernel_size
            padding = self.padding[0] if len(set(self.padding)) == 1 else self.padding
            raise ModelError(
                f"layer {self.name!r}: a {height}x{width} kernel with padding {padding} and "
                f"pool {self.pool_size} leaves nothing of {describe_shape(shape)}"
            )
        return (channels, sides[0], sides[1])

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Multiply-accumulates for one example."""
        taps = math.prod(self.kernel_size) * (self.in_channels // self.groups)
        return math.prod(self.convolved_shape(shapes[0])) * taps


@dataclass(frozen=True)
class Dense(Layer):
    """y = activation(x @ weight + bias).

    Tensors: `<name>.weight` [in_features, out_features] and `<name>.bias` [out_features].
    """

    in_features: int
    out_features: int
    activation: str = "identity"
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "in_features", self.in_features, 1, MAX_FEATURES)
        check_range(self.name, "out_features", self.out_features, 1, MAX_FEATURES)
        check_activation(self.name, self.activation, self.activation_parameters)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {
            f"{self.name}.weight": (self.in_features, self.out_features),
            f"{self.name}.bias": (self.out_features,),
        }

    def output_shape(self, *shapes: Shape) -> Shape:
        """(F,) in, (F',) out; ModelError where the input does not fit."""
        if shapes[0] != (self.in_features,):
            hint = "; put a flatten before it" if len(shapes[0]) == 3 else ""
            raise ModelError(
                f"layer {self.name!r}: takes {self.in_features} features, but what comes before gives "
                f"{describe_shape(shapes[0])}{hint}"
            )
        return (self.out_features,)

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Multiply-accumulates for one example."""
        return self.in_features * self.out_features
