"""Networks with several inputs and outputs, on the command line and from Python, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import trninfer
from PIL import Image
from trninfer.models import (
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    Model,
    Network,
    Output,
    Pool,
    Reshape,
    Softmax,
    run_network,
    save_model,
)
from trninfer.models.inputs import FeatureInput, ImageInput, NamedInput, SeveralInputs
from trninfer.models.outputs import NamedOutput

SIDE = 8
PICTURE = ImageInput(3, SIDE, SIDE, "photo", (0.5,) * 3, (0.25,) * 3, SIDE)
PAIR = SeveralInputs((NamedInput("left", PICTURE), NamedInput("right", PICTURE), NamedInput("bias", FeatureInput(2))))
COUNT = 3 * SIDE * SIDE


def siamese() -> Model:
    """Return a network that classifies the difference of two pictures, and has two more outputs: an embedding and
    independent labels."""
    layers = (
        ChannelSlice("left", 0, COUNT, inputs=("input",)),
        Reshape("left image", PICTURE.shape),
        ChannelSlice("right", COUNT, 2 * COUNT, inputs=("input",)),
        Reshape("right image", PICTURE.shape),
        Combine("difference", "subtract", inputs=("left image", "right image")),
        Conv2d("conv", 3, 4, (3, 3), (1, 1, 1, 1), activation="relu"),
        Pool("pool", "average", (SIDE, SIDE), (SIDE, SIDE)),
        Flatten("embedding"),
        ChannelSlice("bias", 2 * COUNT, 2 * COUNT + 2, inputs=("input",)),
        Concat("all", inputs=("embedding", "bias")),
        Dense("tags", 6, 2, "sigmoid", inputs=("all",)),
        Dense("scores", 6, 3, inputs=("all",)),
        Softmax("chances"),
    )
    others = (
        NamedOutput("embedding", "embedding", (4, 1, 1), Output("values")),
        NamedOutput("tags", "tags", (2,), Output("sigmoid"), ("x", "y")),
    )
    network = Network("siamese", PAIR, layers, tuple("abc"), others=others, output_name="chances")
    random = np.random.default_rng(1)
    tensors = {name: random.standard_normal(shape, np.float32) for name, shape in network.tensor_shapes().items()}
    return Model(network, tensors, {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    model = siamese()
    save_model(tmp_path / "net.safetensors", model.network, model.tensors)
    random = np.random.default_rng(2)
    for name in ("a", "b", "c"):
        Image.fromarray(random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)).save(tmp_path / f"{name}.png")
    return tmp_path


def expected(folder: Path, left: str, right: str, bias: tuple[float, float]):
    arrays = {}
    for name, file in (("left", left), ("right", right)):
        pixels = np.asarray(Image.open(folder / file), np.float32).transpose(2, 0, 1) / 255
        arrays[name] = ((pixels - 0.5) / 0.25)[None]
    arrays["bias"] = np.array([bias], np.float32)
    model = siamese()
    return run_network(model.network, model.tensors, PAIR.pack(arrays))


def check(answer: dict, run, row: int = 0) -> None:
    chances, embedding, tags = (output.probabilities[row] for output in run.outputs)
    assert answer["label"] == "abc"[chances.argmax()] and answer["probability"] == pytest.approx(
        chances.max(), abs=1e-5
    )
    outputs = answer["outputs"]
    assert list(outputs) == ["chances", "embedding", "tags"]
    assert {key: outputs["chances"][key] for key in ("label", "probability", "top")} == {
        key: answer[key] for key in ("label", "probability", "top")
    }
    assert outputs["embedding"]["values"] == pytest.approx(embedding.tolist(), abs=1e-5)
    assert outputs["embedding"]["shape"] == [4, 1, 1] and outputs["embedding"]["label"] is None
    assert outputs["tags"]["kind"] == "sigmoid" and outputs["tags"]["label"] == "xy"[tags.argmax()]
    assert outputs["tags"]["probability"] == pytest.approx(tags.max(), abs=1e-5)


def test_pictures_for_one_input_and_the_others_given_once(cli, folder: Path) -> None:
    outcome = cli(
        "classify", folder / "a.png", folder / "b.png", "--model", folder / "net.safetensors",
        "--input", f"right={folder / 'c.png'}", "--input", "bias=0.5,-2", "--format", "json", "--verify",
    )  # fmt: skip
    report = outcome.json()
    assert outcome.status == 0 and report["verify"]["passed"]
    for name, answer in zip(("a.png", "b.png"), report["predictions"], strict=True):
        assert answer["input"] == {
            "left": str(folder / name), "right": str(folder / "c.png"), "bias": "0.5,-2",
        }  # fmt: skip
        check(answer, expected(folder, name, "c.png", (0.5, -2)))


def test_all_inputs_given_several_examples_each(cli, folder: Path) -> None:
    biases = np.array([[0, 1], [2, -1], [5, 5]], np.float32)
    np.save(folder / "biases.npy", biases)
    given = ["--input", f"left={folder / 'a.png'}", "--input", f"right={folder / 'b.png'}"]
    given += ["--input", f"bias={folder / 'biases.npy'}"]
    command = ("classify", "--model", folder / "net.safetensors", *given, "--batch-size", 2)
    lines = [json.loads(line) for line in cli(*command, "--format", "ndjson").out.splitlines()]
    answers = [line for line in lines if line["type"] == "prediction"]
    assert [answer["input"]["bias"] for answer in answers] == [f"{folder / 'biases.npy'}[{n}]" for n in range(3)]
    for answer, bias in zip(answers, biases, strict=True):
        check(answer, expected(folder, "a.png", "b.png", tuple(bias)))
    table = list(csv.DictReader(io.StringIO(cli(*command, "--format", "csv").out)))
    assert [row["label"] for row in table] == [answer["label"] for answer in answers]
    text = cli(*command).out
    assert "embedding" in text and "tags" in text and "4x1x1" in text


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_an_interrupted_run_is_gone_on_with(cli, folder: Path, form: str) -> None:
    out = folder / f"out.{form}"
    command = ("classify", "--model", folder / "net.safetensors", "--input", f"right={folder / 'c.png'}",
               "--input", "bias=1,1", "--format", form, "--batch-size", 1, "--output", out)  # fmt: skip
    assert cli(*command, folder / "a.png").status == 0
    outcome = cli(*command, folder / "a.png", folder / "b.png", "--resume")
    assert outcome.status == 0 and "1 answer" in outcome.err
    whole = cli(*(word for word in command if word not in ("--output", out)), folder / "a.png", folder / "b.png").out
    resumed = out.read_text()
    if form == "csv":
        assert resumed == whole
    else:
        first, second = ([json.loads(line) for line in text.splitlines()][:2] for text in (resumed, whole))
        assert first == second


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no pictures specified"),
        (["a.png"], "missing: 'left', 'right', 'bias'"),
        (["--input", "left=a.png"], "missing: 'right', 'bias'"),
        (["--input", "left=a.png", "--input", "right=b.png"], "missing: 'bias'"),
        (["--input", "up=a.png"], "no input 'up'; its inputs are 'left', 'right', 'bias'"),
        (["--input", "left"], "--input left: expected the name of an input and its file"),
        (["--input", "left=a.png", "--input", "left=b.png"], "--input left: this input is specified more than once"),
        (["--input", "bias=1"], "input 'bias': 1 numbers; expected 2"),
        (["--input", "bias=x"], "input 'bias': 'x' is neither a file of features"),
        (["--input", "bias=nan,1"], "input 'bias': 'nan,1' is neither a file"),
        (["--input", "left=none.png"], "input 'left': .*[Nn]o such file"),
        (["--input", "right=b.png", "--input", "bias=1,2"], "no pictures specified for the input 'left'"),
        (["a.png", "--input", "left=a.png", "--input", "right=b.png", "--input", "bias=1,2"], "omit the pictures"),
    ],
)
def test_missing_input_is_named(cli, folder: Path, monkeypatch, words: list[str], says: str) -> None:
    monkeypatch.chdir(folder)
    outcome = cli("classify", "--model", "net.safetensors", *words)
    assert outcome.status == 2 and len(outcome.err.splitlines()) == 1
    assert re.search(says, outcome.err), outcome.err


def test_other_commands_name_the_command_for_several_inputs(cli, folder: Path) -> None:
    np.save(folder / "x.npy", np.zeros((1, 4), np.float32))
    outcome = cli("ffnn", "--data", folder / "x.npy", "--model", folder / "net.safetensors")
    assert outcome.status == 2 and "trninfer classify --input NAME=FILE" in outcome.err
    outcome = cli("classify", folder / "a.png", "--input", "left=a.png")
    assert outcome.status == 2 and "--input requires a model with several inputs" in outcome.err


def test_from_python_a_dict_an_example(folder: Path) -> None:
    model = siamese()
    examples = [
        {"left": folder / "a.png", "right": Image.open(folder / "b.png"), "bias": [0.5, -2]},
        {"left": np.asarray(Image.open(folder / "c.png")), "right": str(folder / "b.png"), "bias": np.zeros(2)},
    ]
    answers = trninfer.classify(examples, model)
    for answer, run in zip(
        answers.predictions,
        (expected(folder, "a.png", "b.png", (0.5, -2)), expected(folder, "c.png", "b.png", (0, 0))),
        strict=True,
    ):
        assert [output.name for output in answer.outputs] == ["chances", "embedding", "tags"]
        assert answer.outputs[1].values == pytest.approx(run.others[0].scores[0].tolist(), abs=1e-5)
        assert answer.label == answer.outputs[0].label == "abc"[run.probabilities[0].argmax()]
    one = trninfer.classify(examples[0], model, top_k=2)
    assert len(one.predictions) == 1 and len(one.predictions[0].top) == 2
    for wrong, says in (
        ({"left": folder / "a.png"}, "pass a dict with 'left', 'right', 'bias'"),
        (folder / "a.png", "pass a dict with 'left', 'right', 'bias'"),
        ({**examples[0], "bias": [1]}, "input 'bias': got 1 numbers; expected 2 finite numbers"),
        ({**examples[0], "left": folder / "none.png"}, "input 'left'"),
    ):
        with pytest.raises(trninfer.InputError, match=says):
            trninfer.classify(wrong, model)
    with pytest.raises(trninfer.InputError, match="one input"):
        trninfer.classify({"left": folder / "a.png"})
