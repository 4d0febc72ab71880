"""State dicts as networks: VGGs with the names of torchvision and timm, and perceptrons, compared with ONNX Runtime."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file
from trninfer.models import (
    Conv2d,
    Dense,
    FeatureInput,
    Flatten,
    ModelError,
    Softmax,
    load_model,
    run_network,
    save_model,
)
from trninfer.models.importing import ImportOptions, PreprocessingOptions, import_network
from trninfer.models.inputs import ImageInput
from trninfer.models.outputs import Output

Tensors = dict[str, np.ndarray]

BLOCKS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}


def vgg(name: str, normalized: bool, side: int = 1, width: int = 2, classes: int = 5, seed: int = 0) -> Tensors:
    """Return a narrow VGG with torchvision's names; its last image is `side` x `side`."""
    random = np.random.default_rng(seed)
    tensors: Tensors = {}

    def draw(module: str, *shape: int) -> None:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        tensors[f"{module}.weight"] = (random.standard_normal(shape) * scale).astype(np.float32)
        tensors[f"{module}.bias"] = (random.standard_normal(shape[0]) * 0.3).astype(np.float32)

    position, channels = 0, 3
    for block, count in enumerate(BLOCKS[name]):
        for _ in range(count):
            out = width * min(2**block, 4)
            draw(f"features.{position}", out, channels, 3, 3)
            position += 1
            if normalized:
                draw(f"features.{position}", out, 1)
                tensors[f"features.{position}.weight"] = random.uniform(0.5, 1.5, out).astype(np.float32)
                tensors[f"features.{position}.running_mean"] = random.standard_normal(out).astype(np.float32)
                tensors[f"features.{position}.running_var"] = random.uniform(0.3, 2, out).astype(np.float32)
                tensors[f"features.{position}.num_batches_tracked"] = np.array(7, np.int64)
                position += 1
            position += 1  # the activation
            channels = out
        position += 1  # the pool
    draw("classifier.0", 12, channels * side * side)
    draw("classifier.3", 11, 12)
    draw("classifier.6", classes, 11)
    return tensors


def as_timm(tensors: Tensors, side: int) -> Tensors:
    """Return the same network with timm's names, in which the dense layers are convolutions."""
    names = {"classifier.0": "pre_logits.fc1", "classifier.3": "pre_logits.fc2", "classifier.6": "head.fc"}
    renamed: Tensors = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if part == "weight" and module == "classifier.0":
            tensor = tensor.reshape(len(tensor), -1, side, side)
        if part == "weight" and module == "classifier.3":
            tensor = tensor[:, :, None, None]
        renamed[f"{names.get(module, module)}.{part}"] = np.ascontiguousarray(tensor)
    return renamed


def reference(name: str, tensors: Tensors, x: np.ndarray) -> np.ndarray:
    """Return probabilities from ONNX Runtime for the network as published, without folding batch normalization."""
    nodes: list[Any] = []
    value = "x"

    def add(op: str, *weights: str, **attributes: Any) -> None:
        nonlocal value
        nodes.append(helper.make_node(op, [value, *weights], [f"v{len(nodes)}"], **attributes))
        value = nodes[-1].output[0]

    position = 0
    for count in BLOCKS[name]:
        for _ in range(count):
            add("Conv", f"features.{position}.weight", f"features.{position}.bias", pads=[1] * 4)
            position += 1
            if f"features.{position}.running_var" in tensors:
                parts = ("weight", "bias", "running_mean", "running_var")
                add("BatchNormalization", *(f"features.{position}.{part}" for part in parts), epsilon=1e-5)
                position += 1
            add("Relu")
            position += 1
        add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
        position += 1
    add("Flatten")
    for module in ("classifier.0", "classifier.3", "classifier.6"):
        add("Gemm", f"{module}.weight", f"{module}.bias", transB=1)
        if module != "classifier.6":
            add("Relu")
    add("Softmax")
    floats = {key: tensor for key, tensor in tensors.items() if tensor.dtype == np.float32}
    graph = helper.make_graph(
        nodes,
        "vgg",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(tensor, key) for key, tensor in floats.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return np.asarray(onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0])


