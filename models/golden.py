"""The golden model, which runs networks layer by layer in NumPy float32, independently of all kernels.

The computation of each layer kind is defined in `layers/`. The first axis of all arrays is the batch: images are
[B, C, H, W], features are [B, F].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .checks import INPUT, describe_shape
from .layers import Layer, PixelArgmax, Softmax
from .layers.activation import activate
from .layers.conv2d import conv2d
from .layers.dense import dense
from .layers.layer import Tensors
from .layers.pool import average_pool
from .layers.softmax import log_softmax, softmax
from .network import Network
from .outputs import Output

__all__ = [
    "GoldenRun",
    "OutputRun",
    "activate",
    "argmax",
    "average_pool",
    "conv2d",
    "dense",
    "log_softmax",
    "probabilities_of",
    "run_layer",
    "run_network",
    "softmax",
]


class OutputRun(NamedTuple):
    """One output of a network for a batch. Arrays are [B, size]; a map's logits are [B, classes, rows, columns]."""

    logits: np.ndarray  # the input of the final softmax or argmax (the last layer's output if there is none)
    probabilities: np.ndarray  # see `probabilities_of`
    scores: np.ndarray  # the last layer's output


class GoldenRun(NamedTuple):
    """The results of a network for a batch: the primary output, followed by the others in order."""

    logits: np.ndarray  # [B, outputs], see `OutputRun`
    probabilities: np.ndarray
    scores: np.ndarray
    largest: np.ndarray  # [B]: the largest magnitude in any layer's output if an output is unlabelled; else 0
    others: tuple[OutputRun, ...] = ()

    @property
    def outputs(self) -> tuple[OutputRun, ...]:
        """All outputs, with the primary one first."""
        return (OutputRun(self.logits, self.probabilities, self.scores), *self.others)


def _logits_of(network: Network) -> dict[str, str]:
    """Map the layer of each output to the layer that computes its values before the last softmax or argmax."""
    layers = {layer.name: layer for layer in network.layers}
    endings = (PixelArgmax, Softmax)
    answers = [output.layer for output in network.named_outputs]
    return {name: layers[name].inputs[0] if isinstance(layers.get(name), endings) else name for name in answers}


def run_network(
    network: Network, tensors: Tensors, x: np.ndarray, watch: Callable[[str, np.ndarray], None] | None = None
) -> GoldenRun:
    """Run the network on a float32 batch [B, *network.input.shape].

    `watch`, if given, is called with the name and the output of each layer.
    """
    if x.shape[1:] != network.input.shape:
        raise ValueError(
            f"network {network.name!r} expects {describe_shape(network.input.shape)}, not {describe_shape(x.shape[1:])}"
        )
    logits = _logits_of(network)
    needed = {*logits, *logits.values()}
    any_values = any(not output.output.is_labelled for output in network.named_outputs)
    values = {INPUT: x.astype(np.float32)}
    left = Counter(network.readers())  # number of remaining readers; values without readers are deleted
    largest = np.zeros(len(x), np.float32)
    for layer in network.layers:
        read = [values[name] for name in layer.inputs]
        values[layer.name] = run_layer(layer, layer.own_tensors(tensors), *read)
        if watch is not None:
            watch(layer.name, values[layer.name])
        if any_values:
            np.maximum(largest, np.abs(values[layer.name]).reshape(len(x), -1).max(axis=1, initial=0), out=largest)
        left.subtract(layer.inputs)
        for name in {*layer.inputs} - needed:
            if not left[name]:
                del values[name]
    first, *others = (
        OutputRun(
            values[logits[output.layer]],
            probabilities_of(values[output.layer], output.output),
            values[output.layer],
        )
        for output in network.named_outputs
    )
    return GoldenRun(first.logits, first.probabilities, first.scores, largest, tuple(others))


def run_layer(layer: Layer, tensors: Tensors, *inputs: np.ndarray) -> np.ndarray:
    """Run a layer on the batches `inputs`; return float32. `tensors` are named by the last part of their names."""
    with np.errstate(all="ignore"):  # infinity and NaN are ordinary values, as on the chip
        return layer.run(tensors, *inputs).astype(np.float32, copy=False)


def probabilities_of(scores: np.ndarray, output: Output) -> np.ndarray:
    """Convert the last layer's values [B, outputs] to class probabilities; return other outputs unchanged.

    The softmax is applied to raw scores, the exponential function to logarithms.
    """
    if output.scores == "raw":
        return softmax(scores)
    return np.exp(scores) if output.scores == "log_softmax" else scores


def argmax(x: np.ndarray) -> np.ndarray:
    """Return the index of the (first) largest value along the last axis, as int32."""
    return np.argmax(x, axis=-1).astype(np.int32)
