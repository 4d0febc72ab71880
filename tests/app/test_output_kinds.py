"""Kinds of answers, determined by the network's output, in every format, and read back by --resume."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from trninfer.models import Dense, FeatureInput, Network, Output, Softmax, save_model
from trninfer.models.golden import run_network
from trninfer.models.inputs import ImageInput
from trninfer.models.layers import Conv2d, Flatten

ROWS = np.random.default_rng(0).standard_normal((7, 4)).astype(np.float32)


def save(folder: Path, output: Output, outputs: int = 3, activation: str = "identity", softmax: str = "") -> Path:
    layers: list = [Dense("dense", 4, outputs, activation)]
    if softmax:
        layers.append(Softmax("softmax", softmax == "log"))
    labels = () if output.kind == "values" or outputs == 1 else tuple("abc")
    network = Network("net", FeatureInput(4), tuple(layers), labels, output)
    random = np.random.default_rng(3)
    tensors = {name: random.standard_normal(shape, np.float32) for name, shape in network.tensor_shapes().items()}
    save_model(folder / "net.safetensors", network, tensors)
    np.save(folder / "rows.npy", ROWS)
    np.save(folder / "expected.npy", run_network(network, tensors, ROWS).scores)
    return folder / "net.safetensors"


def run(cli, folder: Path, model: Path, *more: object):
    return cli("ffnn", "--data", folder / "rows.npy", "--model", model, *more)


@pytest.mark.parametrize(
    ("output", "activation", "softmax", "probabilities"),
    [
        (Output("classes", "raw"), "identity", "", lambda s: np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)),
        (Output("classes", "softmax"), "identity", "plain", lambda s: s),
        (Output("classes", "log_softmax"), "identity", "log", np.exp),
        (Output("sigmoid"), "sigmoid", "", lambda s: s),
    ],
)
def test_probabilities_follow_from_what_the_last_layer_gives(
    cli, tmp_path: Path, output: Output, activation: str, softmax: str, probabilities
) -> None:
    model = save(tmp_path, output, 3, activation, softmax)
    report = run(cli, tmp_path, model, "--format", "json", "--verify").json()
    expected = probabilities(np.load(tmp_path / "expected.npy").astype(np.float64))
    assert report["verify"]["passed"]
    for answer, row in zip(report["predictions"], expected, strict=True):
        assert answer["class_index"] == row.argmax() and answer["label"] == "abc"[row.argmax()]
        found = {chance["class_index"]: chance["probability"] for chance in answer["top"]}
        assert [found[index] for index in range(3)] == pytest.approx(row.tolist(), abs=1e-5)
        assert answer["values"] is None


@pytest.mark.parametrize(("output", "outputs"), [(Output("values"), 3), (Output("values"), 1), (Output("sigmoid"), 1)])
def test_values_are_reported_as_they_are(cli, tmp_path: Path, output: Output, outputs: int) -> None:
    model = save(tmp_path, output, outputs, "sigmoid" if output.kind == "sigmoid" else "identity")
    expected = np.load(tmp_path / "expected.npy")
    report = run(cli, tmp_path, model, "--format", "json", "--verify").json()
    assert report["verify"]["passed"] and report["verify"]["disagreements"] == 0
    for answer, row in zip(report["predictions"], expected, strict=True):
        assert (answer["label"], answer["class_index"], answer["probability"], answer["top"]) == (None, None, None, [])
        assert answer["values"] == pytest.approx(row.tolist(), abs=1e-5)
    lines = list(csv.DictReader(io.StringIO(run(cli, tmp_path, model, "--format", "csv").out)))
    assert [float(word) for word in lines[2]["label"].split()] == pytest.approx(expected[2].tolist(), abs=1e-5)
    assert lines[2]["class_index"] == lines[2]["probability"] == ""
    table = run(cli, tmp_path, model).out
    assert "values" in table and "probability" not in table and "1.0000" not in table.split("layer")[0]
    outcome = run(cli, tmp_path, model, "--top-k", 1)
    assert outcome.status == 2 and "this model outputs values, so there are no classes to rank" in outcome.err


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_values_are_read_back(cli, tmp_path: Path, form: str) -> None:
    model, target = save(tmp_path, Output("values")), tmp_path / f"answers.{form}"
    assert run(cli, tmp_path, model, "--format", form, "--output", target).status == 0
    whole = [line for line in target.read_text().splitlines() if "summary" not in line and '"layer"' not in line]
    target.write_text("\n".join(whole[:4]) + "\n")
    assert run(cli, tmp_path, model, "--format", form, "--output", target, "--resume").status == 0
    again = [line for line in target.read_text().splitlines() if "summary" not in line and '"layer"' not in line]
    assert again[: len(whole)] == whole


def test_a_picture_network_takes_arrays(cli, tmp_path: Path) -> None:
    source = ImageInput(2, 3, 4, "none", (0.0,) * 2, (1.0,) * 2, layout="HWC")
    layers = (Conv2d("conv", 2, 3, (3, 4)), Flatten("flatten"))
    network = Network("net", source, layers, tuple("abc"))
    random = np.random.default_rng(1)
    tensors = {name: random.standard_normal(shape, np.float32) for name, shape in network.tensor_shapes().items()}
    save_model(tmp_path / "net.safetensors", network, tensors)
    x = random.standard_normal((5, 3, 4, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "picture.png").write_bytes(b"no picture is read")
    arguments = (tmp_path / "x.npy", tmp_path / "picture.png", "--model", tmp_path / "net.safetensors")
    outcome = cli("classify", *arguments, "--format", "json", "--verify")
    report = json.loads(outcome.out)
    expected = run_network(network, tensors, x.transpose(0, 3, 1, 2)).probabilities
    assert [answer["input"] for answer in report["predictions"]] == [f"{tmp_path / 'x.npy'}[{n}]" for n in range(5)]
    assert [answer["class_index"] for answer in report["predictions"]] == expected.argmax(axis=1).tolist()
    assert outcome.status == 2 and report["errors"][0]["input"] == str(tmp_path / "picture.png")


def test_parquet(cli, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    model = save(tmp_path, Output("classes", "raw"))
    target = tmp_path / "answers.parquet"
    outcome = run(cli, tmp_path, model, "--format", "parquet", "--output", target)
    assert outcome.status == 0 and outcome.out == "" and "dense" in outcome.err
    report = run(cli, tmp_path, model, "--format", "json").json()
    rows = parquet.read_table(target).to_pylist()
    assert [row["input"] for row in rows] == list(range(len(ROWS)))
    for row, answer in zip(rows, report["predictions"], strict=True):
        assert (row["label"], row["class_index"], row["error"]) == (answer["label"], answer["class_index"], None)
        assert row["probability"] == pytest.approx(answer["probability"], rel=1e-6)
    values = save(tmp_path, Output("values"))
    assert run(cli, tmp_path, values, "--format", "parquet", "--output", target, "--quiet").err == ""
    found = np.array([row["values"] for row in parquet.read_table(target).to_pylist()])
    assert np.allclose(found, np.load(tmp_path / "expected.npy"), atol=1e-5)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ((), "--format parquet is binary, so it requires --output FILE"),
        (("--output", "/dev/null"), "it requires --output FILE"),
    ],
)
def test_parquet_needs_a_file(cli, tmp_path: Path, more: tuple[str, ...], message: str) -> None:
    outcome = run(cli, tmp_path, save(tmp_path, Output("values")), "--format", "parquet", *more)
    assert outcome.status == 2 and message in outcome.err and len(outcome.err.splitlines()) == 1
