"""The base of every layer kind: a name, the layers that it reads, its tensors, its output shape, and its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..checks import Shape, check_name, describe_shape
from ..errors import ModelError

Tensors = Mapping[str, np.ndarray]  # tensors of one layer, by the last part of their names, such as "weight"


@dataclass(frozen=True)
class Layer:
    """A step of a network. `inputs` names the layers that it reads, or "input"; if empty, it reads the layer before.

    A kind of layer is a frozen dataclass in a file of this folder. It sets `kind`, its name in model files, checks its
    fields in `__post_init__`, and overrides `output_shape` and `run`, and `reads` and `tensors` where they differ.
    Its fields are also its JSON fields: their types must be int, float, str, bool or tuples of one of these.

    Shapes are those of one example, without the batch: (C, H, W) for an image, (F,) for features.
    """

    name: str
    inputs: tuple[str, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str]
    only_moves: ClassVar[bool] = False  # True if it only moves elements, without arithmetic

    def __post_init__(self) -> None:
        check_name(self.name)

    def reads(self) -> tuple[int, int]:
        """Return the fewest and the most inputs that it accepts."""
        return 1, 1

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of its tensors by the last part of their names."""
        return {}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the shape of its output for inputs of `shapes`; ModelError if they do not fit."""
        raise NotImplementedError(f"{type(self).__name__}.output_shape")

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute its output for a batch, in NumPy: the reference that kernels are compared with.

        `inputs` are float32 [B, *shape], one for each layer that it reads; the result is [B, *output_shape]. Nothing
        here is tuned to agree with the kernels; tests compare it with ONNX Runtime.
        """
        raise NotImplementedError(f"{type(self).__name__}.run")

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Return the multiply-accumulates for one example; 0 for layers that are not matrix multiplications."""
        return 0

    def tensor_shapes(self) -> dict[str, Shape]:
        """Return the shapes of its tensors by their full names, `<name>.<part>`."""
        return {f"{self.name}.{part}": shape for part, shape in self.tensors().items()}

    def own_tensors(self, tensors: Tensors) -> dict[str, np.ndarray]:
        """Return its tensors, by the last part of their names, out of those of the whole network."""
        return {part: tensors[f"{self.name}.{part}"] for part in self.tensors()}

    def image(self, shape: Shape) -> tuple[int, int, int]:
        """Return `shape` as (C, H, W); ModelError if it is not an image."""
        if len(shape) != 3:
            raise ModelError(
                f"layer {self.name!r}: takes an image, but what comes before gives {describe_shape(shape)}"
            )
        return shape[0], shape[1], shape[2]


def by_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return `values`, [C] or the shape of one example, reshaped to broadcast over the batch `x` [B, C, ...]."""
    return values.reshape(values.shape + (1,) * (x.ndim - 1 - values.ndim))
