"""Subtract the mean over the channels from everything that is added to a residual stream.

In a transformer, only layer norms read the residual stream, and a layer norm does not depend on the mean over the
channels. The layers that write to such a stream are changed so that their outputs have a mean of zero: weights, biases
and constant shifts are centred over the output channels. The layer norms then need not subtract the mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np

from ..checks import INPUT, Shape
from ..layers import Affine, Combine, Conv2d, Layer, LayerNorm, Pad, Reshape


def centre_streams(
    layers: Mapping[str, Layer], tensors: Mapping[str, np.ndarray], shapes: Mapping[str, Shape],
    outputs: Collection[str],
) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:  # fmt: skip
    """Return layers and tensors with centred streams, whose layer norms have `is_centred` set."""
    streams = _Streams(layers, tensors, shapes, outputs)
    centred, new_tensors = dict(layers), dict(tensors)
    visited: set[str] = set()
    for layer in layers.values():
        if isinstance(layer, LayerNorm) and layer.inputs[0] not in visited:
            stream = streams.around(layer.inputs[0])
            visited |= stream
            for name in stream:
                new_tensors.update(_centred_tensors(layers[name], tensors))
                norms = [reader for reader in streams.readers[name] if isinstance(reader, LayerNorm)]
                centred.update({norm.name: dataclasses.replace(norm, is_centred=True) for norm in norms})
    return centred, new_tensors


class _Streams:
    """The values that are connected by sums and by layers that do not mix channels."""

    def __init__(
        self,
        layers: Mapping[str, Layer],
        tensors: Mapping[str, np.ndarray],
        shapes: Mapping[str, Shape],
        outputs: Collection[str],
    ) -> None:
        self._layers, self._tensors, self._shapes, self._outputs = layers, tensors, shapes, set(outputs)
        self.readers: dict[str, list[Layer]] = {name: [] for name in (INPUT, *layers)}
        for layer in layers.values():
            for name in set(layer.inputs):
                self.readers[name].append(layer)

    def around(self, start: str) -> set[str]:
        """Return the values connected to `start`, or an empty result if one of them cannot be centred."""
        stream: set[str] = set()
        waiting = [start]
        while waiting:
            name = waiting.pop()
            if name in stream:
                continue
            neighbours = self._neighbours(name)
            if neighbours is None:
                return set()
            stream.add(name)
            waiting += neighbours
        return stream

    def _neighbours(self, name: str) -> list[str] | None:
        """Return the values that must be centred together with a value, or None if it cannot be centred."""
        if name == INPUT or name in self._outputs or not self._can_be_centred(self._layers[name]):
            return None
        readers = [reader for reader in self.readers[name] if not isinstance(reader, LayerNorm)]
        if any(isinstance(reader, Conv2d) for reader in readers):
            return None
        inputs = () if isinstance(self._layers[name], Conv2d) else self._layers[name].inputs
        return [*inputs, *(reader.name for reader in readers)]

    def _can_be_centred(self, layer: Layer) -> bool:
        """Return True if the output of a layer is centred as soon as its inputs or its tensors are centred."""
        channels = {self._shapes[name][0] for name in (*layer.inputs, layer.name)}
        match layer:
            case Conv2d():
                return layer.activation == "identity" and layer.groups == 1 and layer.pool_size == 1
            case Combine(operation="add", activation="identity"):
                return len(channels) == 1
            case Affine(activation="identity"):
                scale = self._tensors[f"{layer.name}.scale"]
                return bool((scale == scale[:1]).all())
            case Pad():
                return layer.mode != "constant" or layer.value == 0
            case Reshape():
                return len(channels) == 1 and len(layer.shape) == 3
        return False


def _centred_tensors(layer: Layer, tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors of a layer that writes to a stream, with a mean of zero over the output channels."""
    parts = {Conv2d: ("weight", "bias"), Affine: ("shift",)}.get(type(layer), ())
    return {name: _centred(tensors[name]) for name in (f"{layer.name}.{part}" for part in parts)}


def _centred(numbers: np.ndarray) -> np.ndarray:
    wide = numbers.astype(np.float64)
    return (wide - wide.mean(axis=0, keepdims=True)).astype(np.float32)
