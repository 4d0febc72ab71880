"""`trninfer import`, and classification with the imported network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from safetensors.numpy import save_file
from trninfer.models import Output, load_model
from trninfer.models.importing.labels import imagenet_labels
from trninfer.models.preprocess import open_image, preprocess
from trninfer.runtime import launches

CLASSES = ("cat", "dog", "fish", "ant", "bee")


def write_onnx(path: Path, ending: str = "dense", side: int = 32, blocks: Sequence[int] = (1, 1, 1)) -> Path:
    """Write a narrow VGG network as PyTorch exports one; `ending` is "dense" or "pool"."""
    random = np.random.default_rng(4)
    nodes: list[Any] = []
    weights: list[Any] = []
    value = "pictures"

    def weight(*shape: int) -> str:
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.2
        weights.append(numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32)))
        weights[-1].name = f"w{len(weights)}"
        return weights[-1].name

    def add(op: str, *names: str, **attributes: Any) -> None:
        nonlocal value
        nodes.append(helper.make_node(op, [value, *names], [f"v{len(nodes)}"], f"/{op}_{len(nodes)}", **attributes))
        value = nodes[-1].output[0]

    channels = 3
    for out, count in zip((4, 4, 8, 8, 8), blocks, strict=False):
        for _ in range(count):
            add("Conv", weight(out, channels, 3, 3), weight(out), pads=[1] * 4, kernel_shape=[3, 3])
            add("Relu")
            channels = out
        add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    features = channels * (side // 2 ** len(blocks)) ** 2
    if ending == "pool":
        add("GlobalAveragePool")
        features = channels
    add("Flatten")
    if ending == "dense":
        add("Gemm", weight(16, features), weight(16), transB=1)
        add("Relu")
        add("Dropout")
        features = 16
    add("Gemm", weight(len(CLASSES), features), weight(len(CLASSES)), transB=1)
    graph = helper.make_graph(
        nodes,
        "vgg",
        [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["batch", 3, side, side])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", len(CLASSES)])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(CLASSES) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    random = np.random.default_rng(8)
    for number, size in enumerate([(90, 60), (40, 200), (33, 33), (64, 70)]):
        coarse = Image.fromarray(random.integers(0, 256, (4, 5, 3), np.uint8))
        coarse.resize(size, Image.Resampling.BICUBIC).save(folder / f"{number}.jpg")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "side"), [("dense", 16), pytest.param("pool", 32, marks=pytest.mark.by_hand)])
def test_an_imported_network_answers_as_onnx_runtime_does(
    cli, tmp_path: Path, labels: Path, photos: Path, ending: str, side: int
) -> None:
    source, model = write_onnx(tmp_path / "net.onnx", ending, side), tmp_path / "net.safetensors"
    outcome = cli("import", source, "-o", model, "--labels", labels)
    assert outcome.status == 0 and outcome.err == ""
    assert "checked:  against ONNX Runtime on 16 random inputs, largest difference" in outcome.out
    assert f"wrote:    {model}" in outcome.out and "noted:    its 5 numbers are raw scores of classes" in outcome.out

    report = cli("classify", photos, "--model", model, "--verify", "--format", "json").json()
    assert report["verify"]["passed"] and len(report["predictions"]) == 4
    spec = load_model(model).network.input
    x = np.stack([preprocess(open_image(answer["input"]), spec) for answer in report["predictions"]])
    logits = onnxruntime.InferenceSession(str(source)).run(None, {"pictures": x})[0]
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    for answer, chances in zip(report["predictions"], expected, strict=True):
        assert answer["label"] == CLASSES[chances.argmax()]
        assert answer["probability"] == pytest.approx(chances.max(), abs=1e-5)
    kernels = [layer["kernel"] for layer in report["layers"]]
    # in one launch, or one launch per layer
    assert kernels.count("conv2d") + kernels.count("fused_conv2d_maxpool_packed") == 3
    assert kernels.count("average_pool") == (ending == "pool")


def test_a_state_dict_of_a_perceptron(cli, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    tensors = {
        "fc1.weight": random.standard_normal((9, 6), np.float32),
        "fc1.bias": random.standard_normal(9, np.float32),
        "fc2.weight": random.standard_normal((3, 9), np.float32),
    }
    source, model = tmp_path / "state.safetensors", tmp_path / "model.safetensors"
    save_file(tensors, source)
    outcome = cli("import", source, "-o", model, "--activation", "tanh")
    assert outcome.status == 0 and "PyTorch state dict (perceptron): 3 layers, 93 parameters" in outcome.out
    assert "output:   3 classes, as probabilities, numbered" in outcome.out and "pictures:" not in outcome.out
    assert "checked:  not: a state dict contains only weights" in outcome.out
    x = random.standard_normal((5, 6), np.float32)
    np.save(tmp_path / "x.npy", x)
    report = cli("ffnn", "--data", tmp_path / "x.npy", "--model", model, "--format", "json").json()
    scores = np.tanh(x @ tensors["fc1.weight"].T + tensors["fc1.bias"]) @ tensors["fc2.weight"].T
    assert [answer["class_index"] for answer in report["predictions"]] == scores.argmax(axis=1).tolist()


def test_preprocessing_is_kept_in_the_file(cli, tmp_path: Path) -> None:
    model = tmp_path / "net.safetensors"
    arguments = ("--input-range", "-1,1", "--mean", "0,0,0.5", "--std", "2", "--resize", "40", "--pictures", "photo")
    more = ("--channel-order", "bgr", "--output-kind", "sigmoid", "--filter", "bilinear")
    outcome = cli("import", write_onnx(tmp_path / "net.onnx"), "-o", model, *arguments, *more, "--unchecked")
    assert outcome.status == 0 and "assumed:" not in outcome.out
    spec = load_model(model).network.input
    assert (spec.mean, spec.std, spec.resize) == ((0.5, 0.5, 0.75), (1.0, 1.0, 1.0), 40)
    assert spec.channel_order == "bgr" and load_model(model).network.output == Output("sigmoid")
    outcome = cli("import", tmp_path / "net.onnx", "-o", model, "--unchecked")
    assert len(json.loads(load_model(model).metadata["notes"])) == 1
    notes = json.loads(load_model(model).metadata["assumed"])
    assert len(notes) == 5 and all(note in outcome.out for note in notes)
    assert "pixels are normalised by ImageNet's mean and deviation (--mean, --std, --input-range)" in notes


@pytest.mark.parametrize("order", ["rgb", "bgr"])
def test_opencv_order_is_bgr(cli, tmp_path: Path, order: str) -> None:
    """The network returns the mean of each channel, so the label is the position of the blue channel."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["means"]),
        helper.make_node("Flatten", ["means"], ["scores"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])]
    graph = helper.make_graph(nodes, "means", given, [helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)])
    onnx, model, labels = tmp_path / "means.onnx", tmp_path / "means.safetensors", tmp_path / "labels.txt"
    onnx.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    labels.write_text("first\nsecond\nthird\n", encoding="utf-8")
    assert cli("import", onnx, "-o", model, "--labels", labels, "--channel-order", order).status == 0
    Image.new("RGB", (20, 20), (0, 0, 255)).save(tmp_path / "blue.png")
    (answer,) = cli("classify", tmp_path / "blue.png", "--model", model, "--format", "json").json()["predictions"]
    assert answer["label"] == {"rgb": "third", "bgr": "first"}[order]


