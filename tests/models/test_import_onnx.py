"""ONNX files as networks: the same answers as ONNX Runtime, and one clear line for what cannot be had."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from trninfer.models import (
    Conv2d,
    Dense,
    FeatureInput,
    Flatten,
    ModelError,
    Network,
    Pool,
    Softmax,
    run_network,
)
from trninfer.models.importing import fold, import_network, onnx_file, onnx_runtime

ACTIVATIONS = ("Relu", "Gelu", "Sigmoid", "Tanh")


class Chain:
    """An ONNX graph, node after node; weights are random."""

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

    def model(self, opset: int = 20, output: str | None = None) -> onnx.ModelProto:
        outputs = [helper.make_tensor_value_info(output or self.value, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "chain", self.inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)

    def save(self, folder: Path, opset: int = 20) -> Path:
        path = folder / "chain.onnx"
        path.write_bytes(self.model(opset).SerializeToString())
        return path


def run_onnx(path: Path, x: np.ndarray) -> np.ndarray:
    return np.asarray(onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0])


def assert_imports(chain: Chain, folder: Path, opset: int = 20, batch: int = 3) -> tuple:
    """Import, and compare on input of our own with ONNX Runtime; gives the layers."""
    path = chain.save(folder, opset)
    imported = import_network(path)
    assert imported.comparison.skipped == "" and imported.comparison.passed
    assert Network.from_json(imported.network.to_json()) == imported.network
    x = np.random.default_rng(7).standard_normal((batch, *imported.network.input.shape), np.float32)
    run = run_network(imported.network, imported.tensors, x)
    result = run.probabilities if isinstance(imported.network.layers[-1], Softmax) else run.logits
    expected = run_onnx(path, x)
    np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5 * max(1.0, float(np.abs(expected).max())))
    return imported.network.layers


def kinds(layers: tuple) -> list[type]:
    return [type(layer) for layer in layers]


def vgg(width: int = 4, side: int = 32) -> Chain:
    """A narrow VGG-13 with batch normalization, as PyTorch exports it."""
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


def test_a_vgg_becomes_fused_layers(tmp_path: Path) -> None:
    layers = assert_imports(vgg(), tmp_path)
    assert kinds(layers) == [*[Conv2d] * 10, Flatten, Dense, Dense]
    assert [layer.pool_size for layer in layers[:10]] == [1, 2] * 5
    assert {layer.activation for layer in layers[:11] if isinstance(layer, Conv2d)} == {"relu"}
    assert [layer.activation for layer in layers[-2:]] == ["relu", "identity"]


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Any chain of supported operations, in any order that fits."""
    shape = [draw(st.sampled_from([1, 3])), draw(st.integers(6, 14)), draw(st.integers(6, 14))]
    chain = Chain(*shape, seed=draw(st.integers(0, 999)))
    for op in draw(st.lists(st.sampled_from([*"ccccbapgim"]), max_size=7)):
        if op == "c":
            kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
            top, left = draw(st.integers(0, 2)), draw(st.integers(0, 2))
            bottom = draw(st.integers(0, 2))
            right = top + bottom - kernel[0] + kernel[1] - left  # height and width change by the same amount
            after = [side + top + bottom - kernel[0] + 1 for side in shape[1:]]
            if min(after) < 1 or right < 0:
                continue
            channels = (shape[0], draw(st.sampled_from([1, 2, 5])))
            chain.conv(channels, kernel, pads=[top, left, bottom, right])
            shape = [channels[1], *after]
        elif op == "b":
            chain.batch_norm(shape[0])
        elif op == "a":
            chain.add(draw(st.sampled_from(ACTIVATIONS)))
        elif op == "p" and min(shape[1:]) > 1:
            chain.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
            shape[1:] = [side // 2 for side in shape[1:]]
        elif op == "g":
            window = [draw(st.integers(1, min(3, side))) for side in shape[1:]]
            chain.add("AveragePool", kernel_shape=window, strides=window)
            shape[1:] = [side // size for side, size in zip(shape[1:], window, strict=True)]
        elif op == "i":
            chain.add(draw(st.sampled_from(["Identity", "Dropout"])))
        elif op == "m":
            chain.add("Add", chain.weight(1, shape[0], 1, 1))
    if draw(st.booleans()):
        chain.add("GlobalAveragePool")
        shape[1:] = [1, 1]
    if draw(st.booleans()):
        chain.add("Flatten")
    else:
        chain.add("Reshape", chain.constant([-1, int(np.prod(shape))]))
    features = int(np.prod(shape))
    for op in draw(st.lists(st.sampled_from([*"dmba"]), max_size=4)):
        if op == "d":
            chain.gemm(features, 6)
            features = 6
        elif op == "m":
            chain.add("MatMul", chain.weight(features, 9))
            features = 9
            chain.add("Add", chain.weight(features))
        elif op == "b":
            chain.batch_norm(features)
        else:
            chain.add(draw(st.sampled_from(ACTIVATIONS)))
    if draw(st.booleans()):
        chain.add("Softmax")
    if not chain.nodes:
        chain.add("Identity")
    return chain


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chain=chains())
def test_any_chain_gives_what_onnx_runtime_gives(chain: Chain, tmp_path: Path) -> None:
    try:
        assert_imports(chain, tmp_path)
    except ModelError as error:  # the one thing that such a chain may have too much of
        assert "has 0 layers" in str(error)


@pytest.mark.parametrize(
    ("auto_pad", "kernel"), [("SAME_UPPER", 3), ("SAME_UPPER", 4), ("SAME_LOWER", 4), ("SAME_LOWER", 1), ("VALID", 2)]
)
def test_automatic_padding(auto_pad: str, kernel: int, tmp_path: Path) -> None:
    chain = Chain(3, 9, 8)
    chain.conv((3, 4), (kernel, kernel), auto_pad=auto_pad)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    assert_imports(chain, tmp_path)


def test_a_perceptron_of_features(tmp_path: Path) -> None:
    chain = Chain(12)
    chain.gemm(12, 20)
    chain.batch_norm(20)
    chain.add("Relu")
    chain.add("MatMul", chain.weight(20, 5))
    chain.add("Add", chain.weight(5), first=None)
    chain.add("Softmax", axis=1)
    layers = assert_imports(chain, tmp_path)
    assert kinds(layers) == [Dense, Dense, Softmax] and layers[0].activation == "relu"
    assert import_network(chain.save(tmp_path)).network.input == FeatureInput(12)


def test_gemm_scales_and_a_bias_of_one_number(tmp_path: Path) -> None:
    chain = Chain(5)
    chain.add("Gemm", chain.weight(5, 4), chain.weight(1), alpha=0.5, beta=3.0)
    chain.add("Gemm", chain.weight(4, 3))
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("form", ["after", "before", "division by hand"])
def test_a_gelu_in_five_nodes_is_one(form: str, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 8)
    x = chain.value
    if form == "division by hand":
        chain.add("Mul", chain.constant(0.70710678))
    else:
        chain.add("Div", chain.constant(1.41421356))
    chain.add("Erf")
    plus = chain.add("Add", chain.constant(1.0))
    if form == "before":
        chain.add("Mul", chain.constant(0.5), first=x)
        chain.add("Mul", plus)
    else:
        chain.add("Mul", plus, first=x)
        chain.add("Mul", chain.constant(0.5))
    chain.gemm(8, 3)
    layers = assert_imports(chain, tmp_path)
    assert [layer.activation for layer in layers] == ["gelu", "identity"]


def test_what_is_nearly_a_gelu_is_refused(tmp_path: Path) -> None:
    chain = Chain(6)
    x = chain.value
    chain.add("Div", chain.constant(1.5))
    chain.add("Erf")
    plus = chain.add("Add", chain.constant(1.0))
    chain.add("Mul", plus, first=x)
    chain.add("Mul", chain.constant(0.5))
    with pytest.raises(ModelError, match=r"node 'n0' \(Div\): not supported; supported are Conv"):
        import_network(chain.save(tmp_path))


def test_a_view_by_the_batch_size_is_a_flatten(tmp_path: Path) -> None:
    """x.view(x.size(0), -1), as PyTorch exports it."""
    chain = Chain(3, 4, 4)
    chain.conv((3, 2))
    x = chain.value
    chain.add("Shape")
    chain.add("Gather", chain.constant(np.array(0)), axis=0)
    chain.add("Unsqueeze", chain.constant([0]))
    target = chain.add("Concat", chain.constant([-1]), axis=0)
    chain.add("Reshape", target, first=x)
    chain.gemm(8, 2)
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Flatten, Dense]


