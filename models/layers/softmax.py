"""Softmax and its logarithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..checks import Shape, describe_shape
from ..errors import ModelError
from .layer import Layer, Tensors


@dataclass(frozen=True)
class Softmax(Layer):
    """Softmax over the features, or its logarithm if `log` is set. It must be the last layer. No tensors."""

    log: bool = False

    kind: ClassVar[str] = "softmax"

    def output_shape(self, *shapes: Shape) -> Shape:
        """Return the input shape, (F,); raise ModelError for an image."""
        if len(shapes[0]) != 1:
            raise ModelError(f"layer {self.name!r}: expects features, but its input is {describe_shape(shapes[0])}")
        return shapes[0]

    def run(self, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
        """Compute the probabilities, or their logarithms."""
        return (log_softmax if self.log else softmax)(inputs[0])


def softmax(x: np.ndarray) -> np.ndarray:
    """Compute the softmax over the last axis."""
    exponents = np.exp(x - x.max(axis=-1, keepdims=True))
    result: np.ndarray = exponents / exponents.sum(axis=-1, keepdims=True)
    return result


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Compute the logarithm of the softmax over the last axis."""
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