def test_a_network_that_batches_compute_wrongly_is_not_written(cli, tmp_path: Path, monkeypatch) -> None:
    onnx, model = write_onnx(tmp_path / "net.onnx", side=8, blocks=(1,)), tmp_path / "net.safetensors"
    monkeypatch.setattr("trninfer.runtime.network_check.PLANNED", ())  # skips batches that no assertion checks
    outcome = cli("import", onnx, "-o", model)
    assert "on the simulator in batches of 1, 3 and 16, largest difference" in outcome.out
    os.unlink(model)
    real = launches.NetworkLaunches.run

    def run(self, backend, data, progress):
        ran = real(self, backend, data, progress)
        return replace(ran, scores=ran.scores[::-1])

    monkeypatch.setattr(launches.NetworkLaunches, "run", run)
    outcome = cli("import", onnx, "-o", model)
    assert outcome.status == 1 and not model.exists()
    assert "incorrectly; nothing was written" in outcome.err and len(outcome.err.splitlines()) == 1
    outcome = cli("import", onnx, "-o", model, "--unchecked")
    assert outcome.status == 0 and "not on the simulator (--unchecked)" in outcome.out and model.exists()


def test_assumptions_are_printed_once_and_then_on_request(cli, tmp_path: Path, photos: Path) -> None:
    model, onnx, page = tmp_path / "net.safetensors", write_onnx(tmp_path / "net.onnx"), tmp_path / "page.html"
    assert "assumed:" in cli("import", onnx, "-o", model).out
    outcome = cli("classify", photos / "0.jpg", "--model", model, "--report", page)
    assert outcome.status == 0 and "bilinear" not in outcome.err + outcome.out
    assert "assumed at trninfer import: pictures are assumed to be photos" in page.read_text()
    shown = " ".join(cli("models", "show", model).out.split())
    assert "(--mean, --std, --input-range)" in shown and "(--resize, --resize-mode)" in shown
    told = ("--pictures", "photo", "--input-range", "0,1", "--resize-mode", "squash", "--filter", "bilinear")
    assert "assumed:" not in cli("import", onnx, "-o", model, *told, "--channel-order", "rgb").out
    assert "(--mean, --std" not in cli("models", "show", model).out