def test_means_over_height_and_width_are_a_global_pool(tmp_path: Path) -> None:
    chain = Chain(1, 6, 5)
    chain.conv((1, 3))
    chain.add("ReduceMean", chain.constant([-1, 2]), keepdims=0)
    chain.gemm(3, 2)
    assert kinds(assert_imports(chain, tmp_path)) == [Conv2d, Pool, Flatten, Dense]


def test_weights_as_constants_and_transposed(tmp_path: Path) -> None:
    chain = Chain(4)
    value = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4) / 12)
    chain.nodes.append(helper.make_node("Constant", [], ["w"], value=value))
    chain.nodes.append(helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]))
    chain.nodes.append(helper.make_node("Identity", ["wt"], ["shared"]))
    chain.add("MatMul", "shared")
    assert_imports(chain, tmp_path)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types(dtype: type, tmp_path: Path) -> None:
    chain = Chain(6)
    chain.inputs = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), [1, 6])]
    weight = np.random.default_rng(1).standard_normal((6, 4)).astype(dtype)
    chain.weights.append(numpy_helper.from_array(weight, "w"))
    chain.add("MatMul", "w")
    model = chain.model()
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_network(path)
    np.testing.assert_array_equal(imported.tensors["dense1.weight"], weight.astype(np.float32))
    assert imported.comparison.passed and imported.comparison.skipped == ""


