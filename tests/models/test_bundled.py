"""The bundled models: small, as accurate as their cards say, and right about every sample."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import trninfer
from trninfer.models import ModelError, bundled_models, golden, load_model, run_network
from trninfer.models.bundled import parse_accuracy
from trninfer.models.preprocess import open_image, preprocess

ROOT = Path(trninfer.__file__).resolve().parent
PICTURES = sorted(path for path in (ROOT / "samples").iterdir() if path.suffix in (".png", ".jpg"))


def test_what_is_bundled() -> None:
    models = {model.name: model for model in bundled_models()}
    assert list(models) == ["digits-cnn", "digits-ffnn"]
    for name, model in models.items():
        assert model.network == load_model(name).network
        assert model.network.name == name
        assert model.file_bytes == model.path.stat().st_size < 1_000_000
        assert model.parameters == sum(tensor.size for tensor in load_model(name).tensors.values())
        assert "UCI" in model.trained_on


def test_accuracies_that_were_asked_for() -> None:
    scores = {(model.name, score.on): score.fraction for model in bundled_models() for score in model.accuracy}
    assert scores["digits-ffnn", "UCI digits, held-out forms"] >= 0.975
    assert scores["digits-cnn", "UCI digits enlarged, held-out forms"] >= 0.99
    assert scores["digits-cnn", "distorted renderings, held-out fonts"] >= 0.98


def test_digits_ffnn_scores_on_the_sample_batch_what_its_file_says() -> None:
    features = np.fromfile(ROOT / "samples" / "digits-X.bin", "<f4").reshape(-1, 64)
    labels = np.fromfile(ROOT / "samples" / "digits-Y.bin", "<i4")
    model = load_model("digits-ffnn")
    classes = golden.argmax(run_network(model.network, model.tensors, features).logits)
    (score,) = parse_accuracy(model.metadata["accuracy"])
    assert (int((classes == labels).sum()), len(labels)) == (score.correct, score.total)


def test_there_are_samples_of_many_kinds() -> None:
    assert len(PICTURES) >= 6


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_digits_cnn_reads_every_sample(path: Path) -> None:
    model = load_model("digits-cnn")
    image = preprocess(open_image(path), model.network.input)
    probabilities = run_network(model.network, model.tensors, image[None]).probabilities[0]
    assert model.network.labels[golden.argmax(probabilities)] == path.name[0]
    assert probabilities.max() > 0.6


@pytest.mark.parametrize("name", ["digits-ffnn", "digits-cnn"])
def test_each_has_a_card_with_its_figures(name: str) -> None:
    card = (ROOT / "weights" / f"{name}.md").read_text()
    for score in parse_accuracy(load_model(name).metadata["accuracy"]):
        assert f"{score.correct} of {score.total}" in card
        assert f"{100 * score.fraction:.2f} %" in card


def test_a_corrupt_file_among_them_is_named(tmp_path: Path) -> None:
    (model, *_) = bundled_models()
    shutil.copy(model.path, tmp_path)
    (tmp_path / "broken.safetensors").write_bytes(model.path.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"broken\.safetensors: .*cut short"):
        bundled_models(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}x",
        "7",
        '[{"on": "a"}]',
        '[{"on": "a", "correct": 3, "total": 2}]',
        '[{"on": "a", "correct": 0, "total": 0}]',
    ],
)
def test_an_accuracy_that_is_none(text: str) -> None:
    with pytest.raises(ModelError, match="not a list of scores"):
        parse_accuracy(text)


def test_accuracy_is_read() -> None:
    (score,) = parse_accuracy(json.dumps([{"on": "x", "correct": 3, "total": 4}]))
    assert (score.on, score.fraction) == ("x", 0.75)
