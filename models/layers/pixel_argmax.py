"""A layer that computes the class of each pixel. No tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_LABELS, Shape, check_range
from ..errors import ModelError
from .layer import Layer, Tensors


@dataclass(frozen=True)
class PixelArgmax(Layer):
    """The (first) channel with the largest value at each pixel, as at the end of a segmentation network.

    Maps (classes, H, W) to H * W features in row-major order: integers from 0 to classes - 1.
    """

    classes: int

    kind: ClassVar[str] = "pixel_argmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.name, "classes", self.classes, 1, MAX_LABELS)

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (H * W,) for (classes, H, W); raise ModelError for another number of channels."""
        channels, height, width = self.image(shapes[0])
        if channels != self.classes:
            raise ModelError(
                f"layer {self.name!r}: expects {self.classes} channels, one for each class, but its input has "
                f"{channels}"
            )
        return (height * width,)

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Find the first channel with the largest value."""
        (x,) = inputs
        return x.argmax(axis=1).reshape(len(x), -1).astype(np.float32)