def test_values_beyond_float32_are_refused(tmp_path: Path) -> None:
    chain = Chain(2)
    chain.weights.append(numpy_helper.from_array(np.full((2, 2), 1e300), "w"))
    chain.add("MatMul", "w")
    with pytest.raises(ModelError, match=r"'dense1\.weight' holds NaN or infinity"):
        import_network(chain.save(tmp_path))


def refused(build) -> Chain:
    """An image of 3x8x8, then a 3x3 convolution to 4 channels, then what `build` adds."""
    chain = Chain(3, 8, 8)
    chain.conv((3, 4), pads=[1] * 4)
    build(chain)
    return chain


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda c: c.conv((4, 4), strides=[2, 2]), r"node 'n1' \(Conv\): strides of \[2, 2\] .* only 1"),
        (lambda c: c.conv((4, 4), dilations=[1, 2]), r"n1' \(Conv\): dilations of \[1, 2\]"),
        (lambda c: c.conv((1, 4), group=4), r"n1' \(Conv\): group 4 is not supported, only 1"),
        (lambda c: c.conv((4, 4), pads=[1, 0, 1, 0]), r"n1' \(Conv\): .*change height and width by different amounts"),
        (lambda c: c.conv((4, 4), pads=[-1, 0, 0, 0]), "pads below 0"),
        (lambda c: c.conv((4, 4), pads=[1 << 40] * 4), "pads up to 1099511627776"),
        (lambda c: c.conv((5, 4)), "takes 5 channels of an image, but what comes before gives an image of 4x8x8"),
        (lambda c: c.conv((4, 4), (9, 9)), "leaves nothing"),
        (lambda c: c.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2]), "windows of 3x3, stride .* only 2x2"),
        (lambda c: c.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2], pads=[1] * 4), "padding is not supported"),
        (lambda c: c.add("AveragePool", kernel_shape=[3, 3], strides=[2, 2]), "only stride = window"),
        (lambda c: c.add("AveragePool", kernel_shape=[3, 3], strides=[3, 3], ceil_mode=1), "padding is not supported"),
        (lambda c: c.add("Resize", c.constant([2.0])), r"node 'n1' \(Resize\): not supported; supported are Conv"),
        (lambda c: c.add("Clip"), r"\(Clip\): not supported"),
        (lambda c: c.add("FancyOp", domain="com.example"), r"\(com.example.FancyOp\): not supported"),
        (lambda c: c.add("Gelu", approximate="tanh"), "approximation by tanh"),
        (lambda c: c.add("Flatten", axis=2), "axis 2 is not supported"),
        (lambda c: c.add("Reshape", c.constant([2, -1])), r"to \[2, 128\] of \[1, 4, 8, 8\] is not supported"),
        (lambda c: c.add("Transpose", perm=[0, 2, 3, 1]), r"n1' \(Transpose\): supported for weights and shapes alone"),
        (lambda c: c.add("Add", c.weight(1, 4, 8, 8)), "adds .*one number for each channel"),
        (lambda c: c.add("Add", first=c.value), "input number 2 is missing"),
        (lambda c: c.add("Gemm", c.weight(4, 2)), "takes 4 features, but .* an image of 4x8x8; put a flatten"),
        (lambda c: c.add("Softmax"), "takes features, but what comes before gives an image"),
        (lambda c: c.add("ReduceMean", c.constant([1])), "over height and width alone"),
        (lambda c: c.batch_norm(5), "for 5 channels, but 4 come in"),
        (lambda c: c.add("BatchNormalization", *(c.constant([-1.0] * 4) for _ in range(4))), "variance .* above zero"),
        (lambda c: c.add("Add", c.value), r"'value0' is read 2 times \(by node 'n1' \(Add\), node 'n1' \(Add\)\)"),
        (lambda c: [c.add("Relu"), c.add("Add", "value0")], r"'value0' is read 2 times \(by node 'n1' \(Relu\), node"),
        (lambda c: c.add("Relu", first="nowhere"), r"n1' \(Relu\): reads 'nowhere', which is given by no node"),
        (lambda c: c.add("Relu", first="value1"), "reads 'value1', which is given by a node after it: .* a cycle"),
        (lambda c: [c.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2], outputs=2), c.add("Relu", first="value1'")],
         "only its first output is supported"),
        (lambda c: None, "ends in an image of 4x8x8"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_name(build, says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says) as error:
        import_network(refused(build).save(tmp_path))
    assert "\n" not in str(error.value) and str(error.value).startswith(str(tmp_path))


def test_the_graph_as_a_whole_must_be_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"

    def says(model: onnx.ModelProto) -> str:
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError) as error:
            import_network(path)
        return str(error.value)

    chain = Chain(4)
    chain.gemm(4, 2)
    assert "output 'elsewhere' is given by no node" in says(chain.model(output="elsewhere"))
    chain.add("Relu")
    assert "'value0' is read 2 times (by node 'n1' (Relu), the output)" in says(chain.model(output="value0"))
    assert "opset 6; 7 or later" in says(chain.model(opset=6))
    two = chain.model()
    two.graph.input.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]))
    assert "one input is needed; it has 2 ('x', 'y')" in says(two)
    free = Chain(3, "height", 8)
    free.conv((3, 4))
    assert "sizes that are not fixed" in says(free.model())
    flat = Chain(3, 8)
    flat.add("Relu")
    assert "has 3 dimensions; supported are 4" in says(flat.model())
    many = Chain(4)
    for _ in range(onnx_file.MAX_NODES + 1):
        many.nodes.append(helper.make_node("Relu", ["x"], ["y"]))
    assert "10001 nodes are too many" in says(many.model())
    twice = Chain(4)
    twice.add("Relu")
    twice.nodes.append(twice.nodes[0])
    assert "'value0' is given a second time" in says(twice.model())