def save(tensors: Tensors, folder: Path) -> Path:
    path = folder / "state.safetensors"
    save_file(tensors, path)
    return path


@pytest.mark.parametrize("timm", [False, True], ids=["torchvision", "timm"])
@pytest.mark.parametrize("normalized", [False, True], ids=["plain", "bn"])
@pytest.mark.parametrize("name", list(BLOCKS))
def test_a_vgg(name: str, normalized: bool, timm: bool, tmp_path: Path) -> None:
    tensors = vgg(name, normalized, side=2)
    imported = import_network(save(as_timm(tensors, 2) if timm else tensors, tmp_path))
    network = imported.network
    assert network.name == name + ("_bn" if normalized else "")
    convolutions = [layer for layer in network.layers if isinstance(layer, Conv2d)]
    assert len(convolutions) == sum(BLOCKS[name]) and {layer.activation for layer in convolutions} == {"relu"}
    assert [type(layer) for layer in network.layers[-5:]] == [Flatten, Dense, Dense, Dense, Softmax]
    assert "only weights, so there is no reference to compare" in imported.comparison.skipped
    x = np.random.default_rng(5).standard_normal((2, 3, 64, 64), np.float32)
    run = run_network(network, imported.tensors, x)
    np.testing.assert_allclose(run.probabilities, reference(name, tensors, x), rtol=1e-3, atol=1e-5)


def test_a_vgg_of_the_real_proportions_reads_224_pixels_as_torchvision_does(tmp_path: Path) -> None:
    source = import_network(save(vgg("vgg11", False, side=7), tmp_path)).network.input
    assert source == ImageInput(3, 224, 224, "photo", (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 256)


def test_one_dense_layer_and_half_precision(tmp_path: Path) -> None:
    """As in networks for small images; bfloat16 is read without conversion."""
    tensors = vgg("vgg16", True)
    for name in [name for name in tensors if name.startswith("classifier")]:
        del tensors[name]
    random = np.random.default_rng(2)
    tensors["classifier.weight"] = random.standard_normal((4, 8), np.float32)
    tensors["classifier.bias"] = np.ones(4, np.float32)
    half = {key: value.astype(ml_dtypes.bfloat16) for key, value in tensors.items() if value.dtype == np.float32}
    imported = import_network(save(half, tmp_path))
    assert imported.network.input.shape == (3, 32, 32) and len(imported.network.labels) == 4
    np.testing.assert_array_equal(imported.tensors["dense1.weight"], half["classifier.weight"].astype(np.float32).T)


def perceptron(*sizes: int, stem: str = "fc", seed: int = 0) -> Tensors:
    random = np.random.default_rng(seed)
    tensors: Tensors = {}
    for number in range(1, len(sizes)):
        shape = (sizes[number], sizes[number - 1])
        tensors[f"{stem}{number}.weight"] = random.standard_normal(shape, np.float32) * 0.3
        tensors[f"{stem}{number}.bias"] = random.standard_normal(shape[0], np.float32)
    return tensors


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(2, 12), min_size=2, max_size=14),
    stem=st.sampled_from(["fc", "linear", "layers.", "net.layer"]),
    activation=st.sampled_from(["identity", "relu", "tanh", "sigmoid"]),
)
def test_a_perceptron(sizes: list[int], stem: str, activation: str, tmp_path: Path) -> None:
    tensors = perceptron(*sizes, stem=stem)
    imported = import_network(save(tensors, tmp_path), options=ImportOptions(activation=activation))
    assert imported.network.input == FeatureInput(sizes[0]) and len(imported.network.labels) == sizes[-1]
    x = np.random.default_rng(1).standard_normal((3, sizes[0]), np.float32)
    values = x.astype(np.float64)
    functions = {
        "identity": lambda v: v,
        "relu": lambda v: np.maximum(v, 0),
        "tanh": np.tanh,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    }
    for number in range(1, len(sizes)):
        values = values @ tensors[f"{stem}{number}.weight"].T + tensors[f"{stem}{number}.bias"]
        values = values if number == len(sizes) - 1 else functions[activation](values)
    exponents = np.exp(values - values.max(axis=1, keepdims=True))
    expected = exponents / exponents.sum(axis=1, keepdims=True)
    run = run_network(imported.network, imported.tensors, x)
    np.testing.assert_allclose(run.probabilities, expected, rtol=1e-4, atol=1e-6)
    assert imported.comparison.passed