def test_labels_and_pictures_of_files_beside_the_network(cli, tmp_path: Path) -> None:
    onnx, model = write_onnx(tmp_path / "net.onnx"), tmp_path / "net.safetensors"
    (tmp_path / "config.json").write_text(json.dumps({"id2label": dict(enumerate(CLASSES))}))
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": 32, "crop_size": 32, "resample": 3})
    )
    outcome = cli("import", onnx, "-o", model)
    assert outcome.status == 0 and "labels:   cat, dog, fish, ..., from" in outcome.out
    assert "shorter side to 32, center crop to 32x32 (bicubic)" in outcome.out
    assert f"preprocessing and labels were copied from {tmp_path / 'preprocessor_config.json'}" in outcome.out
    assert load_model(model).network.labels == CLASSES
    cli("import", onnx, "-o", model, "--preprocessor", "none")
    assert load_model(model).network.labels == tuple("01234")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.replace(tmp_path / "config.json", elsewhere / "config.json")
    cli("import", onnx, "-o", model, "--preprocessor", elsewhere)
    assert load_model(model).network.labels == CLASSES


def test_labels_are_read_from_a_pipe(tmp_path: Path) -> None:
    onnx, model = write_onnx(tmp_path / "net.onnx"), tmp_path / "net.safetensors"
    command = [sys.executable, "-m", "trninfer", "import", str(onnx), "-o", str(model), "--labels", "-", "--unchecked"]
    subprocess.run(command, input=json.dumps(CLASSES).encode(), check=True, stdout=subprocess.DEVNULL)
    assert load_model(model).network.labels == CLASSES


def test_pictures_of_known_classes_are_counted(cli, tmp_path: Path, labels: Path, photos: Path) -> None:
    onnx, model = write_onnx(tmp_path / "net.onnx"), tmp_path / "net.safetensors"
    table = tmp_path / "expected.csv"
    table.write_text("".join(f"{number}.jpg,{CLASSES[number]}\n" for number in range(4)) + "gone.jpg,cat\n")
    (photos / "broken.jpg").write_bytes(b"x")
    outcome = cli("import", onnx, "-o", model, "--labels", labels, "--check-pictures", photos, "--expect", table)
    assert outcome.status == 0 and model.exists()
    lines = outcome.out.split("accuracy: ")[1].splitlines()
    assert lines[0].startswith("as imported: ") and lines[0].endswith(" of 4 correct")
    assert [line.split(":")[0].strip() for line in lines[1:6]] == [
        "0 to 1", "-1 to 1", "0 to 255", "colours as bgr", "squashed",
    ]  # fmt: skip
    assert "broken.jpg" in outcome.err