def test_thousands_of_nodes_take_no_time_to_refuse(tmp_path: Path) -> None:
    chain = Chain(3, 8, 8)
    for _ in range(2_000):
        x = chain.value
        chain.add("Div", chain.constant(1.41421356))
        chain.add("Erf")
        plus = chain.add("Add", chain.constant(1.0))
        chain.add("Mul", plus, first=x)
        chain.add("Mul", chain.constant(0.5))
    path = chain.save(tmp_path)
    start = time.process_time()
    with pytest.raises(ModelError, match="has 2000 layers; 1 to 1000 are allowed"):
        import_network(path)
    assert time.process_time() - start < 5


def test_a_diagonal_layer_has_its_limit(tmp_path: Path) -> None:
    chain = Chain(5000)
    chain.add("Relu")
    with pytest.raises(ModelError, match=r"n0' \(Relu\): stands alone, .* 5000 .* at most 4096"):
        import_network(chain.save(tmp_path))


def save_external(folder: Path, location: str = "weights.bin") -> Path:
    """A dense layer whose weight is in a file of its own."""
    chain = Chain(6)
    chain.gemm(6, 4)
    model = chain.model()
    folder.mkdir(exist_ok=True)
    raw = np.random.default_rng(3).standard_normal((4, 6), np.float32).tobytes()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "8"), ("length", str(len(raw)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    (folder / "weights.bin").write_bytes(b"12345678" + raw)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_weights_in_a_file_beside_the_model(tmp_path: Path) -> None:
    imported = import_network(save_external(tmp_path))
    assert imported.comparison.skipped == "" and imported.comparison.passed
    (tmp_path / "weights.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match=r"'weights.bin' is too short"):
        import_network(tmp_path / "m.onnx")


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "", "nowhere.bin", ".", "a\0b"])
def test_weights_are_read_from_nowhere_else(location: str, tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(bytes(1000))
    with pytest.raises(ModelError, match=r"no file beside the model|cannot be read"):
        import_network(save_external(tmp_path / "model", location))


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    path = save_external(tmp_path / "model")
    (tmp_path / "model" / "weights.bin").rename(tmp_path / "secret.bin")
    (tmp_path / "model" / "weights.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match="no file beside the model"):
        import_network(path)


def test_a_tensor_that_claims_more_than_it_has(tmp_path: Path) -> None:
    chain = Chain(6)
    chain.gemm(6, 4)
    path = tmp_path / "m.onnx"
    for dims, says in (
        ([1 << 20, 1 << 20], "too many numbers"),
        ([1 << 10, 1 << 10], "do not fit its shape"),
        ([-1, 6], "no such shape"),
        ([1] * 9, "no such shape"),
    ):
        model = chain.model()
        model.graph.initializer[0].dims[:] = dims
        path.write_bytes(model.SerializeToString())
        with pytest.raises(ModelError, match=says):
            import_network(path)
    model = chain.model()
    model.graph.initializer[0].data_type = TensorProto.STRING
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="type STRING is not supported"):
        import_network(path)


BYTES = vgg(1).model().SerializeToString()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_corrupt_file_is_a_model_error_or_a_network(data: st.DataObject, tmp_path: Path) -> None:
    raw = bytearray(BYTES)
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "m.onnx"
    path.write_bytes(raw[: data.draw(st.integers(0, 2 * len(raw)))])
    try:
        imported = import_network(path)
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert imported.network.layers


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_graph_with_anything_anywhere_is_a_model_error_or_a_network(data: st.DataObject, tmp_path: Path) -> None:
    """Well-formed protobuf, but inputs, attributes and shapes at random: what byte flips seldom reach."""
    model = vgg(1).model()
    nodes = model.graph.node
    names = [name for node in nodes for name in (*node.input, *node.output)]
    for _ in range(data.draw(st.integers(1, 3))):
        node = data.draw(st.sampled_from(list(nodes)))
        what = data.draw(st.sampled_from(["op", "input", "fewer", "attribute", "dims", "type"]))
        weight = data.draw(st.sampled_from(list(model.graph.initializer)))
        if what == "op":
            node.op_type = data.draw(st.sampled_from([other.op_type for other in nodes] + ["Add", "Reshape", "Gather"]))
        elif what == "input" and node.input:
            node.input[data.draw(st.integers(0, len(node.input) - 1))] = data.draw(st.sampled_from([*names, ""]))
        elif what == "fewer" and node.input:
            del node.input[data.draw(st.integers(0, len(node.input) - 1)) :]
        elif what == "attribute":
            name = data.draw(st.sampled_from(["pads", "strides", "kernel_shape", "axis", "transB", "epsilon", "group"]))
            values = [0, -1, 3, 1.5, "text", [1], [0, 0], [2, 2], [1 << 40] * 4, [1, 2, 3, 4]]
            value = data.draw(st.sampled_from(values))
            kept = [entry for entry in node.attribute if entry.name != name]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(name, value)])
        elif what == "dims":
            weight.dims[:] = data.draw(st.permutations(list(weight.dims)))
            weight.dims.extend(data.draw(st.sampled_from([[], [1], [1, 1]])))
        else:
            weight.data_type = data.draw(st.integers(0, 24))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        imported = import_network(path)
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert imported.network.layers