def test_layers_without_numbers_are_ordered_by_their_shapes(tmp_path: Path) -> None:
    tensors = perceptron(7, 5, 4, 3)
    names = {"fc1": "input", "fc2": "between", "fc3": "a_head"}
    renamed = {f"{names[name.split('.')[0]]}.{name.split('.')[1]}": value for name, value in tensors.items()}
    relu = ImportOptions(activation="relu")
    imported = import_network(save(renamed, tmp_path), options=relu)
    np.testing.assert_array_equal(imported.tensors["dense3.weight"], tensors["fc3.weight"].T)
    del renamed["a_head.bias"]
    assert not import_network(save(renamed, tmp_path), options=relu).tensors["dense3.bias"].any()


def test_an_activation_is_reported_or_found_and_never_assumed(tmp_path: Path) -> None:
    tensors = perceptron(7, 5, 3)
    with pytest.raises(ModelError, match=r"between its 2 layers: set it with --activation \(identity, relu"):
        import_network(save(tensors, tmp_path))
    with pytest.raises(ModelError, match="not 'swish'; set it with --activation"):
        import_network(save(tensors, tmp_path), options=ImportOptions(activation="swish"))
    save_file(tensors, tmp_path / "told.safetensors", {"activation": "tanh"})
    layers = import_network(tmp_path / "told.safetensors").network.layers
    assert [getattr(layer, "activation", "") for layer in layers] == ["tanh", "identity", ""]
    one = import_network(save(perceptron(7, 1), tmp_path)).network
    assert one.output == Output("values") and one.labels == ()


def changed(change) -> Tensors:
    tensors = vgg("vgg11", True)
    change(tensors)
    return tensors


def moved(tensors: Tensors, old: int, new: int) -> None:
    for name in [name for name in tensors if name.startswith(f"features.{old}.")]:
        tensors[name.replace(str(old), str(new))] = tensors.pop(name)


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        (changed(lambda t: t.pop("features.1.running_var")), "tensor 'features.1.running_var' of a VGG is missing"),
        (changed(lambda t: t.pop("classifier.3.bias")), "tensor 'classifier.3.bias' of a VGG is missing"),
        (changed(lambda t: t.update({"extra.weight": np.ones(3, np.float32)})), "'extra.weight' [3] does not belong"),
        (changed(lambda t: [t.pop(n) for n in list(t) if n.startswith("classifier")]), "dense layers are missing"),
        (changed(lambda t: [moved(t, 25, 26), moved(t, 26, 27)]), "are not numbered as in a VGG"),
        (changed(lambda t: t.update({"features.0.weight": np.ones((2, 3, 5, 5), np.float32)})), "not 3x3"),
        (changed(lambda t: t.update({"features.1.bias": np.ones(3, np.float32)})), "have different lengths"),
        (changed(lambda t: t.update({"classifier.0.weight": np.ones((12, 9), np.float32)})), "not a square image"),
        (changed(lambda t: t.update({"classifier.3.weight": np.ones((11, 13), np.float32)})), "expects 13 features"),
        (changed(lambda t: t.update({"classifier.3.weight": np.ones(11, np.float32)})), "expects 1 features"),
        (changed(lambda t: t.update({"features.0.bias": np.full(2, np.nan, np.float32)})), "NaN or infinity"),
        (changed(lambda t: t.update({"features.0.bias": np.ones(2, np.int32)})), "is of type 'I32'"),
        (
            {"conv1.weight": np.ones((2, 3, 3, 3), np.float32)},
            "does not belong to a known network; supported are networks of",
        ),
        ({"a.weight": np.ones((4, 4), np.float32), "b.weight": np.ones((4, 4), np.float32)}, "order of its layers"),
        ({"fc1.weight": np.ones((4, 3), np.float32), "fc2.weight": np.ones((2, 5), np.float32)}, "order of its layers"),
        ({"fc1.bias": np.ones(4, np.float32)}, "'fc1.bias' [4] does not belong to a multilayer perceptron"),
        ({"fc1.weight": np.ones((0, 3), np.float32)}, "of shape [0, 3] does not belong to a known network"),
        (
            {"fc1.weight": np.ones((2, 3), np.float32), "fc1.bias": np.ones(3, np.float32)},
            "its bias has shape [3]",
        ),
        ({}, "it has no weights"),
    ],
)
def test_unknown_network_is_refused_by_name(tensors: Tensors, says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=re.escape(says)) as error:
        import_network(save(tensors, tmp_path))
    assert "\n" not in str(error.value) and str(error.value).startswith(str(tmp_path))


