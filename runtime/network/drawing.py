"""A network's layers drawn as a program: what each reads and gives, before the program is laid out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...kernels.convolution.forms import VECTOR_NS, matmuls_ns
from ...kernels.tiling.packing import PARTITIONS, ceil_div
from ...models.files import Model
from ...models.network import (
    INPUT,
    Activation,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    Pool,
    PRelu,
    Reshape,
    Shape,
    Softmax,
    Transpose,
)
from .channels import Channels, joined
from .filters import ungrouped
from .layout import heights_of, tile_heights
from .program import DoesNotFit, Planned

SCORES_BYTES = 136 * 1024  # of a partition for the weights of the last layer, which are there all at a time
MOST_SCORES = 2048  # float32 numbers of half of PSUM's banks, so that two blocks of images are under way
MOST_COLUMNS = 4096  # of float32 numbers for each element, 16 KiB of a partition
MOST_GATHERED = 2048  # channels that are laid out anew: filters of 8 MiB in 16 bits


def draw(model: Model, dtype: np.dtype[Any], image: Shape) -> list[Planned]:
    """The layers in order, to run in `dtype`; DoesNotFit where the kernel has no body for one.

    Flattening is in the window of the dense layer after it, a concatenation, slice or shuffle in what reads it, and a
    sum in the convolution that feeds it.
    """
    drawn = _Drawing(model, dtype, {INPUT: Channels.of(-1, image[0])}, {INPUT: image}, [])
    for layer in model.network.layers:
        drawn.add(layer)
    last = drawn.planned[-1] if drawn.planned else None
    if last is not None and drawn.is_last(model.network.layers[-1].name) and _gives_scores(last, dtype.itemsize):
        drawn.planned[-1] = replace(last, kind="scores")
    elif last is None or last.kind != "scores":
        drawn.add_identity("scores", model.network.layers[-1].name, "")
    return drawn.planned


@dataclass
class _Drawing:
    """The layers so far: which channels of them a name stands for, and its shape as an image."""

    model: Model
    dtype: np.dtype[Any]
    places: dict[str, Channels]
    shapes: dict[str, Shape]
    planned: list[Planned]

    def add(self, layer: Layer) -> None:
        """The next layer of the network; DoesNotFit where the kernel has no body for it."""
        if type(layer) not in _BODIES:
            raise DoesNotFit(f"there is no body for layer {layer.name!r} ({layer.kind})")
        _BODIES[type(layer)](self, layer)

    def add_identity(self, name: str, source: str, softmax: str) -> None:
        """The last layer where none is dense: what comes in, with images on the partitions."""
        channels, *window = self.shapes[source]
        count = math.prod(self.shapes[source])
        if count > MOST_SCORES:
            raise DoesNotFit(f"layer {name!r} gives {count} numbers, more than the {MOST_SCORES} of a last layer")
        filters = np.eye(count, dtype=np.float32).reshape(count, channels, *window)
        self._append(
            "scores",
            name,
            (source,),
            (count, 1, 1),
            filters=self.places[source].filters(filters),
            numbers=(np.zeros(count, np.float32),),
            kernel=tuple(window),
            softmax=softmax,
        )

    def is_last(self, name: str) -> bool:
        """Whether a name stands for just what the last layer gives."""
        place = self.places.get(name)
        return place is not None and place.parts == (len(self.planned) - 1,) and place.are_plain

    def _append(self, kind: str, name: str, reads: tuple[str, ...], after: Shape, **fields: Any) -> None:
        """A layer that gives `after`, a channel for each that it names."""
        first = self.places[reads[0]]
        before = self.shapes[reads[0]]
        fields = {"shown": kind, "before": (first.total, *before[1:]), "after": after, **fields}
        sources = tuple(self.places[read].parts for read in reads)
        self.places[name], self.shapes[name] = Channels.of(len(self.planned), after[0]), after
        self.planned.append(Planned(kind, name, sources, after[0], told=(before, after), **fields))

    def _append_by_channel(
        self, kind: str, name: str, reads: tuple[str, ...], after: Shape, each: int = 1, **fields: Any
    ) -> None:
        """A layer that gives `each` channels for every one that its parts have, as they lie there."""
        source = self.places[reads[0]]
        self._append(kind, name, reads, (source.total * each, *after[1:]), **fields)
        self.planned[-1] = replace(self.planned[-1], told=(self.planned[-1].told[0], after))
        self.places[name], self.shapes[name] = source.given_by(len(self.planned) - 1, each), after

    def _slice(self, layer: ChannelSlice) -> None:
        source = layer.inputs[0]
        window = self.shapes[source][1:]
        each = math.prod(window) if len(self.model.network.shapes()[source]) == 1 else 1  # of a flattened image
        if layer.first % each or layer.last % each:
            raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) cuts an image's rows")
        first, last = layer.first // each, layer.last // each
        self.places[layer.name] = self.places[source].picked(np.arange(first, last))
        self.shapes[layer.name] = (last - first, *window)

    def _view(self, layer: Layer) -> None:
        """The layer gives what it reads."""
        source = layer.inputs[0]
        self.places[layer.name], self.shapes[layer.name] = self.places[source], self.shapes[source]

    def _reshape(self, layer: Reshape) -> None:
        """Features lie as an image of one pixel already, so that a gate made of them is no other layer."""
        if len(layer.shape) == 3 and layer.shape != self.shapes[layer.inputs[0]]:
            raise DoesNotFit(f"there is no body for layer {layer.name!r} ({layer.kind})")
        self._view(layer)

    def _transpose(self, layer: Transpose) -> None:
        """The host turns the axes of an input that nothing else reads."""
        if layer.inputs != (INPUT,) or self.model.network.readers()[INPUT] > 1:
            raise DoesNotFit(f"there is no body for layer {layer.name!r} ({layer.kind})")
        self._view(layer)

    def _concat(self, layer: Concat) -> None:
        shapes = [self.shapes[read] for read in layer.inputs]
        if len({shape[1:] for shape in shapes}) > 1:
            raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) joins what has no place side by side")
        self.places[layer.name] = joined([self.places[read] for read in layer.inputs])
        self.shapes[layer.name] = (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def _shuffle(self, layer: ChannelShuffle) -> None:
        self._view(layer)
        order = np.arange(self.shapes[layer.name][0]).reshape(layer.groups, -1).T.ravel()
        self.places[layer.name] = self.places[layer.name].picked(order)

    def _prelu(self, layer: PRelu) -> None:
        slope = self._numbers(layer, "slope", 1.0)
        after = self.shapes[layer.inputs[0]]
        self._append_by_channel("prelu", layer.name, layer.inputs, after, numbers=(slope,), operation=_by(slope))

    def _convolution(self, layer: Conv2d) -> None:
        read, groups = layer.inputs[0], layer.groups
        after = layer.output_shape(self.shapes[read])
        is_depthwise = groups == layer.in_channels
        if self._is_gathered(layer, math.prod(after[1:]) * layer.pool_size**2, is_depthwise):
            self._gather(read)
        source, each = self.places[read], layer.out_channels // groups
        filters = self.model.tensors[f"{layer.name}.weight"]
        bias = self.model.tensors[f"{layer.name}.bias"].astype(np.float32)
        fields: dict[str, Any] = {
            "kernel": layer.kernel_size,
            "stride": layer.stride,
            "dilation": layer.dilation,
            "padding": layer.padding,
            "pool_size": layer.pool_size,
            "activation": layer.activation,
            "parameters": layer.activation_parameters,
            "groups": groups,
        }
        if is_depthwise and groups > 1 and source.are_all:
            lying = source.given_by(0, each)
            fields.update(filters=lying.spread(filters, 0.0), numbers=(lying.spread(bias, 0.0),))
            self._append_by_channel("conv2d", layer.name, layer.inputs, after, each, **fields)
            return
        if not source.are_plain:
            filters, fields["groups"] = source.filters(ungrouped(filters, groups)), 1
        self._append("conv2d", layer.name, layer.inputs, after, filters=filters, numbers=(bias,), **fields)

    def _is_gathered(self, layer: Conv2d, pixels: int, is_depthwise: bool) -> bool:
        """Whether a convolution that computes so many `pixels` is quicker, or can only be told, once what it reads is
        laid out anew: tiles of few channels each take matmuls of their own."""
        source, shape = self.places[layer.inputs[0]], self.shapes[layer.inputs[0]]
        read, fewest = len(self._heights(source)), ceil_div(shape[0], PARTITIONS)
        taps = math.prod(layer.kernel_size)
        lies_right = source.are_plain or (is_depthwise and source.are_all)
        if layer.groups > 1 and not lies_right and taps > 1 and source.total > PARTITIONS:
            return True  # filters of all groups at a time would be large
        if read == fewest:
            return False
        tiles = 1 if is_depthwise else ceil_div(layer.out_channels, PARTITIONS)
        column = matmuls_ns(self.dtype.itemsize, 1, 0)
        gathering = math.prod(shape[1:]) * fewest * (read * column + VECTOR_NS)
        return gathering < pixels * (read - fewest) * taps * tiles * column

    def _gather(self, name: str) -> None:
        """Let channels lie as they are named, by a 1x1 convolution by ones, whose sums have one number each."""
        shape = self.shapes[name]
        count = shape[0]
        if count > MOST_GATHERED:
            raise DoesNotFit(f"{count} channels of layer {name!r} are too many to be laid out anew")
        kinds = {layer.name: layer.kind for layer in self.model.network.layers}
        has_row = any(layer.name == name for layer in self.planned)
        label, shown = (f"{name}.gather", "gather") if has_row else (name, kinds[name])
        ones = self.places[name].filters(np.eye(count, dtype=np.float32).reshape(count, count, 1, 1))
        self._append("conv2d", label, (name,), shape, shown=shown, filters=ones, numbers=(np.zeros(count, np.float32),))
        self.places[name] = self.places[label]

    def _heights(self, place: Channels) -> list[int]:
        """Channels of each tile."""
        return heights_of(self.planned, place.parts, self.shapes[INPUT][0], 1)

    def _is_gathered_already(self, name: str) -> bool:
        """Whether channels lie as a convolution gives them."""
        place = self.places[name]
        return place.are_plain and self._heights(place) == tile_heights(place.total)

    def _dense(self, layer: Dense) -> None:
        channels, *window = self.shapes[layer.inputs[0]]
        weight = self.model.tensors[f"{layer.name}.weight"]
        self._append(
            "conv2d",
            layer.name,
            layer.inputs,
            (layer.out_features, 1, 1),
            shown="dense",
            filters=self.places[layer.inputs[0]].filters(weight.T.reshape(layer.out_features, channels, *window)),
            numbers=(self.model.tensors[f"{layer.name}.bias"].astype(np.float32),),
            kernel=tuple(window),
            activation=layer.activation,
            parameters=layer.activation_parameters,
        )

    def _pooling(self, layer: Pool) -> None:
        self._append_by_channel(
            f"{layer.method}_pool",
            layer.name,
            layer.inputs,
            layer.output_shape(self.shapes[layer.inputs[0]]),
            kernel=layer.window,
            stride=layer.stride,
            dilation=layer.dilation,
            padding=layer.padding,
            count_include_pad=layer.count_include_pad,
            ceil_mode=layer.ceil_mode,
        )

    def _combine(self, layer: Combine) -> None:
        """A sum goes into the convolution that feeds it and nothing else: it then runs when both operands are there."""
        function: dict[str, Any] = {"activation": layer.activation, "parameters": layer.activation_parameters}
        for name, other in (layer.inputs, layer.inputs[::-1]):
            if layer.operation == "add" and self._feeds_alone(name, other):
                if not self._is_gathered_already(other):
                    self._gather(other)
                self._move_to_end(self.places[name].parts[0])
                sources = (*self.planned[-1].sources, self.places[other].parts)
                self.planned[-1] = replace(self.planned[-1], sources=sources, **function)
                self.places[layer.name], self.shapes[layer.name] = self.places[name], self.shapes[name]
                return
        first, second = (self.places[name] for name in layer.inputs)
        alike = self._heights(first) == self._heights(second) and np.array_equal(first.order, second.order)
        if not alike or not first.are_all:  # what is not read might not be finite then
            for name in layer.inputs:
                if not self._is_gathered_already(name):
                    self._gather(name)
        after = self.shapes[layer.inputs[0]]
        self._append_by_channel("combine", layer.name, layer.inputs, after, operation=layer.operation, **function)

    def _feeds_alone(self, name: str, other: str) -> bool:
        """Whether a layer is a convolution that can take its sum with another, and nothing else reads it."""
        place = self.places[name]
        fed = self.planned[place.parts[0]] if place.parts[0] >= 0 else None
        if fed is None or (fed.kind, fed.name) != ("conv2d", name) or self.model.network.readers()[name] > 1:
            return False
        plain = (fed.pool_size, fed.activation, len(fed.sources)) == (1, "identity", 1) and place.are_plain
        return plain and name != other and self.shapes[name] == self.shapes[other]

    def _move_to_end(self, place: int) -> None:
        """Let a layer that nothing reads yet be the last one: all numbers after it become one less."""
        number = {-1: -1, **{n: n - (n > place) for n in range(len(self.planned))}, place: len(self.planned) - 1}
        order = [*self.planned[:place], *self.planned[place + 1 :], self.planned[place]]
        self.planned[:] = [
            replace(layer, sources=tuple(tuple(number[part] for part in parts) for parts in layer.sources))
            for layer in order
        ]
        self.places.update({name: channels.renumbered(number) for name, channels in self.places.items()})

    def _affine(self, layer: Affine | Activation) -> None:
        source = layer.inputs[0]
        if isinstance(layer, Affine):  # of channels that nothing reads any activation makes 1 finite
            scale, shift = self._numbers(layer, "scale", 0.0), self._numbers(layer, "shift", 1.0)
        else:
            ones = np.ones(self.shapes[source][0], np.float32)
            scale, shift = self.places[source].spread(ones, 0.0), self.places[source].spread(0 * ones, 1.0)
        self._append_by_channel(
            "affine",
            layer.name,
            layer.inputs,
            self.shapes[source],
            shown=layer.kind,
            numbers=(scale, shift),
            operation=_by(scale),
            activation=layer.activation,
            parameters=layer.activation_parameters,
        )

    def _norm(self, layer: LayerNorm | GroupNorm) -> None:
        source = layer.inputs[0]
        if self.shapes[source][0] != layer.channels:
            raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) normalises the numbers of a flattened image")
        by_place = isinstance(layer, GroupNorm) and not self.places[source].are_plain
        if by_place or not self.places[source].are_all:
            self._gather(source)
        self._append_by_channel(
            layer.kind,
            layer.name,
            layer.inputs,
            self.shapes[source],
            numbers=(self._numbers(layer, "scale", 0.0), self._numbers(layer, "shift", 0.0)),
            groups=layer.groups if isinstance(layer, GroupNorm) else 1,
            parameters=(layer.epsilon,),
        )

    def _numbers(self, layer: Layer, name: str, fill: float) -> np.ndarray:
        """A tensor of a layer as the channels lie that it reads: [channels], or [channels, rows, columns] where each
        element has a number."""
        source = layer.inputs[0]
        channels, *window = self.shapes[source]
        numbers = self.model.tensors[f"{layer.name}.{name}"].astype(np.float32)
        if numbers.size > channels:
            numbers = numbers.reshape(channels, *window)
            columns = math.prod(window) * len(self._heights(self.places[source]))
            if columns > MOST_COLUMNS:
                raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) has {numbers.size} numbers, too many for SBUF")
        else:
            numbers = numbers.reshape(channels)
        return self.places[source].spread(numbers, fill)

    def _softmax(self, layer: Softmax) -> None:
        kind = "log_softmax" if layer.log else "softmax"
        last = self.planned[-1] if self.planned and self.is_last(layer.inputs[0]) else None
        if last is not None and _gives_scores(last, self.dtype.itemsize) and last.activation == "identity":
            self.planned[-1] = replace(last, kind="scores", softmax=kind)
        else:
            self.add_identity(layer.name, layer.inputs[0], kind)


_BODIES: dict[type[Layer], Callable[[_Drawing, Any], None]] = {
    Flatten: _Drawing._view,
    Reshape: _Drawing._reshape,
    Transpose: _Drawing._transpose,
    Conv2d: _Drawing._convolution,
    Dense: _Drawing._dense,
    Pool: _Drawing._pooling,
    Softmax: _Drawing._softmax,
    Concat: _Drawing._concat,
    ChannelSlice: _Drawing._slice,
    ChannelShuffle: _Drawing._shuffle,
    Combine: _Drawing._combine,
    Affine: _Drawing._affine,
    Activation: _Drawing._affine,
    LayerNorm: _Drawing._norm,
    GroupNorm: _Drawing._norm,
    PRelu: _Drawing._prelu,
}


def _gives_scores(layer: Planned, itemsize: int) -> bool:
    """Whether the last layer's body can compute it: what it gives is one number a channel. Larger layers run as others
    do, and the last one only brings their numbers to where the answers are found."""
    return (
        layer.kind == "conv2d"
        and layer.after[1:] == (1, 1)
        and layer.channels <= MOST_SCORES
        and layer.filters is not None
        and layer.filters.size * itemsize <= PARTITIONS * SCORES_BYTES
        and (layer.pool_size, layer.groups, len(layer.sources)) == (1, 1, 1)
        and not any(layer.padding)
    )


def _by(numbers: np.ndarray) -> str:
    """What a layer's numbers go by, as the kernel has it."""
    return "elements" if numbers.ndim > 1 else ""
