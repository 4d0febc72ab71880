"""Dense (fully connected) layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_FEATURES, Shape, check_range, describe_shape
from ..errors import ModelError
from .activation import activate, check_activation
from .layer import Layer, Tensors


@dataclass(frozen=True)
class Dense(Layer):
    """Fully connected layer: y = activation(x @ weight + bias).

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

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of the weight and the bias: one column of weights and one bias per output feature."""
        return {"weight": (self.in_features, self.out_features), "bias": (self.out_features,)}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (F',) for (F,); raise ModelError if the input shape does not match."""
        if shapes[0] != (self.in_features,):
            hint = "; put a flatten before it" if len(shapes[0]) == 3 else ""
            raise ModelError(
                f"layer {self.name!r}: expects {self.in_features} features, but its input is "
                f"{describe_shape(shapes[0])}{hint}"
            )
        return (self.out_features,)

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Return the number of multiply-accumulates for one example."""
        return self.in_features * self.out_features

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Multiply by the weight, add the bias and apply the activation."""
        return dense(inputs[0], tensors["weight"], tensors["bias"], self.activation, self.activation_parameters)


def dense(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    activation: str = "identity",
    activation_parameters: tuple[float, ...] = (),
) -> np.ndarray:
    """Compute activation(x @ w + bias): x [B, F], w [F, F'], bias [F'] -> [B, F']."""
    return activate(x @ w + bias, activation, activation_parameters)
