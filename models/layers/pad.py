"""Padding with a constant or with pixels of the image, and cropping. No tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import MAX_SIDE, Shape, check_each, check_numbers, describe_shape
from ..errors import ModelError
from .layer import Layer, Tensors

MODES = ("constant", "edge", "reflect", "wrap")  # named as in numpy.pad and ONNX


@dataclass(frozen=True)
class Pad(Layer):
    """Padding with `value`. `padding` is (top, left, bottom, right); negative numbers crop.

    Modes other than "constant" repeat the edge, mirror the image at its edge, or wrap it around. In these modes, the
    padding must not exceed the size of the image.
    """

    padding: tuple[int, int, int, int]
    value: float = 0.0
    mode: str = "constant"

    kind: ClassVar[str] = "pad"
    only_moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_each(self.name, "padding", self.padding, 4, -MAX_SIDE, MAX_SIDE)
        check_numbers(self.name, "value", (self.value,), 1)
        if self.mode not in MODES:
            raise ModelError(f"layer {self.name!r}: mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        if self.mode != "constant" and (self.value or min(self.padding) < 0):
            raise ModelError(f"layer {self.name!r}: mode {self.mode} accepts neither a value nor negative padding")

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return (C, H + top + bottom, W + left + right) for (C, H, W); raise ModelError if nothing is left."""
        channels, height, width = self.image(shapes[0])
        top, left, bottom, right = self.padding
        sides = (height + top + bottom, width + left + right)
        cropped = (height + min(top, 0) + min(bottom, 0), width + min(left, 0) + min(right, 0))
        limits = [side - (self.mode == "reflect") for side in (height, width)] * 2
        too_far = self.mode != "constant" and any(pad > most for pad, most in zip(self.padding, limits))
        if min(cropped) < 1 or max(sides) > 2 * MAX_SIDE or too_far:
            raise ModelError(
                f"layer {self.name!r}: padding {list(self.padding)} does not fit {describe_shape(shapes[0])}"
            )
        return (channels, *sides)

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Pad or crop every image."""
        (x,) = inputs
        top, left, bottom, right = self.padding
        height, width = x.shape[2:]
        cropped = x[:, :, max(0, -top) : height + min(0, bottom), max(0, -left) : width + min(0, right)]
        sides = ((0, 0), (0, 0), (max(0, top), max(0, bottom)), (max(0, left), max(0, right)))
        if self.mode == "constant":
            return np.pad(cropped, sides, constant_values=self.value)
        return np.pad(cropped, sides, mode=self.mode)  # type: ignore[call-overload]
