"""The base class of all layer kinds, which define tensors, an output shape and a reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..checks import Shape, check_name, describe_shape
from ..errors import ModelError

Tensors = Mapping[str, np.ndarray]  # the tensors of a layer by the last part of their names, such as "weight"


@dataclass(frozen=True)
class Layer:
    """A step of a network. `inputs` lists the layers that it reads, or "input"; the default is the previous layer.

    A layer kind is a frozen dataclass in a module of this package. It sets `kind` (its name in model files), checks its
    fields in `__post_init__`, and overrides `output_shape` and `run`, as well as `reads` and `tensors` if the defaults
    do not apply. Its fields are also its JSON fields; their types must be int, float, str, bool or tuples of one of
    these.

    Shapes describe a single example, without the batch axis: (C, H, W) for an image, (F,) for features.
    """

    name: str
    inputs: tuple[str, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str]
    only_moves: ClassVar[bool] = False  # True if the layer only moves elements, without arithmetic

    def __post_init__(self) -> None:
        check_name(self.name)

    def reads(self) -> tuple[int, int]:
        """Return the minimum and maximum number of inputs that the layer accepts."""
        return 1, 1

    def tensors(self) -> dict[str, Shape]:
        """Return the shapes of the layer's tensors by the last part of their names."""
        return {}

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the output shape for inputs of the given shapes; raise ModelError if they do not match."""
        raise NotImplementedError(f"{type(self).__name__}.output_shape")

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the output for a batch in NumPy: the reference with which kernels are compared.

        `inputs` are float32 [B, *shape], one for each layer that this layer reads; the result is [B, *output_shape].
        The implementation is independent of the kernels; tests compare it with ONNX Runtime.
        """
        raise NotImplementedError(f"{type(self).__name__}.run")

    def multiply_accumulates(self, *shapes: Shape) -> int:
        """Return the number of multiply-accumulates per example; 0 for layers that are not matrix multiplications."""
        return 0

    def tensor_shapes(self) -> dict[str, Shape]:
        """Return the shapes of the layer's tensors by their full names, `<name>.<part>`."""
        return {f"{self.name}.{part}": shape for part, shape in self.tensors().items()}

    def own_tensors(self, tensors: Tensors) -> dict[str, np.ndarray]:
        """Select the layer's tensors from the tensors of the network, keyed by the last part of their names."""
        return {part: tensors[f"{self.name}.{part}"] for part in self.tensors()}

    def image(self, shape: Shape) -> tuple[int, int, int]:
        """Return `shape` as (C, H, W); raise ModelError if it is not the shape of an image."""
        if len(shape) != 3:
            raise ModelError(f"layer {self.name!r}: expects an image, but its input is {describe_shape(shape)}")
        return shape[0], shape[1], shape[2]


def by_channel(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Reshape `values`, [C] or the shape of one example, to broadcast over the batch `x` [B, C, ...]."""
    return values.reshape(values.shape + (1,) * (x.ndim - 1 - values.ndim))
