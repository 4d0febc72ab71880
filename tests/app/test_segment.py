"""`trninfer segment`: areas, saved maps, scores, and resuming after an interruption."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from small_segmenters import save_colours

SHAPES = {"a.png": (60, 40), "b.jpg": (33, 51)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a network that computes class maps."""
    return save_colours(tmp_path_factory.mktemp("model") / "colours.safetensors")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return pictures whose left half is red, and maps in which two columns are wrong."""
    for folder in ("pictures", "right"):
        (tmp_path / folder).mkdir()
    for name, (width, height) in SHAPES.items():
        picture, right = Image.new("RGB", (width, height), (90, 90, 90)), Image.new("L", (width, height))
        ImageDraw.Draw(picture).rectangle((0, 0, width // 2 - 1, height), fill=(250, 10, 10))
        ImageDraw.Draw(right).rectangle((0, 0, width // 2 - 3, height), fill=1)
        picture.save(tmp_path / "pictures" / name, quality=95)
        right.save(tmp_path / "right" / f"{Path(name).stem}.png")
    return tmp_path / "pictures"


def test_areas_in_every_form(cli, model: Path, pictures: Path) -> None:
    words = ("segment", pictures, "--model", model)
    document = cli(*words, "--format", "json").json()
    first, second = document["predictions"]
    assert (first["width"], first["height"], first["label"]) == (60, 40, None)
    assert [(area["label"], area["share"]) for area in first["areas"]] == [("background", 0.5), ("red", 0.5)]
    assert sum(area["pixels"] for area in second["areas"]) == 33 * 51
    rows = list(csv.DictReader(io.StringIO(cli(*words, "--format", "csv", "--quiet").out)))
    assert [row["label"] for row in rows[:2]] == ["background", "red"] and int(rows[0]["pixels"]) == 1200
    lines = [json.loads(line) for line in cli(*words, "--format", "ndjson", "--quiet").out.splitlines()]
    assert lines[0]["type"] == "prediction" and lines[0]["areas"] == first["areas"]
    assert "50.0 %" in cli(*words, "--quiet").out


def test_maps_and_overlays_are_saved(cli, model: Path, pictures: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    told = cli("segment", pictures, "--model", model, "--save", saved)
    assert "2 maps and 2 overlays in" in told.err
    assert sorted(path.name for path in saved.iterdir()) == ["a-overlay.png", "a.png", "b-overlay.jpg", "b.png"]
    for name, size in (("a", (60, 40)), ("b", (33, 51))):
        with Image.open(saved / f"{name}.png") as found:
            assert (found.mode, found.size) == ("P", size) and set(np.unique(found)) == {0, 1}
    with Image.open(saved / "a-overlay.png") as drawn:
        assert drawn.convert("RGB").getpixel((50, 20)) == (90, 90, 90)
    refused = cli("segment", pictures, "--model", model, "--save", pictures)
    assert refused.status == 2 and "this folder contains the input pictures" in refused.err


def test_scores_and_a_share_to_reach(cli, model: Path, pictures: Path, tmp_path: Path) -> None:
    words = ("segment", pictures, "--model", model, "--labels", tmp_path / "right")
    document = cli(*words, "--format", "json", "--fail-under", "0.8").json()
    score = document["map_score"]
    assert 0.8 < score["mean_iou"] < 0.99 and [each["label"] for each in score["classes"]] == ["background", "red"]
    page = tmp_path / "page.html"
    told = cli(*words, "--fail-under", "0.999", "--report", page)
    assert told.status == 1 and "is below --fail-under 0.999" in told.out and "mean IoU" in told.out
    assert page.read_text().count("data:image/png") == 2 and "background 50.0 %" in page.read_text()
    Image.new("L", (3, 3)).save(tmp_path / "right" / "b.png")
    told = cli(*words)
    assert told.status == 2 and "not scored: its map" in told.err and "1 picture without a correct map" in told.out


def test_a_resumed_run_includes_earlier_pictures_in_its_score(cli, model: Path, pictures: Path, tmp_path: Path) -> None:
    output, words = tmp_path / "all.ndjson", ("--model", model, "--labels", tmp_path / "right", "--format", "ndjson")
    cli("segment", pictures / "a.png", *words, "--output", output)
    cli("segment", pictures, *words, "--output", output, "--resume")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["input"] for line in lines if line["type"] == "prediction"] == [
        str(pictures / name) for name in ("a.png", "b.jpg")
    ]
    assert lines[-1]["map_score"]["pictures"] == 2


def test_commands_refer_to_each_other(cli, model: Path, pictures: Path) -> None:
    told = cli("segment", pictures, "--model", "digits-cnn").err
    assert "model 'digits-cnn' predicts classes, not a class for each pixel; use trninfer classify" in told
    assert "use trninfer detect" in cli("segment", pictures, "--model", "digits-detect").err
    assert "use trninfer ffnn" in cli("segment", pictures, "--model", "digits-ffnn").err
    assert "use trninfer segment" in cli("classify", pictures, "--model", model).err
    assert "requires --labels" in cli("segment", pictures, "--model", model, "--fail-under", "0.5").err
    assert "a map of 16x16 pixels of 4 classes" in cli("models", "show", model).out


@pytest.mark.slow
def test_workers_and_verification(cli, model: Path, pictures: Path) -> None:
    plain = cli("segment", pictures, "--model", model, "--format", "json", "--verify", "--dtype", "bfloat16").json()
    assert plain["verify"]["passed"]
    shared = cli("segment", pictures, "--model", model, "--format", "json", "--cores", "2", "--batch-size", "1").json()
    assert shared["predictions"] == plain["predictions"]
