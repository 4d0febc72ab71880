"""A whole network, layer by layer; values that nothing reads any more are let go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..network import (
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
    LocalResponseNorm,
    Network,
    Output,
    Pad,
    Pool,
    PRelu,
    Reshape,
    Softmax,
    Transpose,
    describe_shape,
)
from . import layers as arithmetic
from .activation import activate
from .convolution import conv2d, dense

Tensors = Mapping[str, np.ndarray]  # those of one layer, by the last part of their names


class GoldenRun(NamedTuple):
    """What a network computed for a batch."""

    logits: np.ndarray  # [B, outputs], what goes into the softmax (or the last layer's output where there is none)
    probabilities: np.ndarray  # [B, outputs]: see `probabilities_of`
    scores: np.ndarray  # [B, outputs], what the last layer gives
    largest: np.ndarray  # [B], of values, the largest number that any layer gives, without its sign; of others zeros


def run_network(network: Network, tensors: Tensors, x: np.ndarray) -> GoldenRun:
    """Run a batch [B, *network.input.shape] (float32) through the network."""
    if x.shape[1:] != network.input.shape:
        raise ValueError(
            f"network {network.name!r} takes {describe_shape(network.input.shape)}, not {describe_shape(x.shape[1:])}"
        )
    last = network.layers[-1]
    values = {INPUT: x.astype(np.float32)}
    left = dict(network.readers())
    logits = values[INPUT]
    largest = np.zeros(len(x), np.float32)
    for layer in network.layers:
        read = [values[name] for name in layer.inputs]
        own = {name.removeprefix(f"{layer.name}."): tensors[name] for name in layer.tensor_shapes()}
        values[layer.name] = run_layer(layer, own, *read)
        logits = read[0] if layer is last and isinstance(layer, Softmax) else values[layer.name]
        if network.output.kind == "values":
            np.maximum(largest, np.abs(values[layer.name]).reshape(len(x), -1).max(axis=1, initial=0), out=largest)
        for name in layer.inputs:
            left[name] -= 1
            if not left[name]:
                del values[name]
    scores = values[last.name]
    return GoldenRun(logits, probabilities_of(scores, network.output), scores, largest)


def probabilities_of(scores: np.ndarray, output: Output) -> np.ndarray:
    """What the last layer's numbers [B, outputs] tell: probabilities of classes; of others, the numbers themselves.

    Raw scores go through a softmax, logarithms through the exponential.
    """
    if output.scores == "raw":
        return arithmetic.softmax(scores)
    return np.exp(scores) if output.scores == "log_softmax" else scores


def run_layer(layer: Layer, tensors: Tensors, *read: np.ndarray) -> np.ndarray:
    """The output of one layer for batches `read`, with its own tensors."""
    result = _LAYERS[type(layer)](layer, tensors, *read)
    if isinstance(layer, (Affine, Combine)):
        result = activate(result, layer.activation, layer.activation_parameters)
    return result.astype(np.float32, copy=False)


def _conv2d(layer: Conv2d, tensors: Tensors, x: np.ndarray) -> np.ndarray:
    return conv2d(
        x,
        tensors["weight"],
        tensors["bias"],
        layer.padding,
        layer.pool_size,
        layer.activation,
        layer.stride,
        layer.dilation,
        layer.groups,
        layer.activation_parameters,
    )


def _dense(layer: Dense, tensors: Tensors, x: np.ndarray) -> np.ndarray:
    return dense(x, tensors["weight"], tensors["bias"], layer.activation, layer.activation_parameters)


def _affine(layer: Affine, tensors: Tensors, x: np.ndarray) -> np.ndarray:
    scale, shift = (arithmetic.per_channel(tensors[name], x) for name in ("scale", "shift"))
    return x * scale + shift


def _prelu(layer: PRelu, tensors: Tensors, x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, x, x * arithmetic.per_channel(tensors["slope"], x))


_LAYERS: dict[type[Layer], Callable[..., Any]] = {
    Conv2d: _conv2d,
    Dense: _dense,
    Affine: _affine,
    PRelu: _prelu,
    Pool: lambda layer, tensors, x: arithmetic.pool(x, layer),
    Activation: lambda layer, tensors, x: activate(x, layer.activation, layer.activation_parameters),
    Combine: lambda layer, tensors, a, b: arithmetic.combine(a, b, layer.operation),
    Concat: lambda layer, tensors, *parts: np.concatenate(parts, axis=1),
    ChannelSlice: lambda layer, tensors, x: x[:, layer.first : layer.last],
    ChannelShuffle: lambda layer, tensors, x: arithmetic.channel_shuffle(x, layer),
    Flatten: lambda layer, tensors, x: x.reshape(len(x), -1),
    Reshape: lambda layer, tensors, x: x.reshape(len(x), *layer.shape),
    Transpose: lambda layer, tensors, x: arithmetic.transpose(x, layer),
    Pad: lambda layer, tensors, x: arithmetic.pad(x, layer),
    LocalResponseNorm: lambda layer, tensors, x: arithmetic.local_response_norm(x, layer),
    LayerNorm: lambda layer, tensors, x: arithmetic.layer_norm(x, tensors["scale"], tensors["shift"], layer),
    GroupNorm: lambda layer, tensors, x: arithmetic.group_norm(x, tensors["scale"], tensors["shift"], layer),
    Softmax: lambda layer, tensors, x: (arithmetic.log_softmax if layer.log else arithmetic.softmax)(x),
}
