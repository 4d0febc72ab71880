"""Layers as programs of one launch each, on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
from trninfer import kernels, simulator
from trninfer.kernels.program import input_name
from trninfer.models.layers import Layer
from trninfer.runtime.selftest.layer_checks import LayerCase


def run_alone(layer: Layer, *arrays: np.ndarray, tensors: dict[str, Any] | None = None, target: str = "trn2") -> Any:
    """Return the value of a layer named "l" for arrays [B, ...] of one dtype; `tensors` are keyed by their short
    names."""
    dtype = arrays[0].dtype
    plan = LayerCase(layer, tuple(array.shape for array in arrays)).plan(
        {f"l.{name}": tensor for name, tensor in (tensors or {}).items()}, dtype
    )
    inputs = {input_name(number): plan.arrange_input(number, array, dtype) for number, array in enumerate(arrays)}
    operands = plan.layout.operands(dtype)
    run = simulator.run(kernels.kernel("run_network"), **inputs, **operands, target=target, program=plan.program)
    value = np.asarray(plan.outputs(run.outputs)[0][0])
    return value.reshape(len(value), *layer.output_shape(*(array.shape[1:] for array in arrays)))
