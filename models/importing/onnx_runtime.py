"""The check after an import: the golden model of the imported network against ONNX Runtime, on random input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..golden import run_network
from ..network import Conv2d, Dense, Flatten, Network, Pool, Softmax
from .onnx_file import Graph

MAX_INPUT_ELEMENTS = 1 << 26  # of the random input, for a file that wants a fixed, very large batch

# Largest difference by the largest output: float32 sums in another order, or a file that computes in float16.
TOLERANCES = {"float32": 1e-3, "float64": 1e-3, "float16": 3e-2}


@dataclass(frozen=True)
class Comparison:
    """What the comparison gave; `skipped` says why there was none."""

    skipped: str = ""
    max_abs_error: float = 0.0
    largest_output: float = 0.0
    tolerance: float = 0.0

    @property
    def passed(self) -> bool:
        """True where nothing speaks against the import."""
        return bool(self.skipped) or self.max_abs_error <= self.tolerance * self.largest_output


def compare(
    network: Network, tensors: Mapping[str, np.ndarray], path: Path | None = None, graph: Graph | None = None
) -> Comparison:
    """Run the golden model and ONNX Runtime on the same random input.

    With a path and its graph, ONNX Runtime runs that file; without, the network as `to_onnx` writes it.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return Comparison("ONNX Runtime is not installed (pip install onnxruntime)")
    batch = (graph.input_shape[0] if graph else None) or 1
    dtype = graph.input_dtype if graph else np.dtype(np.float32)
    shape = (batch, *network.input.shape)
    if math.prod(shape) > MAX_INPUT_ELEMENTS:
        return Comparison(f"the file wants an input of {'x'.join(map(str, shape))}, which is too large to try")
    x = np.random.default_rng(0).standard_normal(shape, np.float32).astype(dtype)
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # its complaints come back as exceptions
        source = str(path) if path else to_onnx(network, tensors)
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        expected = np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0], np.float32)
    except ImportError:
        return Comparison("the package onnx is not installed (pip install 'trninfer[onnx]')")
    except Exception as error:  # ONNX Runtime has no common base for what it raises
        return Comparison(f"ONNX Runtime cannot run it: {' '.join(str(error).split())[:200]}")
    run = run_network(network, tensors, x.astype(np.float32))
    result = run.probabilities if isinstance(network.layers[-1], Softmax) else run.logits
    if result.shape != expected.shape:
        return Comparison("", math.inf, 0.0, TOLERANCES[dtype.name])
    difference = float(np.abs(result - expected).max())
    return Comparison(
        "", difference if math.isfinite(difference) else math.inf, float(np.abs(expected).max()), TOLERANCES[dtype.name]
    )


def to_onnx(network: Network, tensors: Mapping[str, np.ndarray]) -> bytes:
    """A network as an ONNX model of opset 20, layer by layer, with the input "input" and one output."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    value = "input"

    def add(op: str, *weights: str, **attributes: Any) -> None:
        nonlocal value
        nodes.append(helper.make_node(op, [value, *weights], [f"value{len(nodes)}"], **attributes))
        value = nodes[-1].output[0]

    for layer in network.layers:
        names = (f"{layer.name}.weight", f"{layer.name}.bias")
        if isinstance(layer, Conv2d):
            add("Conv", *names, pads=layer.padding)
        elif isinstance(layer, Dense):
            add("Gemm", *names)
        elif isinstance(layer, Pool):
            add("AveragePool", kernel_shape=layer.window, strides=layer.stride)
        elif isinstance(layer, Flatten):
            add("Flatten")
        elif isinstance(layer, Softmax):
            add("Softmax")
        if isinstance(layer, (Conv2d, Dense)) and layer.activation != "identity":
            add(layer.activation.capitalize())
        if isinstance(layer, Conv2d) and layer.pool_size > 1:
            window = [layer.pool_size] * 2
            add("MaxPool", kernel_shape=window, strides=window)
    graph = helper.make_graph(
        nodes,
        network.name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", *network.input.shape])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", len(network.labels)])],
        [numpy_helper.from_array(tensor, name) for name, tensor in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    data: bytes = model.SerializeToString()
    return data
