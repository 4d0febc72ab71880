"""Move affine maps into the layers that read them, which is useful for Keras networks with BatchNorm after ReLU. The
scales and shifts of a normalisation are also such a map.

A map with positive scales can be moved behind a max pool, and any map behind an average pool that does not count
padding. It is then folded into the weights of the convolutions and dense layers that read it. The map does not apply to
zero padding: a convolution with padding receives the shifts through an additional channel, computed by the preceding
convolution, which is constant inside the image and zero in the padding. A map after a ReLU or a clip is not moved, even
if a 2x2 max pool is between them, because lowering folds it into the bounds (lowering/rules/elementwise.py).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..layers import Affine, Conv2d, Dense, Flatten, GroupNorm, Layer, LayerNorm, Pool
from ..layers.activation import activate
from .layer_table import reading

WHOLE_TILES = 128  # one channel beyond a multiple of this would require another tile of partitions
LEAST_CONSTANT = 0.1  # smallest allowed result of the previous convolution's activation for an input of 1


def sink_affines(
    layers: Mapping[str, Layer], tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]],
    outputs: Sequence[str],
) -> tuple[dict[str, Layer], dict[str, np.ndarray], list[str]]:  # fmt: skip
    """Return layers, tensors and outputs with the affine maps moved as far as possible."""
    sinking = _Sinking(layers, tensors, shapes, outputs)
    for name in tuple(layers):
        sinking.split_norm(name)
    while any(sinking.move(name) for name in tuple(sinking.layers)):
        pass
    return sinking.layers, sinking.tensors, sinking.outputs


class _Sinking:
    """The layers in order, keyed by name, with their tensors and shapes."""

    def __init__(
        self,
        layers: Mapping[str, Layer],
        tensors: Mapping[str, np.ndarray],
        shapes: Mapping[str, tuple[int, ...]],
        outputs: Sequence[str],
    ) -> None:
        self.layers, self.tensors, self.shapes = dict(layers), dict(tensors), dict(shapes)
        self.outputs = list(outputs)

    def split_norm(self, name: str) -> None:
        """Split the scales and shifts off a normalisation if only convolutions without padding and dense layers read
        them."""
        norm, readers = self.layers[name], self._readers(name)
        is_plain = isinstance(norm, (GroupNorm, LayerNorm)) and len(self.shapes[name]) in (1, 3)
        if not is_plain or not readers or name in self.outputs or not all(map(_is_unpadded, readers)):
            return
        affine = Affine(f"{name}.scaled", (self.shapes[name][0],), inputs=(name,))
        if affine.name in self.layers:
            return
        for part, plain in (("scale", 1.0), ("shift", 0.0)):
            numbers = self.tensors[f"{name}.{part}"]
            self.tensors |= {f"{affine.name}.{part}": numbers, f"{name}.{part}": np.full_like(numbers, plain)}
        self.shapes[affine.name] = self.shapes[name]
        layers: dict[str, Layer] = {}
        for other, layer in self.layers.items():
            layers[other] = reading(layer, {name: affine.name})
            if other == name:
                layers[affine.name] = affine
        self.layers = layers

    def move(self, name: str) -> bool:
        """Move the layer `name` if it is an affine map that can be moved; return True if it was moved."""
        layer = self.layers.get(name)
        if not isinstance(layer, Affine) or layer.activation != "identity" or len(layer.shape) != 1:
            return False
        if name in self.outputs or len(self.shapes[layer.inputs[0]]) not in (1, 3):
            return False
        readers = self._readers(name)
        if len(readers) == 1 and isinstance(readers[0], Pool):
            stays = self._is_behind_bounds(layer) and not self._is_free_behind(layer)
            return not (stays and not self._is_merged(readers[0])) and self._past_pool(layer, readers[0])
        return bool(readers) and self._into_readers(layer, readers)

    def _readers(self, name: str) -> list[Layer]:
        return [layer for layer in self.layers.values() if name in layer.inputs]

    def _numbers(self, layer: Affine) -> tuple[np.ndarray, np.ndarray]:
        scale, shift = (self.tensors[f"{layer.name}.{part}"].astype(np.float64) for part in ("scale", "shift"))
        return scale, shift

    def _past_pool(self, affine: Affine, pool: Pool) -> bool:
        """Swap an affine map and the pool that reads it, if they commute."""
        scale, _ = self._numbers(affine)
        if pool.method == "max":
            commutes = bool((scale > 0).all())
        else:
            commutes = not (pool.count_include_pad and any(pool.padding))
        if not commutes:
            return False
        renamed = {pool.name: affine.name}
        swapped: dict[str, Layer] = {
            affine.name: dataclasses.replace(pool, inputs=affine.inputs),
            pool.name: dataclasses.replace(affine, inputs=(pool.name,)),
        }
        layers = (swapped.get(name) or reading(layer, renamed) for name, layer in self.layers.items())
        self.layers = {layer.name: layer for layer in layers}
        self.outputs = [renamed.get(output, output) for output in self.outputs]
        self.shapes[affine.name] = self.shapes[pool.name]
        return True

    def _behind_flatten(self, reader: Layer) -> Sequence[Layer]:
        """Return the consumers of a Flatten that is not an output, or else the consumer itself."""
        if isinstance(reader, Flatten) and reader.name not in self.outputs:
            return self._readers(reader.name)
        return [reader]

    def _into_readers(self, affine: Affine, readers: Sequence[Layer]) -> bool:
        """Fold an affine map into the weights of all its consumers, if possible."""
        _, shift = self._numbers(affine)
        following = [self._behind_flatten(reader) for reader in readers]
        folded = list(itertools.chain.from_iterable(following))
        if not folded or not all(isinstance(layer, (Conv2d, Dense)) for layer in folded):
            return False
        padded = [layer for layer in folded if isinstance(layer, Conv2d) and any(layer.padding)]
        if not padded or not shift.any():
            self._fold(affine, folded, None)
            return True
        alike = all(isinstance(layer, Conv2d) and layer.groups == 1 for layer in folded)
        constant = self._add_constant(affine) if alike and not self._is_behind_bounds(affine) else None
        if constant is None:
            return False
        self._fold(affine, folded, constant)
        return True

    def _is_behind_bounds(self, affine: Affine) -> bool:
        """Return True if lowering can fold an affine map into the bounds of the preceding convolution. A pool that is
        merged into the convolution may be between them."""
        name = affine.inputs[0]
        layer = self.layers.get(name)
        if isinstance(layer, Pool) and self._is_merged(layer) and self._is_read_once(name):
            name = layer.inputs[0]
            layer = self.layers.get(name)
        plain = isinstance(layer, Conv2d) and layer.groups == 1 and layer.activation in ("relu", "clip")
        return plain and self._is_read_once(name)

    def _is_merged(self, pool: Pool) -> bool:
        """Return True if a pool is merged into the convolution before it, directly or through one affine layer."""
        name = pool.inputs[0]
        before = self.layers.get(name)
        if isinstance(before, Affine):
            before = self.layers.get(before.inputs[0])
        plain = pool.method == "max" and pool.window == pool.stride == (2, 2) and pool.dilation == (1, 1)
        plain = plain and not any(pool.padding) and not pool.ceil_mode
        return plain and isinstance(before, Conv2d) and before.pool_size == 1 and before.is_plain

    def _is_free_behind(self, affine: Affine) -> bool:
        """Return True if an affine map can be folded, without a constant channel, into the layers that read it through
        pools."""
        name = affine.name
        while len(readers := self._readers(name)) == 1 and isinstance(readers[0], (Pool, Flatten)):
            name = readers[0].name
            if name in self.outputs:
                return False
        padded = any(isinstance(reader, Conv2d) and any(reader.padding) for reader in readers)
        return all(isinstance(reader, (Conv2d, Dense)) for reader in readers) and not padded

    def _fold(self, affine: Affine, readers: Sequence[Layer], constant: float | None) -> None:
        """Fold an affine map into the weights of its consumers.

        `constant` is the value of an additional input channel inside the image, or None if there is none.
        """
        scale, shift = self._numbers(affine)
        for reader in readers:
            names = [f"{reader.name}.{part}" for part in ("weight", "bias")]
            weight, bias = (self.tensors[name].astype(np.float64) for name in names)
            if isinstance(reader, Dense):
                pixels = len(weight) // len(scale)
                bias = bias + np.repeat(shift, pixels) @ weight
                weight = weight * np.repeat(scale, pixels)[:, None]
            else:
                assert isinstance(reader, Conv2d)
                weight, shifted = _fold_into_filters(weight, scale, shift, reader.groups)
                if constant is None:
                    bias = bias + shifted.sum(axis=(1, 2, 3))
                else:
                    weight = np.concatenate([weight, shifted / constant], axis=1)
                    self.layers[reader.name] = dataclasses.replace(reader, in_channels=reader.in_channels + 1)
            self.tensors.update(zip(names, (tensor.astype(np.float32) for tensor in (weight, bias)), strict=True))
        self._drop(affine)

    def _add_constant(self, affine: Affine) -> float | None:
        """Add a constant channel to the convolution before an affine map and return its value.

        Returns None if there is no such convolution or it would need another tile.
        """
        chain: list[Layer] = []
        name = affine.inputs[0]
        while isinstance(layer := self.layers.get(name), Pool) and layer.method == "max" and self._is_read_once(name):
            chain.append(layer)
            name = layer.inputs[0]
        if not isinstance(layer, Conv2d) or not self._is_read_once(name) or layer.groups > 1 or layer.pool_size > 1:
            return None
        unit_matrix = np.ones((1, 1), np.float32)
        constant = float(activate(unit_matrix, layer.activation, layer.activation_parameters)[0, 0])
        if layer.out_channels % WHOLE_TILES == 0 or not math.isfinite(constant) or constant < LEAST_CONSTANT:
            return None
        weight, bias = (self.tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        self.tensors[f"{name}.weight"] = np.concatenate([weight, np.zeros((1, *weight.shape[1:]), weight.dtype)])
        self.tensors[f"{name}.bias"] = np.append(bias, np.float32(1)).astype(np.float32)
        self.layers[name] = dataclasses.replace(layer, out_channels=layer.out_channels + 1)
        for layer_name in (name, *(each.name for each in chain)):
            channels, *sides = self.shapes[layer_name]
            self.shapes[layer_name] = (channels + 1, *sides)
        return constant

    def _is_read_once(self, name: str) -> bool:
        return name not in self.outputs and len(self._readers(name)) == 1

    def _drop(self, affine: Affine) -> None:
        del self.layers[affine.name]
        renamed = {affine.name: affine.inputs[0]}
        self.layers = {name: reading(layer, renamed) for name, layer in self.layers.items()}


def _is_unpadded(layer: Layer) -> bool:
    """Return True for a dense layer, or a convolution without padding."""
    return isinstance(layer, Dense) or (isinstance(layer, Conv2d) and not any(layer.padding))


def _fold_into_filters(
    weight: np.ndarray, scale: np.ndarray, shift: np.ndarray, groups: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return filters multiplied by the scales of their inputs, and their sums weighted by the shifts (Cout, 1, k,
    k)."""
    group_of = np.arange(len(weight)) // (len(weight) // groups)  # the group of each output
    scales, shifts = (numbers.reshape(groups, -1)[group_of][:, :, None, None] for numbers in (scale, shift))
    return weight * scales, (weight * shifts).sum(axis=1, keepdims=True)
