"""A linear sequence of layers added to a builder, for files that contain weights but no graph."""

from __future__ import annotations

import math

import numpy as np

from ..checks import INPUT
from ..errors import ModelError
from ..inputs import Input
from ..layers import Activation, Affine, Conv2d, Dense, Pool, Softmax
from . import fold
from .builder import NetworkBuilder
from .view import View


class Sequence:
    """A sequence of layers; its methods append one step and raise ModelError if it does not fit."""

    def __init__(self, source: Input) -> None:
        self.builder = NetworkBuilder(source)
        self.last = INPUT

    @property
    def shape(self) -> tuple[int, ...]:
        """The output shape of the last step for one example."""
        return self.builder.shapes[self.last]

    def conv2d(
        self,
        weight: np.ndarray,
        bias: np.ndarray | None,
        padding: tuple[int, int, int, int] = (0, 0, 0, 0),
        stride: int = 1,
        groups: int = 1,
    ) -> None:
        """Append a convolution with weight [Cout, Cin / groups, kh, kw] and bias [Cout]."""
        outputs, inputs, height, width = weight.shape
        layer = Conv2d(
            self.builder.name("conv"),
            inputs * groups,
            outputs,
            (height, width),
            padding,
            stride=(stride, stride),
            groups=groups,
            inputs=(self.last,),
        )
        self.last = self.builder.add(layer, {"weight": weight, "bias": _or_zeros(bias, outputs)})

    def dense(self, weight: np.ndarray, bias: np.ndarray | None) -> None:
        """Append x @ weight [F, F'] + bias [F']; an image is flattened first."""
        self.flatten()
        layer = Dense(self.builder.name("dense"), weight.shape[0], weight.shape[1], inputs=(self.last,))
        self.last = self.builder.add(layer, {"weight": weight, "bias": _or_zeros(bias, weight.shape[1])})

    def affine(self, affine: fold.ScaleShift) -> None:
        """Append a scale and a shift for each channel (or feature)."""
        layer = Affine(self.builder.name("affine"), affine.scale.shape, inputs=(self.last,))
        self.last = self.builder.add(layer, {"scale": affine.scale, "shift": affine.shift})

    def activate(self, activation: str, parameters: tuple[float, ...] = ()) -> None:
        """Append an elementwise activation."""
        layer = Activation(self.builder.name(activation), activation, parameters, inputs=(self.last,))
        self.last = self.builder.add(layer)

    def pool(self, method: str, window: int, stride: int) -> None:
        """Append a max or average pool with square windows; a window of 0 covers the whole image."""
        if len(self.shape) != 3:
            raise ModelError(f"a pool expects an image, but its input is {self.shape[0]} features")
        size = (window, window) if window else (self.shape[1], self.shape[2])
        step = (stride, stride) if window else size
        layer = Pool(self.builder.name("pool"), method, size, step, inputs=(self.last,))
        self.last = self.builder.add(layer)

    def flatten(self) -> None:
        """Convert (C, H, W) to features; leave features unchanged."""
        self.last = self.builder.arrange(View.of(self.last, self.shape), (math.prod(self.shape),))

    def softmax(self, log: bool = False) -> None:
        """Append probabilities over the features, or their logarithms."""
        self.flatten()
        self.last = self.builder.add(Softmax(self.builder.name("softmax"), log, inputs=(self.last,)))


def _or_zeros(bias: np.ndarray | None, count: int) -> np.ndarray:
    return np.zeros(count, np.float32) if bias is None else bias
