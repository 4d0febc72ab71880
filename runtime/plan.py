"""A network as kernel launches: which kernel each layer becomes, on which prepared weights.

A plain Conv2d and a Pool are one launch each. A Dense is three (transpose, matmul, bias and activation),
and takes the Softmax after it into its last one. Flatten is a view of what lies in HBM and launches nothing. The last
launch is the argmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from ..models.files import Model
from ..models.layout import pack_conv2d
from ..models.network import Conv2d, Dense, Flatten, Layer, ModelError, Pool, Softmax
from .timing import BATCH, Row

DTYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float16": np.dtype(np.float16),
}

KERNEL_ACTIVATIONS = ("identity", "relu", "gelu", "sigmoid", "tanh")


@dataclass(frozen=True)
class Step:
    """One launch: `kernel` (a name in trninfer.kernels) on the data, then `operands`, with `parameters`."""

    name: str
    kernel: str
    input_shape: tuple[int, ...]  # BATCH stands for the batch axis
    output_shape: tuple[int, ...]
    operands: tuple[np.ndarray, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row(self) -> Row:
        """The step in the table of times."""
        return Row(self.name, self.kernel, self.input_shape, self.output_shape)


def plan_network(model: Model, dtype: np.dtype[Any]) -> tuple[Step, ...]:
    """The launches of a network in order, weights cast to `dtype` and laid out for the kernels; biases stay float32."""
    steps: list[Step] = []
    network = model.network
    layers = network.layers
    _check(layers)
    for position, (layer, (before, after)) in enumerate(zip(layers, network.layer_shapes(), strict=True)):
        if isinstance(layer, Conv2d) and layer.is_plain:
            steps.append(_conv2d(layer, before, after, model.tensors, dtype))
        elif isinstance(layer, Dense):
            following = layers[position + 1] if position + 1 < len(layers) else None
            fused = isinstance(following, Softmax) and layer.activation == "identity"
            steps += _dense(layer, "softmax" if fused else layer.activation, model.tensors, dtype)
        elif isinstance(layer, Pool):
            steps.append(_pool(layer, before, after))
        elif isinstance(layer, Softmax):
            previous = layers[position - 1] if position else None
            if not (isinstance(previous, Dense) and previous.activation == "identity"):
                shape, no_bias = (BATCH, *before), np.zeros((1, *before), np.float32)
                activation = {"activation": "softmax"}
                steps.append(Step(f"{layer.name}.softmax", "bias_activation", shape, shape, (no_bias,), activation))
        elif not isinstance(layer, Flatten):
            raise ModelError(f"layer {layer.name!r} ({layer.kind}): no kernel runs it yet")
    classes = len(network.labels)
    steps.append(Step("argmax", "argmax", (BATCH, classes), (BATCH,)))
    return tuple(steps)


def _check(layers: tuple[Layer, ...]) -> None:
    """ModelError unless each layer reads the one before it, with an activation that the kernels have."""
    for before, layer in zip(("input", *(layer.name for layer in layers)), layers):
        if layer.inputs != (before,):
            raise ModelError(f"layer {layer.name!r}: reads {', '.join(layer.inputs)}; only chains of layers run yet")
        if getattr(layer, "activation", "identity") not in KERNEL_ACTIVATIONS:
            raise ModelError(f"layer {layer.name!r}: no kernel has its activation yet")
        if isinstance(layer, Softmax) and layer.log:
            raise ModelError(f"layer {layer.name!r}: no kernel has a softmax's logarithm yet")


def _conv2d(
    layer: Conv2d,
    before: tuple[int, ...],
    after: tuple[int, ...],
    tensors: Mapping[str, np.ndarray],
    dtype: np.dtype[Any],
) -> Step:
    weight = tensors[f"{layer.name}.weight"].astype(dtype)
    parameters = {
        "in_channels": layer.in_channels,
        "kernel_size": layer.kernel_size[0],
        "pool_size": layer.pool_size,
        "padding": layer.padding[0],
        "activation": layer.activation,
    }
    packed = pack_conv2d(weight, tensors[f"{layer.name}.bias"])
    return Step(
        f"{layer.name}.conv2d", "fused_conv2d_maxpool_packed", (BATCH, *before), (BATCH, *after), packed, parameters
    )


def _pool(layer: Pool, before: tuple[int, ...], after: tuple[int, ...]) -> Step:
    parameters = {
        "window": layer.window,
        "stride": layer.stride,
        "padding": layer.padding,
        "ceil_mode": layer.ceil_mode,
    }
    if layer.method == "average":
        parameters["count_include_pad"] = layer.count_include_pad
    kernel = f"{layer.method}_pool"
    return Step(f"{layer.name}.{kernel}", kernel, (BATCH, *before), (BATCH, *after), (), parameters)


def _dense(layer: Dense, activation: str, tensors: Mapping[str, np.ndarray], dtype: np.dtype[Any]) -> list[Step]:
    features, outputs = layer.in_features, layer.out_features
    weight = np.ascontiguousarray(tensors[f"{layer.name}.weight"], dtype)
    bias = np.ascontiguousarray(tensors[f"{layer.name}.bias"].reshape(1, outputs), np.float32)
    result = (BATCH, outputs)
    return [
        Step(f"{layer.name}.transpose", "transpose", (BATCH, features), (features, BATCH)),
        Step(f"{layer.name}.matmul", "matmul_fully_optimized", (features, BATCH), result, (weight,)),
        Step(f"{layer.name}.bias_activation", "bias_activation", result, result, (bias,), {"activation": activation}),
    ]
