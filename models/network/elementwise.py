"""Arithmetic on every element: two layers combined, or numbers for each channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .activation import check_activation
from .checks import ModelError, Shape, check_choice, check_shape, describe_shape
from .layer import Layer

OPERATIONS = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@dataclass(frozen=True)
class Combine(Layer):
    """activation(first operation second) of two layers, element by element: a residual sum, say. No tensors.

    They have one shape, or the second has one number for each channel of the first, (C, 1, 1), as in squeeze and
    excite.
    """

    operation: str
    activation: str = "identity"
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "combine"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.name, "operation", self.operation, OPERATIONS)
        check_activation(self.name, self.activation, self.activation_parameters)

    def reads(self) -> tuple[int, int]:
        """Two layers."""
        return 2, 2

    def output_shape(self, *shapes: Shape) -> Shape:
        """Two shapes in, the first out; ModelError where they do not fit."""
        first, second = shapes
        if first == second or (len(first) == 3 and second == (first[0], 1, 1)):
            return first
        raise ModelError(
            f"layer {self.name!r}: {self.operation} of {describe_shape(first)} and {describe_shape(second)}; two of "
            "one shape are needed, or one number a channel as the second"
        )


@dataclass(frozen=True)
class Affine(Layer):
    """y = activation(x * scale + shift), with a number of each for a channel (or feature), or for every element.

    `shape` is that of both tensors: (C,) for one number a channel, or the whole (C, H, W).
    Tensors: `<name>.scale` and `<name>.shift`.
    """

    shape: tuple[int, ...]
    activation: str = "identity"
    activation_parameters: tuple[float, ...] = ()

    kind: ClassVar[str] = "affine"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shape(self.name, "shape", self.shape)
        check_activation(self.name, self.activation, self.activation_parameters)

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {f"{self.name}.scale": self.shape, f"{self.name}.shift": self.shape}

    def output_shape(self, *shapes: Shape) -> Shape:
        """(C, H, W) or (F,) in, the same out; ModelError where the numbers do not fit."""
        if self.shape not in (shapes[0], shapes[0][:1]):
            raise ModelError(
                f"layer {self.name!r}: has numbers for {describe_shape(self.shape)}, but what comes before gives "
                f"{describe_shape(shapes[0])}"
            )
        return shapes[0]