def test_a_file_that_is_a_model_already(tmp_path: Path) -> None:
    model = load_model("digits-ffnn")
    save_model(tmp_path / "m.safetensors", model.network, model.tensors)
    with pytest.raises(ModelError, match="already a trninfer model"):
        import_network(tmp_path / "m.safetensors")


STATE = vgg("vgg11", True, width=1)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_shapes_and_names_are_a_model_error_or_a_network(data: st.DataObject, tmp_path: Path) -> None:
    tensors = dict(STATE)
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(tensors)))
        if data.draw(st.booleans()):
            shape = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 12]), max_size=5))
            tensors[name] = np.ones(shape, np.float32)
        else:
            names = [*STATE, "fc1.weight", "features.99999.weight", "weight"]
            tensors[data.draw(st.sampled_from(names))] = tensors[name]
    try:
        network = import_network(save(tensors, tmp_path)).network
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert network.layers


@pytest.mark.parametrize(
    ("options", "mean", "std", "resize"),
    [
        (PreprocessingOptions(), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 64),
        (PreprocessingOptions(input_range=(-1, 1)), (0.5,) * 3, (0.5,) * 3, 64),
        (PreprocessingOptions((0, 255), (123.675, 116.28, 103.53)), (0.485, 0.456, 0.406), (1 / 255,) * 3, 64),
        (PreprocessingOptions(mean=(0.5,), std=(0.25,), resize=70), (0.5,) * 3, (0.25,) * 3, 70),
        (PreprocessingOptions(input_range=(0, 1), invert=True), (1.0,) * 3, (-1.0,) * 3, 64),
        (PreprocessingOptions((1, -1), (0.5,), (-2.0,)), (0.25,) * 3, (1.0,) * 3, 64),
    ],
)
def test_preprocessing_that_is_reported(
    options: PreprocessingOptions, mean: tuple, std: tuple, resize: int, tmp_path: Path
) -> None:
    source = import_network(save(vgg("vgg11", False, side=2), tmp_path), options).network.input
    assert isinstance(source, ImageInput)
    np.testing.assert_allclose(source.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(source.std, std, rtol=1e-12)
    assert source.resize == resize


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (PreprocessingOptions(input_range=(1, 1)), "input range 1,1 is empty"),
        (PreprocessingOptions(mean=(1, 2)), "mean has 2 values; expected one, or one for each of 3 channels"),
        (PreprocessingOptions(std=(0.0,)), "no value may be 0"),
        (PreprocessingOptions(resize=10), "resize is 10; 64 to"),
    ],
)
def test_preprocessing_that_cannot_be(options: PreprocessingOptions, says: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says):
        import_network(save(vgg("vgg11", False, side=2), tmp_path), options)
    with pytest.raises(ModelError, match="reads 7 features; options for the preprocessing"):
        import_network(save(perceptron(7, 3), tmp_path), options)