def test_digits_dark_on_light_and_the_names_of_imagenet(cli, tmp_path: Path) -> None:
    model = tmp_path / "net.safetensors"
    outcome = cli("import", write_onnx(tmp_path / "net.onnx"), "-o", model, "--pictures", "digit", "--invert")
    assert outcome.status == 0 and "the digit is located and centred in 32x32" in outcome.out
    spec = load_model(model).network.input
    assert (spec.preprocess, spec.mean, spec.std) == ("digit", (1.0,) * 3, (-1.0,) * 3)
    outcome = cli("import", tmp_path / "net.onnx", "-o", model, "--labels", "imagenet")
    assert outcome.status == 2 and "outputs 5 features, but has 1000 labels" in outcome.err
    names = imagenet_labels()
    assert len(names) == 1000 and (names[0], names[281], names[999]) == ("tench", "tabby", "toilet tissue")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("net.onnx",), "--output"),
        (("missing.onnx", "-o", "m.safetensors"), "missing.onnx: no such file"),
        (("net.onnx", "-o", "."), "is a folder"),
        (("net.onnx", "-o", "nowhere/m.safetensors"), "does not exist"),
        (("net.onnx", "-o", "net.onnx"), "--output net.onnx: this file is read as input; use another name"),
        (("net.onnx", "-o", "pipe"), "not a regular file"),
        (("net.onnx", "-o", "m", "--input-range", "1"), "--input-range 1: expected two numbers"),
        (("net.onnx", "-o", "m", "--input-range", "1,1"), "the input range 1,1 is empty"),
        (("net.onnx", "-o", "m", "--input-size", "12"), "--input-size 12: expected height and width"),
        (("net.onnx", "-o", "m", "--input-size", "12x12"), "is fixed at 32, not 12; omit --input-size"),
        (("net.onnx", "-o", "m", "--output-name", "v"), "the graph has no value 'v'"),
        (("net.onnx", "-o", "m", "--std", "0"), "no value may be 0"),
        (("net.onnx", "-o", "m", "--mean", "a"), "--mean a: expected numbers"),
        (("net.onnx", "-o", "m", "--mean", "1_0"), "--mean 1_0: expected numbers"),
        (("net.onnx", "-o", "m", "--std", "\u0661"), "expected numbers separated by commas"),
        (("net.onnx", "-o", "m", "--mean", "nan"), "expected finite numbers"),
        (("net.onnx", "-o", "m", "--std", "1,2"), "std has 2 values"),
        (("net.onnx", "-o", "m", "--labels", "missing.txt"), "--labels missing.txt: no such file"),
        (("net.onnx", "-o", "m", "--labels", "pipe"), "--labels pipe: contains no labels"),
        (("net.onnx", "-o", "m", "--labels", "/dev/null"), "--labels /dev/null: neither a regular file nor a pipe"),
        (("net.onnx", "-o", "m", "--preprocessor", "missing"), "missing: no such file"),
        (("net.onnx", "-o", "m", "--expect", "three.txt"), "--expect requires --check-pictures DIR"),
        (("net.onnx", "-o", "m", "--check-pictures", "missing"), "no picture of a known class"),
        (("net.onnx", "-o", "m", "--resize-mode", "pad", "--resize", "40"), "omit --resize"),
        (
            ("net.onnx", "-o", "m", "--pictures", "digit", "--filter", "nearest"),
            "apply only to photos, not to pictures of",
        ),
        (("pipe", "-o", "m"), "pipe: not a regular file"),
        (("net.onnx", "-o", "m", "--labels", "three.txt"), "outputs 5 features, but has 3 labels"),
        (("net.onnx", "-o", "m", "--labels", "gap.txt"), "gap.txt: line 2 is empty"),
        (("net.onnx", "-o", "m", "--labels", "control.txt"), "control.txt: line 1 is not printable"),
        (("net.onnx", "-o", "m", "--labels", "net.onnx"), "not a UTF-8 text file"),
        (("broken.onnx", "-o", "m"), "broken.onnx: not an ONNX file"),
        (("weights.pt", "-o", "m"), "a pickle, which is never loaded because it can run code"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(cli, tmp_path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    write_onnx(Path("net.onnx"))
    os.mkfifo("pipe")
    Path("three.txt").write_text("a\nb\nc\n", encoding="utf-8")
    Path("gap.txt").write_text("a\n\nc\nd\ne\n", encoding="utf-8")
    Path("control.txt").write_text("a\x1b[2J\nb\nc\nd\ne\n", encoding="utf-8")
    Path("broken.onnx").write_bytes(b"nothing of the kind")
    Path("weights.pt").write_bytes(b"PK\x03\x04")
    before = sorted(os.listdir())
    outcome = cli("import", *arguments)
    assert outcome.status == 2 and outcome.out == "" and message in outcome.err
    first, *more = outcome.err.splitlines()
    assert first.startswith("trninfer: ") and all(line.startswith("  ") for line in more)
    assert sorted(os.listdir()) == before


def test_missing_onnx_is_reported_with_the_extra_to_install(cli, tmp_path: Path, monkeypatch) -> None:
    source = write_onnx(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    outcome = cli("import", source, "-o", tmp_path / "m.safetensors")
    assert outcome.status == 2 and "pip install 'trninfer[onnx]'" in outcome.err


def test_import_without_onnx_runtime_reports_that_it_was_not_checked(cli, tmp_path: Path, monkeypatch) -> None:
    source = write_onnx(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    outcome = cli("import", source, "-o", tmp_path / "m.safetensors")
    assert outcome.status == 0 and "checked:  not: ONNX Runtime is not installed" in outcome.out


def test_an_import_that_differs_is_not_written(cli, tmp_path: Path, monkeypatch) -> None:
    source, model = write_onnx(tmp_path / "net.onnx"), tmp_path / "m.safetensors"
    monkeypatch.setattr("trninfer.models.layers.conv2d.activate", lambda x, *activation: x)  # no relu anywhere
    outcome = cli("import", source, "-o", model)
    assert outcome.status == 1 and "differs from ONNX Runtime; nothing was written" in outcome.err
    assert outcome.out == "" and not model.exists()
