"""Layers at a small and an odd size, each of which runs as a program in one launch. `checks` creates the operands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...lowering.decisions import Choice, Decisions, Kind
from ...lowering.layer_graph import lower_layer
from ...lowering.pipeline import LaunchPlan, Pipeline
from ...models import layers
from ...models.checks import INPUT, Shape
from ...models.files import Model
from ...models.inputs import FeatureInput, ImageInput
from ...models.network import Network
from ...models.outputs import Output
from ...simulator.machine.chip import find_target
from ..backend import DEFAULT_TARGET

_NUMBERS = {"hardsigmoid": (0.2, 0.5), "leaky_relu": (0.01,), "elu": (1.0,), "selu": (1.67326, 1.0507)}
_NUMBERS |= {"clip": (-0.5, 0.5), "power": (1.5,), "step": (0.25,), "threshold": (0.25,)}
_OF_POSITIVE = ("sqrt", "log", "reciprocal", "power")


@dataclass(frozen=True)
class LayerCase:
    """A layer, and the shapes [B, ...] of the data to which it is applied. If `positive` is True, all data are greater
    than 0."""

    layer: layers.Layer
    shapes: tuple[Shape, ...]
    variant: str = ""
    positive: bool = False

    @property
    def name(self) -> str:
        """The kind of the layer, and the properties that distinguish it from other layers of its kind."""
        return " ".join(filter(None, (self.layer.kind, self.variant)))

    def plan(self, tensors: Mapping[str, np.ndarray], dtype: np.dtype[np.generic]) -> LaunchPlan:
        """Return the launch of only this layer for a whole batch, planned without a search.

        `tensors` are named as in a model file.
        """
        network = self._network()
        layer = next(layer for layer in network.layers if layer.name == self.layer.name)
        graph = lower_layer(Model(network, dict(tensors), {}), dtype, layer, network.shapes())
        pipeline = Pipeline(graph, (), find_target(DEFAULT_TARGET).usable_sbuf_bytes)
        batch = self.shapes[0][0]
        return pipeline.launch(Decisions((Choice(Kind.STAGE, value=batch),)), batch)

    def _network(self) -> Network:
        """Return a network in which the layer reads values of the right shapes, which other layers provide."""
        (_, channels, *window), *more = self.shapes
        first = _image(channels, *window) if window else FeatureInput(channels)
        names = [INPUT, *(f"other{number}" for number in range(len(more)))]
        other_outputs = [_beside(name, self.shapes[0][1:], shape[1:]) for name, shape in zip(names[1:], more)]
        layer = replace(self.layer, inputs=tuple(names))
        ending = [layers.Flatten("flat")] if window else []
        return Network("check", first, (*other_outputs, layer, *ending), (), Output("values"))


def _image(channels: int, height: int, width: int) -> ImageInput:
    return ImageInput(channels, height, width, "none", (0.0,) * channels, (1.0,) * channels)


def _beside(name: str, first: Shape, wanted: Shape) -> layers.Layer:
    """Return a layer whose output has the given shape."""
    if len(first) == 1:
        return layers.Dense(name, first[0], wanted[0], inputs=(INPUT,))
    kernel = tuple(before - after + 1 for before, after in zip(first[1:], wanted[1:]))
    return layers.Conv2d(name, first[0], wanted[0], kernel, inputs=(INPUT,))  # type: ignore[arg-type]


def cases(number: int) -> Iterator[LayerCase]:
    """Return the cases of the small size (0) or of the odd size (1)."""
    batch, channels, height, width = shape = ((2, 6, 5, 7), (1, 129, 13, 11))[number]
    features = (batch, (10, 513)[number])
    yield from _windows(shape)
    yield LayerCase(layers.Concat("l"), (shape, (batch, channels + 1, height, width)))
    yield LayerCase(layers.ChannelSlice("l", 1, channels - 1), (shape,))
    yield LayerCase(layers.ChannelShuffle("l", 3), (shape,))
    yield LayerCase(layers.Pad("l", (1, 2, 0, 3), -1.5), (shape,))
    yield LayerCase(layers.Pad("l", (1, 2, 0, 3), mode="reflect"), (shape,), "reflect")
    yield LayerCase(layers.Transpose("l", shape[1:], (1, 2, 0), (math.prod(shape[1:]),)), (shape,))
    tokens = (batch, channels, height * width, 1)
    exchanged = layers.Transpose("l", tokens[1:3], (1, 0), (height * width, channels, 1))
    yield LayerCase(exchanged, (tokens,), "of tokens")
    heads = (3, channels // 3, height * width)
    yield LayerCase(
        layers.Transpose("l", heads, (0, 2, 1), (3 * height * width, 1, channels // 3)), (shape,), "of heads"
    )
    yield LayerCase(layers.Reshape("l", (channels, width, height)), (shape,))
    yield LayerCase(layers.LayerNorm("l", channels), (shape,))
    yield LayerCase(layers.LayerNorm("l", channels, is_centred=True), (shape,), "of a mean of zero")
    yield LayerCase(layers.GroupNorm("l", channels, 3), (shape,))
    yield LayerCase(layers.PixelArgmax("l", channels), (shape,))
    yield LayerCase(layers.ChannelSoftmax("l", 3), (shape,))
    yield LayerCase(layers.RowSoftmax("l", log=True), (shape,))
    yield LayerCase(layers.LocalResponseNorm("l", 5, 1e-2, 0.75, 1.0), (shape,))
    yield LayerCase(layers.Attention("l", 3, 0.5, by_rows=number > 0), (shape,) * 3)
    yield LayerCase(layers.Attention("l", 1, 0.5), (shape,) * 3, "of one head")
    yield LayerCase(layers.Softmax("l", log=True), (features,), "log")
    yield LayerCase(layers.Softmax("l"), ((batch, (4672, 2049)[number]),), "many")
    yield LayerCase(layers.Affine("l", (channels,), "relu"), (shape,))
    yield LayerCase(layers.PRelu("l", channels), (shape,))
    for operation in layers.OPERATIONS if number == 0 else ("add",):
        yield LayerCase(layers.Combine("l", operation), (shape, shape), operation, operation == "divide")
    yield LayerCase(layers.Combine("l", "multiply"), (shape, (batch, channels, height, 1)), "repeated columns")
    yield LayerCase(layers.Combine("l", "divide"), (shape, (batch, channels, 1, width)), "repeated rows", positive=True)
    for activation in layers.ACTIVATION_PARAMETERS if number == 0 else ("gelu",):
        layer = layers.Activation("l", activation, _NUMBERS.get(activation, ()))
        yield LayerCase(layer, (features,), activation, activation in _OF_POSITIVE)


def _windows(shape: Shape) -> Iterator[LayerCase]:
    """Return pooling with padding and overlapping windows, and a depthwise convolution."""
    channels = shape[1]
    for pooling in ("max", "average"):
        layer = layers.Pool("l", pooling, (3, 2), (2, 1), (1, 0, 1, 1))
        yield LayerCase(layer, (shape,), pooling)
    padding = (1, 1, 1, 1)
    depthwise = layers.Conv2d("l", channels, channels, (3, 3), padding, groups=channels, stride=(2, 2))
    yield LayerCase(depthwise, (shape,), "depthwise")
