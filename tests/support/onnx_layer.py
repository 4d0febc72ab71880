"""A single ONNX operator run by ONNX Runtime, as the reference for a layer."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

# The tolerance allows float32 sums of a few hundred terms in a different order.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def run_onnx(op: str, *arrays: np.ndarray, opset: int = 22, **attributes: object) -> np.ndarray:
    """Return the output of one operator for `arrays`."""
    names = [f"x{position}" for position in range(len(arrays))]
    return run_nodes([helper.make_node(op, names, ["y"], **attributes)], dict(zip(names, arrays)), opset)


def run_nodes(nodes: list, inputs: dict[str, np.ndarray], opset: int = 22) -> np.ndarray:
    """Return the last node's output; every array is an input of the graph."""
    types = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    graph = helper.make_graph(
        nodes,
        "nodes",
        [helper.make_tensor_value_info(name, types[a.dtype.kind], a.shape) for name, a in inputs.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Return normally distributed float32 numbers, determined by seed and shape."""
    return np.random.default_rng([seed, *shape]).normal(scale=scale, size=shape).astype(np.float32)