def test_files_that_are_no_model(tmp_path: Path) -> None:
    for name, content, says in (
        ("a.onnx", b"", "not an ONNX file"),
        ("b.onnx", b"not protobuf at all", "not an ONNX file"),
        ("c.pt", b"PK\x03\x04rest", "a pickle, which is a program and never loaded"),
        ("d.pth", b"\x80\x02rest", "safetensors.torch.save_file"),
        ("e.h5", b"\x89HDF", "neither .onnx nor .safetensors"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match=says):
            import_network(tmp_path / name)
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(onnx_file.MAX_FILE_BYTES + 1)  # takes no room on the disk
    with pytest.raises(ModelError, match="2147483649 bytes are too many for an ONNX file"):
        import_network(tmp_path / "huge.onnx")
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(ModelError, match="not a regular file"):
        import_network(tmp_path / "folder.onnx")
    with pytest.raises(ModelError, match="no such file"):
        import_network(tmp_path / "missing.onnx")


def test_without_the_package_onnx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vgg(1).save(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModelError, match=r"needs the package onnx: pip install 'trninfer\[onnx\]'"):
        import_network(path)


def test_without_onnx_runtime_the_check_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vgg(1).save(tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    comparison = import_network(path).comparison
    assert comparison.passed and "ONNX Runtime is not installed" in comparison.skipped


def test_the_check_finds_a_wrong_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = vgg().save(tmp_path)
    right = fold.batch_norm
    monkeypatch.setattr(
        "trninfer.models.importing.onnx_graph.batch_norm",
        lambda *statistics: right(*statistics)._replace(shift=right(*statistics).shift + 0.1),
    )
    comparison = import_network(path).comparison
    assert not comparison.passed and comparison.max_abs_error > comparison.tolerance


def test_a_network_written_as_onnx_is_the_same_network(tmp_path: Path) -> None:
    imported = import_network(vgg().save(tmp_path))
    path = tmp_path / "again.onnx"
    path.write_bytes(onnx_runtime.to_onnx(imported.network, imported.tensors))
    onnx.checker.check_model(str(path))
    again = import_network(path)
    assert again.network.layers == imported.network.layers
    for name, tensor in imported.tensors.items():
        np.testing.assert_array_equal(again.tensors[name], tensor)
