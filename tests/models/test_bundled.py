"""The bundled models are small, as accurate as their cards state, and correct on every sample."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import trninfer
from PIL import Image, ImageDraw, ImageFont
from trninfer.inference.boxes import Limits, find_boxes
from trninfer.models import ModelError, bundled_models, golden, load_model, run_network
from trninfer.models.bundled import parse_accuracy
from trninfer.models.preprocess import open_image, preprocess
from trninfer.tools.digits.calibration import Bin, calibration_error

ROOT = Path(trninfer.__file__).resolve().parent
PICTURES = sorted(path for path in (ROOT / "samples").iterdir() if path.suffix in (".png", ".jpg"))


def test_bundled_models() -> None:
    models = {model.name: model for model in bundled_models()}
    assert list(models) == ["digits-cnn", "digits-detect", "digits-ffnn"]
    for name, model in models.items():
        assert model.network == load_model(name).network
        assert model.network.name == name
        assert model.file_bytes == model.path.stat().st_size < 1_600_000
        assert model.parameters == sum(tensor.size for tensor in load_model(name).tensors.values())
        assert "UCI" in model.trained_on


def test_accuracies_that_were_asked_for() -> None:
    scores = {(model.name, score.on): score.fraction for model in bundled_models() for score in model.accuracy}
    assert scores["digits-ffnn", "UCI digits, held-out forms"] >= 0.975
    assert scores["digits-cnn", "UCI digits enlarged, held-out forms"] >= 0.992
    assert scores["digits-cnn", "distorted renderings, held-out fonts"] >= 0.978
    assert scores["digits-detect", "digits found in compositions, held-out fonts and forms"] >= 0.85
    assert scores["digits-cnn", "non-digits refused, held-out scripts and pictograms"] >= 0.905


def test_digits_are_hardly_ever_refused_and_probabilities_mean_what_they_say() -> None:
    metadata = load_model("digits-cnn").metadata
    refusals = {row["on"]: row["refused"] / row["total"] for row in json.loads(metadata["refusals"])}
    assert refusals["digits wrongly refused"] <= 0.015
    calibration = json.loads(metadata["calibration"])
    assert calibration["expected_error"] <= 0.017
    bins = [Bin(*each) for each in calibration["bins"]]
    assert calibration_error(bins) == pytest.approx(calibration["expected_error"], abs=1e-4)


def test_the_card_of_digits_cnn_has_what_it_refuses_and_its_calibration() -> None:
    card, metadata = (ROOT / "weights" / "digits-cnn.md").read_text(), load_model("digits-cnn").metadata
    for row in json.loads(metadata["refusals"]):
        assert (
            f"| {row['on']} | {row['refused']} of {row['total']}, {100 * row['refused'] / row['total']:.2f} % |" in card
        )
    calibration = json.loads(metadata["calibration"])
    assert f"expected calibration error | {calibration['expected_error']:.4f} |" in card
    assert f"temperature of {calibration['temperature']:.2f}" in card
    assert (ROOT / "docs" / "digits-cnn-reliability.svg").is_file()


def read(picture: Image.Image) -> str:
    """Return digits-cnn's label for a picture."""
    model = load_model("digits-cnn")
    image = preprocess(picture, model.network.input)
    scores = run_network(model.network, model.tensors, image[None]).logits[0]
    return model.network.labels[int(golden.argmax(scores))]


