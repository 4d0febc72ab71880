"""ONNX graphs for tests, built node by node, with random weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from trninfer.models import ImageInput, Network, run_network
from trninfer.models.importing import Imported, import_network


class Chain:
    """An ONNX graph that is built node by node, with random weights."""

    def __init__(self, *shape: int | str, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])]
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.value = "x"

    def weight(self, *shape: int, scale: float = 0.4) -> str:
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array: np.ndarray | list | float) -> str:
        name = f"weight{len(self.weights)}"
        array = np.asarray(array)
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *others: str, first: str | None = None, outputs: int = 1, **attributes: object) -> str:
        names = [f"value{len(self.nodes)}" + "'" * i for i in range(outputs)]
        node = helper.make_node(op, [first or self.value, *others], names, name=f"n{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        self.value = names[0]
        return self.value

    def conv(self, channels: tuple[int, int], kernel: tuple[int, int] = (3, 3), **attributes: object) -> None:
        self.add("Conv", self.weight(channels[1], channels[0], *kernel), self.weight(channels[1]), **attributes)

    def batch_norm(self, channels: int) -> None:
        variance = self.constant(self.random.uniform(0.2, 3, channels))
        self.add("BatchNormalization", *(self.weight(channels, scale=1.0) for _ in range(3)), variance, epsilon=1e-3)

    def gemm(self, features: int, outputs: int) -> None:
        self.add("Gemm", self.weight(outputs, features), self.weight(outputs), transB=1)

    def input(self, name: str, *shape: int | str, dtype: int = TensorProto.FLOAT) -> str:
        """Another input."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def model(
        self, opset: int = 20, output: str | None = None, outputs: Sequence[str] = (), dtype: int = TensorProto.FLOAT
    ) -> onnx.ModelProto:
        names = outputs or [output or self.value]
        outputs = [helper.make_tensor_value_info(name, dtype, None) for name in names]
        graph = helper.make_graph(self.nodes, "chain", self.inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)

    def save(self, folder: Path, opset: int = 20) -> Path:
        path = folder / "chain.onnx"
        path.write_bytes(self.model(opset).SerializeToString())
        return path


def checked(model: onnx.ModelProto, folder: Path, **options: object) -> Imported:
    """Return the imported graph, whose outputs have all passed the comparison."""
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path, **options)
    assert imported.comparison.skipped == "" and imported.comparison.passed, imported.comparison
    assert Network.from_json(imported.network.to_json()) == imported.network
    return imported


def run_onnx(path: Path, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # small networks: idle threads would occupy the other core, which other tests need
    return np.asarray(onnxruntime.InferenceSession(str(path), options).run(None, {"x": x})[0])


def assert_imports(chain: Chain, folder: Path, opset: int = 20, batch: int = 3, **options: object) -> Imported:
    """Import, and compare with ONNX Runtime on separate inputs."""
    path = chain.save(folder, opset)
    imported = import_network(path, **options)
    comparison = imported.comparison
    assert comparison.passed and comparison.skipped.partition(", ")[2] in ("", "too small for a comparison"), comparison
    network = imported.network
    assert Network.from_json(network.to_json()) == network
    shape = network.input.array_shape if isinstance(network.input, ImageInput) else network.input.shape
    sizes = [size.dim_value for size in chain.inputs[0].type.tensor_type.shape.dim]
    batch = sizes[0] or batch
    rank = len(sizes)
    given = np.random.default_rng(7).standard_normal((batch, *shape) if rank > len(shape) else shape, np.float32)
    x = given.reshape(-1, *shape)
    if isinstance(network.input, ImageInput):
        x = x.transpose(0, 3, 1, 2) if network.input.layout == "HWC" else x
        x = x.reshape(-1, *network.input.shape)
    result = run_network(network, imported.tensors, x).scores
    row = not isinstance(network.input, ImageInput) and rank > 2  # if the file has more axes for it
    expected = run_onnx(path, given.reshape(batch, *sizes[1:]) if row else given).reshape(result.shape)
    np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(expected).max())))
    return imported


def kinds(imported: Imported) -> list[type]:
    return [type(layer) for layer in imported.network.layers]


def ends(chain: Chain, features: int, folder: Path, **options: object) -> Imported:
    """Import and compare the graph with a dense layer appended."""
    chain.add("Flatten")
    chain.gemm(features, 4)
    return assert_imports(chain, folder, **options)


def vgg(width: int = 4, side: int = 32) -> Chain:
    """Return a narrow VGG-13 with batch normalization, as exported by PyTorch."""
    chain = Chain(3, side, side)
    channels = [3, *(width * size for size in (1, 1, 2, 2, 4, 4, 8, 8, 8, 8))]
    for number, pair in enumerate(itertools.pairwise(channels)):
        chain.conv(pair, pads=[1] * 4)
        chain.batch_norm(pair[1])
        chain.add("Relu")
        if number % 2:
            chain.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    chain.add("AveragePool", kernel_shape=[1, 1], strides=[1, 1])
    chain.add("Flatten")
    chain.gemm(channels[-1] * (side // 32) ** 2, 24)
    chain.add("Relu")
    chain.add("Dropout")
    chain.gemm(24, 7)
    return chain
