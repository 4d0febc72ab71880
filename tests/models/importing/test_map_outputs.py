"""Class maps recognised on import, compared with ONNX Runtime's scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_chain import Chain, checked
from trninfer.models.errors import ModelError
from trninfer.models.files import Model
from trninfer.models.importing import Imported, ImportOptions, PreprocessingOptions, import_network
from trninfer.models.layers import PixelArgmax
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend

pytestmark = pytest.mark.usefixtures("first_plans")


def write(path: Path, channels: int, ending: list[Any], image: tuple[int, int] = (12, 16), stride: int = 1) -> Path:
    """Write a convolution of a picture to `channels` channels, "scores", and the nodes of `ending`, the last of which
    computes "y"."""
    rng = np.random.default_rng(channels)
    weight = rng.standard_normal((channels, 3, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(channels).astype(np.float32)
    conv = helper.make_node("Conv", ["x", "w", "b"], ["scores"], pads=[1, 1, 1, 1], strides=[stride, stride])
    graph = helper.make_graph(
        [conv, *(ending or [helper.make_node("Identity", ["scores"], ["y"])])],
        "map",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, *image))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def read(path: Path, kind: str | None = None) -> Imported:
    return import_network(path, PreprocessingOptions(), None, ImportOptions(output_kind=kind))


def check(path: Path, imported: Imported, dtype: str = "float32") -> None:
    """Compare classes with those of ONNX Runtime's scores; in 16 bits, near-ties may differ."""
    x = np.random.default_rng(0).standard_normal((3, *imported.network.input.shape)).astype(np.float32)
    running = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    scores = np.concatenate([running.run(["y"], {"x": part[None]})[0] for part in x])
    model = Model(imported.network, dict(imported.tensors), {})
    found = Session(model, SimulatedBackend("trn2"), dtype).run(x).probabilities
    best = scores.argmax(1).reshape(3, -1)
    same = (found == best).mean()
    assert same == 1 if dtype == "float32" else same > 0.9


def node(op: str, source: str = "scores", target: str = "y", **attributes: Any) -> Any:
    return helper.make_node(op, [source], [target], **attributes)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scores_of_classes_by_rows_by_columns_are_a_map(tmp_path: Path, dtype: str) -> None:
    imported = read(write(tmp_path / "net.onnx", 5, []))
    network = imported.network
    assert (network.output.kind, network.output_shape, network.labels) == ("map", (12, 16), ("0", "1", "2", "3", "4"))
    assert isinstance(network.layers[-1], PixelArgmax) and imported.comparison.passed
    assert (
        "the output of 5x12x16 is read as a class map (use --output-kind values for the raw numbers)" in imported.notes
    )
    assert network.input.resize_mode == "squash"  # type: ignore[union-attr]
    check(tmp_path / "net.onnx", imported, dtype)


def test_coarse_scores_are_a_map_and_still_coarser_ones_are_features(tmp_path: Path) -> None:
    fine = read(write(tmp_path / "fine.onnx", 4, [], (16, 32), stride=4))
    assert (fine.network.output.kind, fine.network.output_shape) == ("map", (4, 8))
    coarse = read(write(tmp_path / "coarse.onnx", 4, [], (64, 64), stride=16))
    assert coarse.network.output.kind == "values"


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_a_softmax_over_classes_changes_nothing(tmp_path: Path, op: str) -> None:
    imported = read(write(tmp_path / "net.onnx", 4, [node(op, axis=1)]))
    assert imported.network.output.kind == "map" and imported.comparison.passed
    assert [layer.kind for layer in imported.network.layers] == ["conv2d", "pixel_argmax"]
    check(tmp_path / "net.onnx", imported)


def test_classes_behind_rows_and_columns(tmp_path: Path) -> None:
    imported = read(write(tmp_path / "net.onnx", 6, [node("Transpose", perm=[0, 2, 3, 1])]))
    assert (imported.network.output.kind, imported.network.output_shape) == ("map", (12, 16))
    assert imported.comparison.passed and not imported.comparison.skipped


