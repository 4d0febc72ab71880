"""What all kinds of layer have in common: a name, the layers they read, the tensors they own, the shape they give."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from .checks import ModelError, Shape, check_name, describe_shape


@dataclass(frozen=True)
class Layer:
    """A step of a network. `inputs` names the layers that it reads, or "input"; left out, it is the layer before.

    Shapes are those of one example, without the batch: (C, H, W) for an image, (F,) for features.
    """

    name: str
    inputs: tuple[str, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        check_name(self.name)

    def reads(self) -> tuple[int, int]:
        """The fewest and the most layers that it reads."""
        return 1, 1

    def tensor_shapes(self) -> dict[str, Shape]:
        """Names and shapes of the tensors that this layer reads."""
        return {}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Shape of its output for inputs of `shapes`; ModelError where they do not fit."""
        raise NotImplementedError

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Multiply-accumulates for one example; 0 where it is not a matter of them."""
        return 0

    def image(self, shape: Shape) -> tuple[int, int, int]:
        """`shape` as (C, H, W); ModelError where it is no image."""
        if len(shape) != 3:
            raise ModelError(
                f"layer {self.name!r}: takes an image, but what comes before gives {describe_shape(shape)}"
            )
        return shape[0], shape[1], shape[2]