def write(text: str, size: float, light: bool = False, mode: str = "L") -> Image.Image:
    """Draw text in Pillow's default font, dark on light or light on dark."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new(
        mode, (round(right - left + 3 * size), round(bottom - top + 2 * size)), "black" if light else "white"
    )
    at = (1.5 * size - left, size - top)
    ImageDraw.Draw(picture).text(at, text, fill="white" if light else "black", font=font)
    return picture


@pytest.mark.parametrize(
    "size", [10, 16, 80, *(pytest.param(n, marks=pytest.mark.slow) for n in (11, 12, 14, 20, 28, 40))]
)
@pytest.mark.parametrize("light", [False, True], ids=["dark on light", "light on dark"])
def test_digits_of_pillows_default_font_are_read_at_any_size(size: int, light: bool) -> None:
    assert "".join(read(write(digit, size, light)) for digit in "0123456789") == "0123456789"


@pytest.mark.parametrize("size", [7, 8, 9])
def test_the_1_and_the_7_of_pillows_default_font_are_read_when_they_are_tiny(size: int) -> None:
    for light in (False, True):
        assert (read(write("1", size, light)), read(write("7", size, light))) == ("1", "7")


def test_digits_of_pillows_old_bitmap_font_are_read() -> None:
    font = ImageFont.load_default_imagefont()
    for digit in "0123456789":
        picture = Image.new("L", (32, 32), 255)
        ImageDraw.Draw(picture).text((13, 10), digit, fill=0, font=font)
        assert read(picture) == digit


@pytest.mark.parametrize("text", list("AMWXKRHNEFTY&@?#$"))
def test_letters_and_symbols_are_none(text: str) -> None:
    assert read(write(text, 60)) == "none"


@pytest.mark.parametrize("filled", [False, True])
def test_a_smiley_is_none(filled: bool) -> None:
    picture = Image.new("RGB", (200, 200), "white")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((40, 40, 160, 160), fill="gold" if filled else None, outline="black", width=6)
    for x in (75, 115):
        pen.ellipse((x, 75, x + 12, 90), fill="black")
    pen.arc((70, 80, 130, 135), 20, 160, fill="black", width=6)
    assert read(picture) == "none"


def test_a_cat_is_none() -> None:
    picture = Image.new("RGB", (240, 240), "white")
    pen = ImageDraw.Draw(picture)
    pen.ellipse((60, 70, 180, 190), fill="grey")
    for x in (70, 130):
        pen.polygon([(x, 90), (x + 15, 40), (x + 40, 80)], fill="grey")
    for x in (90, 135):
        pen.ellipse((x, 110, x + 15, 125), fill="black")
    for y in (150, 160):
        pen.line((40, y - 6, 105, y), fill="black", width=3)
        pen.line((135, y, 200, y - 6), fill="black", width=3)
    assert read(picture) == "none"


def test_the_model_says_none_in_its_own_file() -> None:
    network = load_model("digits-cnn").network
    assert network.labels == (*"0123456789", "none") and network.output.none == "none"


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


@pytest.mark.parametrize(("name", "digits"), [("meter.png", "013478"), ("notes.jpg", "2345689")])
def test_digits_detect_finds_the_digits_of_the_samples(name: str, digits: str) -> None:
    model = load_model("digits-detect")
    network, head = model.network, model.network.output.boxes
    assert head is not None
    image = preprocess(open_image(ROOT / "samples" / "several-digits" / name), network.input)
    table = run_network(network, model.tensors, image[None]).scores.reshape(network.output_shape)
    found = find_boxes(head, network.input.shape[1:], table, {}, Limits())
    assert "".join(sorted(network.labels[index] for index in found.classes)) == digits


@pytest.mark.parametrize("name", ["digits-ffnn", "digits-cnn", "digits-detect"])
def test_each_has_a_card_with_its_figures(name: str) -> None:
    card = (ROOT / "weights" / f"{name}.md").read_text()
    for score in parse_accuracy(load_model(name).metadata["accuracy"]):
        assert f"{score.correct} of {score.total}" in card
        assert f"{100 * score.fraction:.2f} %" in card


def test_a_corrupt_file_among_them_is_named(tmp_path: Path) -> None:
    (model, *_) = bundled_models()
    shutil.copy(model.path, tmp_path)
    (tmp_path / "broken.safetensors").write_bytes(model.path.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"broken\.safetensors: .*truncated"):
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
