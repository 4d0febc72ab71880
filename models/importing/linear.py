"""Merge layers whose composition is linear, such as the decoding of boxes, into one convolution and one affine layer.

Slices, sums, differences, concatenations and affine layers of one value u compute M u + b, with a matrix M over the
channels and a shift b for each element. If the last layer is affine, two layers remain: a convolution with a 1x1
filter, which is merged into a convolution that computes u, and the affine layer.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from ..checks import Shape
from ..layers import Affine, ChannelSlice, Combine, Concat, Conv2d, Layer

FEWEST, MOST = 4, 64  # minimum and maximum number of layers to merge
MOST_CHANNELS = 128  # maximum number of channels of u and of the result
MOST_NUMBERS = 1 << 18  # maximum number of elements of a value
SIGNS = {"add": 1.0, "subtract": -1.0}


class _Linear(NamedTuple):
    """M u + b: M [channels, channels of u], and b [channels, pixels], or [channels, 1] if it is the same for all."""

    matrix: np.ndarray
    shift: np.ndarray


class LinearLayers:
    """The layers of a network in order, keyed by name, with their tensors and shapes, which may be changed."""

    def __init__(
        self, layers: Mapping[str, Layer], tensors: MutableMapping[str, np.ndarray], shapes: MutableMapping[str, Shape]
    ) -> None:
        self._layers, self._tensors, self._shapes = layers, tensors, shapes
        self._order = {name: number for number, name in enumerate(layers)}
        self._bases: dict[str, str] = {}  # the layer that computes u, for each layer visited so far

    def merged(self, layer: Layer, reads: Mapping[str, int], outputs: Set[str]) -> list[Layer]:
        """Return the layers that replace a layer and the layers before it, in order.

        This is the layer itself if there is too little to merge or if other layers read intermediate values. The method
        must be called for all layers in order.
        """
        merged = self._merged(layer, reads, outputs) if isinstance(layer, Affine) else None
        for merged_layer in merged or [layer]:
            bases = (
                {self._bases.get(read, read) for read in merged_layer.inputs} if self._is_linear(merged_layer) else ()
            )
            self._bases[merged_layer.name] = bases.pop() if len(bases) == 1 else merged_layer.name
        return merged or [layer]

    def _merged(self, last: Affine, reads: Mapping[str, int], outputs: Set[str]) -> list[Layer] | None:
        """Return the layers that replace the affine layer `last` and the layers that it reads, if possible."""
        shape, source = self._shapes[last.name], last.inputs[0]
        if len(last.shape) < 3 or shape[0] > MOST_CHANNELS or math.prod(shape) > MOST_NUMBERS:
            return None
        base = self._bases.get(source, source)
        cone = self._cone(last.name, base)
        counts = Counter(read for name in cone for read in self._layers[name].inputs)
        is_short = FEWEST <= len(cone) <= MOST
        if not is_short or any(reads[name] > counts[name] or name in outputs for name in cone if name != last.name):
            return None
        value = self._value_of(source, base, sorted(cone, key=self._order.__getitem__))
        scale, shift = self._numbers(last)
        matrix, shift = value.matrix, value.shift * scale + shift
        if bool((scale == scale[:, :1]).all()):
            matrix, scale = matrix * scale[:, :1], np.ones_like(scale)
        if not all(np.isfinite(numbers.astype(np.float32)).all() for numbers in (matrix, scale, shift)):
            return None
        for part, numbers in (("scale", scale), ("shift", shift)):
            full = np.broadcast_to(numbers, (shape[0], shape[1] * shape[2]))
            self._tensors[f"{last.name}.{part}"] = full.reshape(shape).astype(np.float32)
        is_free = reads[base] == counts[base] and base not in outputs
        convolution = self._convolution(matrix, base, source, is_free)
        self._shapes[source] = shape
        return [convolution, dataclasses.replace(last, inputs=(source,))]

    def _convolution(self, matrix: np.ndarray, base: str, name: str, is_free: bool) -> Conv2d:
        """Return a convolution `name` that computes M u. If u is computed by a convolution that no other layer reads,
        the two are merged."""
        outputs, inputs = matrix.shape
        convolution = Conv2d(name, inputs, outputs, (1, 1), inputs=(base,))
        weight, bias = matrix[:, :, None, None], np.zeros(outputs)
        before = self._layers.get(base)
        if is_free and isinstance(before, Conv2d) and _is_mergeable(before):
            convolution = dataclasses.replace(before, name=name, out_channels=outputs, groups=1)
            own = self._tensors[f"{base}.weight"].astype(np.float64)
            dense = np.zeros((inputs, before.groups, *own.shape[1:]))
            dense[np.arange(inputs), np.arange(inputs) // (inputs // before.groups)] = own
            weight = np.tensordot(matrix, dense.reshape(inputs, before.in_channels, *own.shape[2:]), 1)
            bias = matrix @ self._tensors[f"{base}.bias"].astype(np.float64)
        self._tensors[f"{name}.weight"] = weight.astype(np.float32)
        self._tensors[f"{name}.bias"] = bias.astype(np.float32)
        return convolution

    def _is_linear(self, layer: Layer) -> bool:
        """True if a layer operates on images with few channels and is linear, with the same coefficients for all
        pixels."""
        shapes = [self._shapes[name] for name in (layer.name, *layer.inputs)]
        if not all(len(shape) == 3 and shape[0] <= MOST_CHANNELS and shape[1:] == shapes[0][1:] for shape in shapes):
            return False
        if max(map(math.prod, shapes)) > MOST_NUMBERS:
            return False
        if isinstance(layer, Affine):
            scale = self._numbers(layer)[0]
            return layer.activation == "identity" and bool((scale == scale[:, :1]).all())
        if isinstance(layer, Combine):
            return layer.activation == "identity" and layer.operation in SIGNS and shapes[1] == shapes[2]
        return isinstance(layer, (ChannelSlice, Concat))

    def _cone(self, name: str, base: str) -> list[str]:
        """Return the names of the layers after `base` up to `name`, or only some of them if there are too many."""
        members, left = dict[str, None](), [name]
        while left and len(members) <= MOST:
            member = left.pop()
            if member != base and member not in members:
                members[member] = None
                left += self._layers[member].inputs
        return list(members)

    def _numbers(self, layer: Affine) -> tuple[np.ndarray, np.ndarray]:
        """Return scale and shift, [channels, 1] or [channels, pixels]."""
        scale, shift = (self._tensors[f"{layer.name}.{part}"].astype(np.float64) for part in ("scale", "shift"))
        return scale.reshape(len(scale), -1), shift.reshape(len(shift), -1)

    def _value_of(self, source: str, base: str, cone: Sequence[str]) -> _Linear:
        """Return the value of a layer as M u + b; `cone` contains the layers after u, in order."""
        channels = self._shapes[base][0]
        values = {base: _Linear(np.eye(channels), np.zeros((channels, 1)))}
        with np.errstate(over="ignore", invalid="ignore"):
            for name in cone[:-1]:
                values[name] = self._applied(self._layers[name], [values[read] for read in self._layers[name].inputs])
        return values[source]

    def _applied(self, layer: Layer, operands: Sequence[_Linear]) -> _Linear:
        """Apply a layer to its operands."""
        first = operands[0]
        if isinstance(layer, Affine):
            scale, shift = self._numbers(layer)
            return _Linear(first.matrix * scale[:, :1], first.shift * scale[:, :1] + shift)
        if isinstance(layer, ChannelSlice):
            return _Linear(*(part[layer.first : layer.last] for part in first))
        if isinstance(layer, Combine):
            sign = SIGNS[layer.operation]
            return _Linear(first.matrix + sign * operands[1].matrix, first.shift + sign * operands[1].shift)
        widest = max(part.shift.shape[1] for part in operands)
        shifts = [np.broadcast_to(part.shift, (len(part.shift), widest)) for part in operands]
        return _Linear(np.concatenate([part.matrix for part in operands]), np.concatenate(shifts))


def _is_mergeable(convolution: Conv2d) -> bool:
    """Return True if a convolution may compute other channels. This excludes large groups, whose filters would grow."""
    is_small = convolution.groups == 1 or convolution.kernel_size == (1, 1)
    return is_small and convolution.activation == "identity" and convolution.pool_size == 1