@pytest.mark.parametrize("channels", [2, 9])
def test_an_argmax_at_the_end_is_found_on_the_chip(tmp_path: Path, channels: int) -> None:
    last = node("ArgMax", axis=1)
    before = node("ArgMax", target="i", axis=1)
    axes = helper.make_node("Constant", [], ["axes"], value_ints=[1])
    squeeze = helper.make_node("Squeeze", ["i", "axes"], ["j"])
    endings = {
        "last": ([last], TensorProto.INT64),
        "float": ([before, node("Cast", "i", to=1)], TensorProto.FLOAT),
        "byte": ([before, node("Cast", "i", to=2)], TensorProto.UINT8),
        "squeezed": ([before, axes, squeeze, node("Cast", "j", to=6)], TensorProto.INT32),
    }
    for name, (ending, dtype) in endings.items():
        path = write(tmp_path / f"{name}.onnx", channels, ending)
        graph = onnx.load(path)
        graph.graph.output[0].type.tensor_type.elem_type = dtype
        onnx.save(graph, path)
        assert read(path).network.output.kind == "map", name


def test_pictures_features_and_single_channels_are_values(tmp_path: Path) -> None:
    for name, channels, ending in (("picture", 3, []), ("features", 8, [node("Relu")]), ("depth", 1, [])):
        assert read(write(tmp_path / f"{name}.onnx", channels, ending)).network.output.kind == "values", name
    assert read(write(tmp_path / "asked.onnx", 3, []), "map").network.output.kind == "map"
    assert read(write(tmp_path / "asked.onnx", 5, []), "values").network.output.kind == "values"


@pytest.mark.parametrize("name", ["heatmaps", "feature_maps.0", "last_hidden_state"])
def test_names_state_that_maps_are_not_scores(name: str, tmp_path: Path) -> None:
    """As Hugging Face names the outputs of pose estimators and backbones."""
    path = write(tmp_path / "net.onnx", 5, [node("Identity", target=name)])
    graph = onnx.load(path)
    graph.graph.output[0].name = name
    onnx.save(graph, path)
    assert read(path).network.output.kind == "values"
    assert read(path, "map").network.output.kind == "map"


@pytest.mark.parametrize("ending", [[], [node("Sigmoid")]], ids=["scores", "probabilities"])
def test_a_binary_mask_is_a_map_of_two_classes_if_asked_for(tmp_path: Path, ending: list[Any]) -> None:
    path = write(tmp_path / "net.onnx", 1, ending)
    imported = read(path, "map")
    assert imported.network.labels == ("0", "1") and imported.comparison.passed
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 16)).astype(np.float32)
    y = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(["y"], {"x": x})[0]
    found = Session(Model(imported.network, dict(imported.tensors), {}), SimulatedBackend("trn2")).run(x).probabilities
    np.testing.assert_array_equal(found[0].reshape(12, 16), y[0, 0] > (0.5 if ending else 0))


def test_output_that_is_not_an_image_is_not_a_map(tmp_path: Path) -> None:
    path = write(tmp_path / "net.onnx", 4, [node("GlobalAveragePool", target="p"), node("Flatten", "p")])
    with pytest.raises(
        ModelError, match=r"a class map requires scores of shape .classes, rows, columns., but the output 'y' has"
    ):
        read(path, "map")


@pytest.mark.parametrize("is_finest_whole", [False, True])
def test_outputs_of_several_sizes(tmp_path: Path, is_finest_whole: bool) -> None:
    """The levels of a detector are not maps, unlike scores at the size of the image with coarser ones beside them."""
    chain = Chain(3, 32, 32)
    source, outputs = "x", []
    for step in (1 if is_finest_whole else 4, 2):
        chain.value = source
        chain.add("Conv", chain.weight(4, 3 if source == "x" else 4, 3, 3), pads=[1] * 4, strides=[step] * 2)
        source = chain.add("Relu")
        chain.conv((4, 7), (1, 1))
        outputs.append(chain.value)
    imported = checked(chain.model(outputs=outputs), tmp_path)
    assert imported.network.output.kind == ("map" if is_finest_whole else "values")
    assert any("levels of a detector" in note for note in imported.notes) != is_finest_whole


@pytest.mark.parametrize(("channels", "op", "named"), [(1, "Sigmoid", "values"), (3, "Identity", "a picture")])
def test_possible_map_is_noted(tmp_path: Path, channels: int, op: str, named: str) -> None:
    imported = read(write(tmp_path / "net.onnx", channels, [node(op)]))
    assert imported.network.output.kind == "values"
    assert any(f"is read as {named} (use --output-kind map" in note for note in imported.notes)
    assert read(tmp_path / "net.onnx", "map").network.output.kind == "map"
