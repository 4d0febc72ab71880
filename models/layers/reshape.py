"""Layers that change the shape or the order of the axes. No tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import Shape, check_count, check_shape
from ..errors import ModelError
from .layer import Layer, Tensors

MAX_AXES = 5  # maximum number of axes in a transpose's split, limited by the access patterns of DMAs


@dataclass(frozen=True)
class Flatten(Layer):
    """Flattening of (C, H, W) to (C * H * W,), channel by channel and row by row."""

    kind: ClassVar[str] = "flatten"
    only_moves: ClassVar[bool] = True

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (F,) for any shape."""
        return (math.prod(shapes[0]),)

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Flatten every example."""
        (x,) = inputs
        return x.reshape(len(x), -1)


@dataclass(frozen=True)
class Reshape(Layer):
    """Reshaping to (C, H, W) or (F,), which preserves the order of the elements."""

    shape: tuple[int, ...]

    kind: ClassVar[str] = "reshape"
    only_moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shape(self.name, "shape", self.shape)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return `shape`; raise ModelError if the number of elements differs."""
        check_count(self.name, shapes[0], self.shape)
        return self.shape

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Reshape every example."""
        (x,) = inputs
        return x.reshape(len(x), *self.shape)


@dataclass(frozen=True)
class Transpose(Layer):
    """Transposition: the input is reshaped to `split`, its axes are permuted to `order`, and it is reshaped to `shape`.

    For example, split (C, H, W), order (1, 2, 0) and shape (H * W * C,) convert an image to channels-last features.
    """

    split: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    kind: ClassVar[str] = "transpose"
    only_moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shape(self.name, "shape", self.shape)
        if not 1 <= len(self.split) <= MAX_AXES or sorted(self.order) != list(range(len(self.split))):
            raise ModelError(
                f"layer {self.name!r}: order {list(self.order)[:8]} is not a permutation of the axes of split"
            )
        if min(self.split) < 1:
            raise ModelError(f"layer {self.name!r}: the sizes in split must be at least 1, got {list(self.split)}")
        check_count(self.name, self.split, self.shape)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return `shape`; raise ModelError if the number of elements differs."""
        check_count(self.name, shapes[0], self.shape)
        return self.shape

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Split, reorder and reshape every example."""
        (x,) = inputs
        order = (0, *(axis + 1 for axis in self.order))
        return x.reshape(len(x), *self.split).transpose(order).reshape(len(x), *self.shape)
