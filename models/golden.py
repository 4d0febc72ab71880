"""The golden model: what each layer computes, in NumPy float32, readable and independent of every kernel.

Arrays carry the batch first: images [B, C, H, W], features [B, F]. Results are float32. Nothing here is tuned to
agree with the kernels; the tests hold it against ONNX Runtime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .network import ACTIVATIONS, AveragePool, Conv2d, Dense, Flatten, Network, Softmax, describe_shape

# A convolution unfolds this much of its input at a time, so that a large image takes no more memory than a small one.
UNFOLD_BYTES = 32 << 20


class GoldenRun(NamedTuple):
    """What a network computed for a batch."""

    logits: np.ndarray  # [B, classes], what goes into the softmax (or the last layer's output where there is none)
    probabilities: np.ndarray  # [B, classes]
    layers: dict[str, np.ndarray] | None  # each layer's output by name, where asked for


def activate(x: np.ndarray, activation: str) -> np.ndarray:
    """`x` through identity, relu, gelu (the exact one, by erf), sigmoid or tanh; float32, same shape."""
    if activation == "identity":
        return x
    if activation == "relu":
        return np.maximum(x, np.float32(0))
    if activation == "tanh":
        return np.tanh(x)
    if activation == "sigmoid":
        decay = np.exp(-np.abs(x))  # never overflows
        return np.where(x >= 0, 1 / (1 + decay), decay / (1 + decay)).astype(np.float32)
    if activation == "gelu":
        # x/2 * (1 + erf(x / sqrt 2)), written with erfc so that nothing cancels where x is far below 0.
        scaled = (x.astype(np.float64).ravel() * -math.sqrt(0.5)).tolist()
        tail = np.fromiter(map(math.erfc, scaled), np.float64, count=x.size).reshape(x.shape)
        return (0.5 * x * tail).astype(np.float32)
    raise ValueError(f"unknown activation {activation!r}; known are {', '.join(ACTIVATIONS)}")


def conv2d(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    padding: int = 0,
    pool_size: int = 1,
    activation: str = "identity",
) -> np.ndarray:
    """Convolution of stride 1, bias, activation, then max pooling with stride = size (rows left over are dropped).

    x [B, Cin, H, W], w [Cout, Cin, k, k], bias [Cout] -> [B, Cout, H', W'], H' = (H + 2 padding - k + 1) // pool_size.
    """
    out_channels, in_channels, k, _ = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((side - k + 1) // pool_size for side in padded.shape[2:])
    filters = w.reshape(out_channels, -1)
    result = np.empty((x.shape[0], out_channels, height, width), np.float32)
    row_bytes = 4 * in_channels * k * k * width * pool_size * pool_size
    rows = max(1, UNFOLD_BYTES // max(1, row_bytes))
    for image, out in zip(padded, result, strict=True):
        windows = np.lib.stride_tricks.sliding_window_view(image, (k, k), axis=(1, 2))
        for first in range(0, height, rows):
            last = min(first + rows, height)
            band = windows[:, first * pool_size : last * pool_size, : width * pool_size]
            unfolded = band.transpose(0, 3, 4, 1, 2).reshape(filters.shape[1], -1)
            values = activate(filters @ unfolded + bias[:, None], activation)
            out[:, first:last] = values.reshape(out_channels, last - first, pool_size, width, pool_size).max(
                axis=(2, 4)
            )
    return result


def dense(x: np.ndarray, w: np.ndarray, bias: np.ndarray, activation: str = "identity") -> np.ndarray:
    """x [B, F] @ w [F, F'] + bias [F'], then the activation."""
    return activate(x @ w + bias, activation)


def average_pool(x: np.ndarray, window_height: int, window_width: int) -> np.ndarray:
    """Average of windows that lie side by side; rows and columns left over are dropped.

    x [B, C, H, W] -> [B, C, H // window_height, W // window_width].
    """
    batch, channels, *sides = x.shape
    height, width = sides[0] // window_height, sides[1] // window_width
    whole = x[:, :, : height * window_height, : width * window_width]
    windows = whole.reshape(batch, channels, height, window_height, width, window_width)
    return windows.mean(axis=(3, 5), dtype=np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    exponents = np.exp(x - x.max(axis=-1, keepdims=True))
    result: np.ndarray = exponents / exponents.sum(axis=-1, keepdims=True)
    return result


def argmax(x: np.ndarray) -> np.ndarray:
    """Index of the largest value over the last axis, the first of equals; int32."""
    return np.argmax(x, axis=-1).astype(np.int32)


def run_network(
    network: Network, tensors: Mapping[str, np.ndarray], x: np.ndarray, keep_layers: bool = False
) -> GoldenRun:
    """Run a batch [B, *network.input.shape] (float32) through the network.

    A network without a softmax gets its probabilities from a softmax over its output all the same.
    """
    if x.shape[1:] != network.input.shape:
        raise ValueError(
            f"network {network.name!r} takes {describe_shape(network.input.shape)}, not {describe_shape(x.shape[1:])}"
        )
    values = x.astype(np.float32)
    logits = values
    layers: dict[str, np.ndarray] = {}
    for layer in network.layers:
        if isinstance(layer, Conv2d):
            w, bias = tensors[f"{layer.name}.weight"], tensors[f"{layer.name}.bias"]
            values = conv2d(values, w, bias, layer.padding, layer.pool_size, layer.activation)
        elif isinstance(layer, Dense):
            w, bias = tensors[f"{layer.name}.weight"], tensors[f"{layer.name}.bias"]
            values = dense(values, w, bias, layer.activation)
        elif isinstance(layer, AveragePool):
            values = average_pool(values, layer.window_height, layer.window_width)
        elif isinstance(layer, Flatten):
            values = values.reshape(len(values), -1)
        elif isinstance(layer, Softmax):
            values = softmax(values)
        if not isinstance(layer, Softmax):
            logits = values
        if keep_layers:
            layers[layer.name] = values
    ends_in_softmax = isinstance(network.layers[-1], Softmax)
    probabilities = values if ends_in_softmax else softmax(values)
    return GoldenRun(logits, probabilities, layers if keep_layers else None)
