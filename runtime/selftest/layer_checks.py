"""Layers that are one launch of a kernel each, at a small and an odd size: what `checks` makes operands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...models import layers

_NUMBERS = {"hardsigmoid": (0.2, 0.5), "leaky_relu": (0.01,), "elu": (1.0,), "selu": (1.67326, 1.0507)}
_NUMBERS |= {"clip": (-0.5, 0.5), "power": (1.5,), "step": (0.25,), "threshold": (0.25,)}
_OF_POSITIVE = ("sqrt", "log", "reciprocal", "power")


@dataclass(frozen=True)
class LayerCase:
    """A layer on data of these shapes, and the kernel and parameters that it launches."""

    kernel: str
    layer: layers.Layer
    shapes: tuple[tuple[int, ...], ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    variant: str = ""
    positive: bool = False  # the data is above 0


def cases(number: int) -> Iterator[LayerCase]:
    """Those of the small size (0) or the odd one (1)."""
    batch, channels, height, width = shape = ((2, 6, 5, 7), (1, 129, 13, 11))[number]
    features = (batch, (10, 513)[number])
    yield from _windows(shape)
    yield LayerCase("concat", layers.Concat("l"), (shape, (batch, channels + 1, height, width)))
    yield LayerCase(
        "channel_slice", layers.ChannelSlice("l", 1, channels - 1), (shape,), {"first": 1, "last": channels - 1}
    )
    yield LayerCase("channel_shuffle", layers.ChannelShuffle("l", 3), (shape,), {"groups": 3})
    padding = (1, 2, 0, 3)
    yield LayerCase("pad", layers.Pad("l", padding, -1.5), (shape,), {"padding": padding, "value": -1.5})
    order = (1, 2, 0)
    turned = layers.Transpose("l", shape[1:], order, (channels * height * width,))
    yield LayerCase("permute", turned, (shape,), {"split": shape[1:], "order": order})
    yield LayerCase("layer_norm", layers.LayerNorm("l", channels), (shape,), {"epsilon": 1e-5})
    groups = {"groups": 3, "epsilon": 1e-5}
    yield LayerCase("group_norm", layers.GroupNorm("l", channels, 3), (shape,), groups)
    norm = {"size": 5, "alpha": 1e-2, "beta": 0.75, "bias": 1.0}
    yield LayerCase("local_response_norm", layers.LocalResponseNorm("l", **norm), (shape,), norm)  # type: ignore[arg-type]
    yield LayerCase("log_softmax", layers.Softmax("l", log=True), (features,))
    yield LayerCase("affine", layers.Affine("l", (channels,), "relu"), (shape,), {"activation": "relu"})
    yield LayerCase("prelu", layers.PRelu("l", channels), (shape,))
    for operation in layers.OPERATIONS if number == 0 else ("add",):
        positive = operation == "divide"
        summed = layers.Combine("l", operation)
        yield LayerCase("combine", summed, (shape, shape), {"operation": operation}, operation, positive)
    for activation in layers.ACTIVATION_PARAMETERS if number == 0 else ("gelu",):
        numbers = _NUMBERS.get(activation, ())
        parameters = {"activation": activation, "parameters": numbers}
        positive = activation in _OF_POSITIVE
        layer = layers.Activation("l", activation, numbers)
        yield LayerCase("apply_activation", layer, (features,), parameters, activation, positive)


def _windows(shape: tuple[int, ...]) -> Iterator[LayerCase]:
    """Pooling with padding and overlap, and a filter for each channel."""
    channels = shape[1]
    sweep = {"window": (3, 2), "stride": (2, 1), "padding": (1, 0, 1, 1)}
    yield LayerCase("max_pool", layers.Pool("l", "max", **sweep), (shape,), sweep)  # type: ignore[arg-type]
    around = (1, 1, 1, 1)
    layer = layers.Conv2d("l", channels, channels, (3, 3), around, groups=channels, stride=(2, 2))
    yield LayerCase("depthwise_conv2d", layer, (shape,), {"stride": (2, 2), "padding": around})
