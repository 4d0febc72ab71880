"""Compute concatenated values part by part, which is useful for MixNet, whose layers concatenate the results of filters
of several sizes.

A concatenated value (a stack) is stored in tiles, and each of its parts begins a new tile. A layer that needs other
tiles, such as an elementwise product or a depthwise convolution, first has to rearrange the channels. Therefore, affine
maps and activations of a stack of convolutions are moved into the convolutions, gates multiply each part, and slices
that select a part read it directly. 1x1 convolutions whose only consumer is a stack with few channels are merged into
one convolution.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ..checks import Shape
from ..layers import Activation, Affine, ChannelShuffle, ChannelSlice, Combine, Concat, Conv2d, Layer
from . import fold
from .layer_table import free_name, needed, reading

PICKING = (ChannelShuffle, ChannelSlice)  # layers that read the channels of each part of a stack separately
MOST_CHANNELS = 128  # maximum number of channels of a stack that one convolution computes


def compute_parts(
    layers: Mapping[str, Layer], tensors: Mapping[str, np.ndarray], shapes: Mapping[str, Shape], outputs: Sequence[str]
) -> tuple[dict[str, Layer], dict[str, np.ndarray]]:
    """Return layers and tensors that compute the parts of stacked values; the names of `outputs` are kept."""
    stacks = _Stacks(layers, tensors, shapes, outputs)
    for change in (stacks.move_into_parts, stacks.multiply_parts, stacks.read_parts, stacks.merge_parts):
        for name in tuple(stacks.layers):
            change(name)
        stacks.drop_unread()
    return stacks.layers, stacks.tensors


class _Stacks:
    """The layers in order, keyed by name, with their tensors and shapes."""

    def __init__(
        self,
        layers: Mapping[str, Layer],
        tensors: Mapping[str, np.ndarray],
        shapes: Mapping[str, Shape],
        outputs: Sequence[str],
    ) -> None:
        self.layers, self.tensors, self._shapes = dict(layers), dict(tensors), dict(shapes)
        self._outputs = set(outputs)
        self._renamed: dict[str, str] = {}  # the parts that are read in place of slices

    def move_into_parts(self, name: str) -> None:
        """Move a per-channel affine map, or an activation, into the convolutions whose stacked outputs it reads."""
        layer = self.layers[name]
        if not isinstance(layer, (Affine, Activation)):
            return
        stack = self.layers.get(layer.inputs[0])
        if not isinstance(stack, Concat) or not self._is_read_once(stack.name):
            return
        parts = self._parts(stack)
        is_by_channel = isinstance(layer, Activation) or len(layer.shape) == 1
        if parts is None or not is_by_channel or any(part.activation != "identity" for part in parts):
            return
        first = 0
        for part in parts:
            last = first + part.out_channels
            if isinstance(layer, Affine):
                self._scale(part.name, layer, slice(first, last))
            activation = {field: getattr(layer, field) for field in ("activation", "activation_parameters")}
            self.layers[part.name] = dataclasses.replace(part, **activation)
            first = last
        self.layers[name] = dataclasses.replace(stack, name=name)

    def multiply_parts(self, name: str) -> None:
        """Multiply each part of a stack by its own gate, instead of multiplying all channels by a single gate. Gates
        are computed by convolutions of 1x1 images."""
        product = self.layers[name]
        if not isinstance(product, Combine) or product.operation != "multiply" or product.activation != "identity":
            return
        for read, gated in (product.inputs, product.inputs[::-1]):
            stack, gate = self.layers.get(read), self.layers.get(gated)
            if not isinstance(stack, Concat) or not isinstance(gate, Conv2d) or not self._is_read_once(gated):
                continue
            is_gate = self._shapes[gated][1:] == (1, 1) != self._shapes[read][1:] and gate.groups == gate.pool_size == 1
            if is_gate and len(set(stack.inputs)) == len(stack.inputs) > 1:
                self._multiply(product, stack, gate)
                return

    def _multiply(self, product: Combine, stack: Concat, gate: Conv2d) -> None:
        products: list[Layer] = []
        first = 0
        for part in stack.inputs:
            last = first + self._shapes[part][0]
            names = [free_name(f"{read}.{part}", self.layers) for read in (gate.name, product.name)]
            for kind in ("weight", "bias"):
                self.tensors[f"{names[0]}.{kind}"] = self.tensors[f"{gate.name}.{kind}"][first:last].copy()
            products.append(dataclasses.replace(gate, name=names[0], out_channels=last - first))
            products.append(dataclasses.replace(product, name=names[1], inputs=(part, names[0])))
            self._shapes |= {names[0]: (last - first, 1, 1), names[1]: self._shapes[part]}
            first = last
        products.append(Concat(product.name, inputs=tuple(layer.name for layer in products[1::2])))
        self._replace(product.name, products)

    def read_parts(self, name: str) -> None:
        """Replace a slice of a stack by the part that it selects."""
        layer = self.layers[name] = reading(self.layers[name], self._renamed)
        if not isinstance(layer, ChannelSlice) or name in self._outputs:
            return
        stack = self.layers.get(layer.inputs[0])
        first = 0
        for part in stack.inputs if isinstance(stack, Concat) else ():
            last = first + self._shapes[part][0]
            if (first, last) == (layer.first, layer.last):
                self._renamed[name] = part
                return
            first = last

    def merge_parts(self, name: str) -> None:
        """Merge the stacked 1x1 convolutions into one convolution, with zeros between the parts."""
        stack = self.layers[name]
        if not isinstance(stack, Concat) or self._shapes[name][0] > MOST_CHANNELS:
            return
        if any(isinstance(reader, PICKING) for reader in self.layers.values() if name in reader.inputs):
            return
        parts = self._parts(stack)
        if parts is None or len(parts) < 2 or not all(map(_is_pixelwise, parts)):
            return
        if len({(part.stride, part.activation, part.activation_parameters) for part in parts}) > 1:
            return
        sources = [part.inputs[0] for part in parts]
        if len(set(sources)) < len(sources):
            return
        source, new_layers = self._whole(sources), list[Layer]()
        if source is None:
            source = free_name(f"{name}.read", self.layers)
            new_layers.append(Concat(source, inputs=tuple(sources)))
            self._shapes[source] = (sum(part.in_channels for part in parts), *self._shapes[sources[0]][1:])
        weights, biases = ([self.tensors[f"{part.name}.{kind}"] for part in parts] for kind in ("weight", "bias"))
        inputs, outputs = (sum(getattr(part, f"{side}_channels") for part in parts) for side in ("in", "out"))
        filters = np.zeros((outputs, inputs, 1, 1), np.float32)
        row = column = 0
        for weight in weights:
            filters[row : row + len(weight), column : column + weight.shape[1]] = weight
            row, column = row + weight.shape[0], column + weight.shape[1]
        self.tensors |= {f"{name}.weight": filters, f"{name}.bias": np.concatenate(biases)}
        new_layers.append(
            dataclasses.replace(parts[0], name=name, in_channels=inputs, out_channels=outputs, inputs=(source,))
        )
        self._replace(name, new_layers)

    def _whole(self, sources: Sequence[str]) -> str | None:
        """Return the layer whose channels are the concatenated channels of all sources; None if there is none."""
        slices = [self.layers.get(source) for source in sources]
        wholes = {layer.inputs[0] for layer in slices if isinstance(layer, ChannelSlice)}
        borders = [
            border for layer in slices if isinstance(layer, ChannelSlice) for border in (layer.first, layer.last)
        ]
        is_whole = len(wholes) == 1 and len(borders) == 2 * len(sources) and borders[1:-1:2] == borders[2::2]
        if is_whole and (borders[0], borders[-1]) == (0, self._shapes[next(iter(wholes))][0]):
            return wholes.pop()
        stacks = (
            layer.name for layer in self.layers.values() if isinstance(layer, Concat) and layer.inputs == tuple(sources)
        )
        return next(stacks, None)

    def _parts(self, stack: Concat) -> list[Conv2d] | None:
        """Return the parts of a stack if all of them are convolutions and no other layer reads them."""
        layers = [self.layers.get(part) for part in stack.inputs]
        parts = [part for part in layers if isinstance(part, Conv2d) and part.pool_size == 1]
        is_alone = len(parts) == len(layers) and all(self._is_read_once(part.name) for part in parts)
        return parts if is_alone else None

    def _scale(self, name: str, affine: Affine, own: slice) -> None:
        """Fold some channels of an affine map into a convolution."""
        scale, shift = (self.tensors[f"{affine.name}.{part}"][own].astype(np.float64) for part in ("scale", "shift"))
        weight, bias = f"{name}.weight", f"{name}.bias"
        folded = fold.after_conv2d(self.tensors[weight], self.tensors[bias], fold.ScaleShift(scale, shift))
        self.tensors |= {weight: folded[0], bias: folded[1]}

    def _replace(self, name: str, made: Sequence[Layer]) -> None:
        """Replace the layer `name` with several layers, the last of which has the same name."""
        self.layers = {
            new_layer.name: new_layer
            for other, layer in self.layers.items()
            for new_layer in (made if other == name else [layer])
        }

    def drop_unread(self) -> None:
        """Drop layers that no output needs."""
        self.layers = needed(self.layers, self._outputs)

    def _is_read_once(self, name: str) -> bool:
        reads = sum(layer.inputs.count(name) for layer in self.layers.values())
        return reads == 1 and name not in self._outputs


def _is_pixelwise(layer: Conv2d) -> bool:
    return layer.kernel_size == (1, 1) and layer.groups == 1 and not any(layer.padding)
