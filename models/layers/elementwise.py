"""Elementwise arithmetic: combination of two layers, or a scale and shift per channel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import Shape, check_choice, check_shape, describe_shape
from ..errors import ModelError
from .activation import activate, check_activation
from .layer import Layer, Tensors, by_channel

_FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
OPERATIONS = tuple(_FUNCTIONS)


@dataclass(frozen=True)
class Combine(Layer):
    """Elementwise activation(first operation second) of two layers, such as a residual sum. No tensors.

    Both must have the same shape, or the second may have a single row, column or both, which are repeated: with the
    shape (C, 1, 1), for example, it has one value per channel of the first, like a squeeze-and-excite gate.
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
        """Return (2, 2): the operation has two operands."""
        return 2, 2

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the shape of the first input; raise ModelError if the shapes do not match."""
        first, second = shapes
        is_repeated = len(first) == len(second) == 3 and first[0] == second[0]
        if first == second or (is_repeated and all(small in (1, size) for small, size in zip(second, first))):
            return first
        raise ModelError(
            f"layer {self.name!r}: cannot apply {self.operation} to {describe_shape(first)} and "
            f"{describe_shape(second)}; both inputs must have the same shape, or the second must have one number per "
            "channel, row or column"
        )

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Combine the two inputs and apply the activation."""
        result = _FUNCTIONS[self.operation](*inputs)
        return activate(result, self.activation, self.activation_parameters)


@dataclass(frozen=True)
class Affine(Layer):
    """Affine map y = activation(x * scale + shift), with one scale and shift per channel (or feature), or per element.

    `shape` is the shape of both tensors: (C,) for one value per channel, or (C, H, W) for one per element.
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

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of the scale and the shift."""
        return {"scale": self.shape, "shift": self.shape}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (C, H, W) or (F,); raise ModelError if the tensors do not match."""
        if self.shape not in (shapes[0], shapes[0][:1]):
            raise ModelError(
                f"layer {self.name!r}: has values for {describe_shape(self.shape)}, but its input is "
                f"{describe_shape(shapes[0])}"
            )
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Scale, shift and apply the activation."""
        (x,) = inputs
        scale, shift = by_channel(tensors["scale"], x), by_channel(tensors["shift"], x)
        return activate(x * scale + shift, self.activation, self.activation_parameters)
