"""A network built operation by operation, each merged into the layer before it where that gives the same answer.

Formats of other tools have an operation for each step; a layer of ours does several at once. What finds no layer to
merge into (a pool after a pool, say) becomes a layer of its own: an identity or diagonal convolution or dense layer,
which computes the same.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from ..network import Conv2d, Dense, Flatten, Input, Layer, ModelError, Network, Pool, Shape, Softmax
from . import fold

MAX_DIAGONAL = 4096  # channels or features of a diagonal layer, whose weights are a square matrix


class NetworkBuilder:
    """Collects layers, with names that count up, and their tensors. Methods raise ModelError for what does not fit."""

    def __init__(self, source: Input) -> None:
        self._input = source
        self._layers: list[Layer] = []
        self._before: list[Shape] = []  # of each layer
        self._tensors: dict[str, np.ndarray] = {}
        self._parameters = 0
        self._names: Counter[str] = Counter()
        self.shape: Shape = source.shape  # after the last layer

    def conv2d(self, weight: np.ndarray, bias: np.ndarray | None, pads: tuple[int, int, int, int]) -> None:
        """Convolution of stride 1: weight [Cout, Cin, kh, kw], bias [Cout], pads (top, left, bottom, right)."""
        weight, padding = fold.square_filters(weight, pads)
        out_channels, in_channels, side, _ = weight.shape
        self._add(Conv2d(self._name("conv"), in_channels, out_channels, (side, side), (padding,) * 4), weight, bias)

    def dense(self, weight: np.ndarray, bias: np.ndarray | None) -> None:
        """x @ weight [F, F'] + bias [F']."""
        self._add(Dense(self._name("dense"), *weight.shape), weight, bias)

    def affine(self, affine: fold.Affine) -> None:
        """A number for each channel (or feature) to multiply by, and one to add."""
        if affine.scale.shape != self.shape[:1]:
            raise ModelError(f"has numbers for {len(affine.scale)} channels, but {self.shape[0]} come in")
        last = self._layers[-1] if self._layers else None
        if not isinstance(last, (Conv2d, Dense)) or last.activation != "identity" or _is_pooled(last):
            last = self._add_diagonal()
        names = (f"{last.name}.weight", f"{last.name}.bias")
        weight, bias = (self._tensors[name] for name in names)
        folded = (fold.after_conv2d if isinstance(last, Conv2d) else fold.after_dense)(weight, bias, affine)
        self._tensors.update(zip(names, folded, strict=True))

    def activate(self, activation: str) -> None:
        """An activation, element by element."""
        position = len(self._layers) - 1
        while position >= 0 and isinstance(self._layers[position], Flatten):
            position -= 1  # it makes no difference to an element whether it is flattened before or after
        layer = self._layers[position] if position >= 0 else None
        if isinstance(layer, (Conv2d, Dense)):
            if layer.activation == activation == "relu":
                return
            # The layer's own activation comes before its pool, which only matters to one that is not monotone.
            if layer.activation == "identity" and not (_is_pooled(layer) and activation == "gelu"):
                self._layers[position] = dataclasses.replace(layer, activation=activation)
                return
        diagonal = self._add_diagonal()
        self._layers[-1] = dataclasses.replace(diagonal, activation=activation)

    def max_pool(self) -> None:
        """Maximum over 2x2 pixels, stride 2; an odd last row or column is dropped."""
        if len(self.shape) != 3:
            raise ModelError(f"takes an image, but {self.shape[0]} features come in")
        layer = self._layers[-1] if self._layers else None
        if not isinstance(layer, Conv2d) or _is_pooled(layer):
            layer = self._add_diagonal()
        assert isinstance(layer, Conv2d)
        pooled = dataclasses.replace(layer, pool_size=2)
        self.shape = pooled.output_shape(self._before[-1])
        self._layers[-1] = pooled

    def average_pool(self, height: int, width: int) -> None:
        """Average over windows side by side; one pixel is left as it is."""
        if (height, width) != (1, 1):
            self._append(Pool(self._name("pool"), "average", (height, width), (height, width)))

    def flatten(self) -> None:
        """(C, H, W) to features; features stay as they are."""
        if len(self.shape) > 1:
            self._append(Flatten(self._name("flatten")))

    def softmax(self) -> None:
        """Probabilities over the features."""
        self._append(Softmax(self._name("softmax")))

    def finish(self, name: str, labels: tuple[str, ...] | None) -> tuple[Network, dict[str, np.ndarray]]:
        """The network and its tensors; without labels, they are the numbers of the classes."""
        if labels is None and len(self.shape) == 1:
            labels = tuple(map(str, range(self.shape[0])))
        return Network(name, self._input, tuple(self._layers), labels or ()), self._tensors

    def _name(self, stem: str) -> str:
        self._names[stem] += 1
        return f"{stem}{self._names[stem]}"

    def _append(self, layer: Layer) -> None:
        after = layer.output_shape(self.shape)
        self._layers.append(layer)
        self._before.append(self.shape)
        self.shape = after

    def _add(self, layer: Conv2d | Dense, weight: np.ndarray, bias: np.ndarray | None) -> None:
        if bias is not None and bias.shape != layer.tensor_shapes()[f"{layer.name}.bias"]:
            raise ModelError(f"its bias has shape {list(bias.shape)}, its weight {list(weight.shape)}")
        self._parameters += weight.size
        if self._parameters > fold.MAX_PARAMETERS:
            raise ModelError(f"more than {fold.MAX_PARAMETERS} weights are too many")
        self._append(layer)
        if bias is None:
            bias = np.zeros(weight.shape[0 if isinstance(layer, Conv2d) else 1], np.float32)
        self._tensors |= {f"{layer.name}.weight": weight, f"{layer.name}.bias": bias}

    def _add_diagonal(self) -> Conv2d | Dense:
        """A layer that gives back what comes in, for others to be merged into."""
        size = self.shape[0]
        if size > MAX_DIAGONAL:
            raise ModelError(
                f"stands alone, without a convolution or dense layer just before it, at {size} channels or features; "
                f"at most {MAX_DIAGONAL} are allowed for that"
            )
        weight = np.eye(size, dtype=np.float32)
        if len(self.shape) == 3:
            self.conv2d(weight[:, :, None, None], None, (0, 0, 0, 0))
        else:
            self.dense(weight, None)
        added = self._layers[-1]
        assert isinstance(added, (Conv2d, Dense))
        return added


def _is_pooled(layer: Layer) -> bool:
    return isinstance(layer, Conv2d) and layer.pool_size > 1
