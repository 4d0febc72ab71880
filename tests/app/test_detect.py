"""The command `trninfer detect`: formats, files, unreadable pictures, resuming and scores."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from report_schema import SCHEMA, check_schema
from small_detectors import detector, write_pictures
from trninfer.models import save_model

pytestmark = pytest.mark.usefixtures("first_plans")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, detector())


def save(folder: Path, made) -> Path:
    save_model(folder / "detector.safetensors", made.network, made.tensors)
    return folder / "detector.safetensors"


# The picture has 64x32 pixels, which become 16x8 at (0, 4) of the image.
WIDE = [("cat", 0.9, 8, 8, 24, 24), ("dog", 0.7, 36, 12, 60, 20)]


def test_boxes_are_in_pixels_of_the_picture(cli, tmp_path: Path, model: Path) -> None:
    square, wide, tall = write_pictures(tmp_path)
    outcome = cli("detect", square, wide, tall, "--model", model, "--format", "json", "--batch-size", 2)
    assert outcome.status == 0
    document = outcome.json()
    check_schema(document, SCHEMA)
    first, second, third = document["predictions"]
    assert (second["width"], second["height"], second["label"]) == (64, 32, None)
    found = [tuple(box[key] for key in ("label", "confidence", "x1", "y1", "x2", "y2")) for box in second["boxes"]]
    assert [each[0] for each in found] == ["cat", "dog"]
    assert np.array([each[1:] for each in found]) == pytest.approx(np.array([each[1:] for each in WIDE]), abs=1e-3)
    assert [first["boxes"][0][key] for key in ("x1", "y1", "x2", "y2")] == pytest.approx([4, 12, 12, 20])
    assert [third["boxes"][0][key] for key in ("x1", "x2")] == pytest.approx([0, 8])  # the part inside 32x64


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
def test_batches_of_any_size_find_the_same(cli, tmp_path: Path, model: Path, batch: int) -> None:
    paths = write_pictures(tmp_path, [(16 + 5 * n, 40 - 2 * n) for n in range(16)])
    boxes = [
        [
            answer["boxes"]
            for answer in cli("detect", *paths, "--model", model, "--format", "json", *more).json()["predictions"]
        ]
        for more in ((), ("--batch-size", batch))
    ]
    assert boxes[0] == boxes[1] and all(len(each) == 2 for each in boxes[0])


def test_limits_of_what_is_answered(cli, tmp_path: Path, model: Path) -> None:
    (path,) = write_pictures(tmp_path, [(32, 32)])

    def labels(*more) -> list[str]:
        answer = cli("detect", path, "--model", model, "--format", "json", *more).json()["predictions"][0]
        return [box["label"] for box in answer["boxes"]]

    assert labels() == ["cat", "dog"]
    assert labels("--iou", "0.9") == ["cat", "cat", "dog"]
    assert labels("--confidence", "0.15") == ["cat", "dog", "dog"]
    assert labels("--max-detections", 1) == ["cat"]
    assert labels("--confidence", "0.95") == []


def test_a_bad_file_among_good_ones(cli, tmp_path: Path, model: Path) -> None:
    paths = write_pictures(tmp_path, [(32, 32)])
    bad = tmp_path / "bad.png"
    bad.write_text("no picture")
    outcome = cli("detect", bad, *paths, "--model", model, "--format", "csv")
    assert outcome.status == 2 and "bad.png: not a picture" in outcome.err
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert [(row["label"], row["confidence"], row["x1"], bool(row["error"])) for row in rows] == [
        ("cat", "0.9", "4.0", False),
        ("dog", "0.7", "18.0", False),
        ("", "", "", True),
    ]
    assert list(rows[0]) == ["input", "label", "class_index", "confidence", "x1", "y1", "x2", "y2", "error"]


def test_a_table_has_a_row_a_box(cli, tmp_path: Path, model: Path) -> None:
    (path,) = write_pictures(tmp_path, [(32, 32)])
    outcome = cli("detect", path, "--model", model, "-q")
    assert "cat" in outcome.out and "0.9000" in outcome.out and "2 boxes in 1 picture\n" in outcome.out
    assert "no objects" in cli("detect", path, "--model", model, "-q", "--confidence", "0.99").out


def test_coco_has_x_y_width_and_height(cli, tmp_path: Path, model: Path) -> None:
    write_pictures(tmp_path, [(64, 32)])
    path = (tmp_path / "0.png").rename(tmp_path / "000000000139.png")
    entries = json.loads(cli("detect", path, "--model", model, "--format", "coco").out)
    assert [(entry["image_id"], entry["category_id"]) for entry in entries] == [(139, 1), (139, 2)]
    assert entries[0]["bbox"] == [8, 8, 16, 16] and entries[0]["score"] == pytest.approx(0.9)
    nothing = cli("detect", path, "--model", model, "--format", "coco", "--confidence", "1")
    assert json.loads(nothing.out) == []


def test_pictures_are_drawn_and_put_on_the_page(cli, tmp_path: Path, model: Path) -> None:
    paths = write_pictures(tmp_path)
    (tmp_path / "sub").mkdir()
    (again,) = write_pictures(tmp_path / "sub", [(32, 32)])
    page = tmp_path / "page.html"
    more = ("--save", tmp_path / "drawn", "--report", page, "--format", "ndjson")
    outcome = cli("detect", *paths, again, "--model", model, *more)
    assert outcome.status == 0 and "4 pictures with boxes" in outcome.err
    assert sorted(path.name for path in (tmp_path / "drawn").iterdir()) == ["0-2.png", "0.png", "1.png", "2.png"]
    drawn = np.asarray(Image.open(tmp_path / "drawn" / "1.png"))
    assert drawn.shape == (256, 512, 3) and drawn.any()  # 64x32, enlarged, and not all black
    text = page.read_text()
    assert text.count("data:image/jpeg") == 4 and "cat 0.90" in text
    refused = cli("detect", *paths, "--model", model, "--save", tmp_path)
    assert refused.status == 2 and "this folder contains the input pictures" in refused.err


@pytest.mark.parametrize("form", ["json", "ndjson", "csv", "coco"])
def test_an_interrupted_run_is_gone_on_with(cli, tmp_path: Path, model: Path, form: str, monkeypatch) -> None:
    paths = write_pictures(tmp_path)
    command = ("detect", *paths, "--model", model, "--format", form, "--output", tmp_path / "out", "--batch-size", 1)
    whole = cli(*command)
    expected = (tmp_path / "out").read_text()
    assert whole.status == 0
    (tmp_path / "out").unlink()
    from trninfer.inference.detections import Detector

    original, calls = Detector.__call__, []

    def once(self, *arguments):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Detector, "__call__", once)
        assert cli(*command).status == 130
    resumed = cli(*command, "--resume")
    assert resumed.status == 0 and "continuing from 1 answer" in resumed.err
    if form in ("csv", "coco"):
        assert (tmp_path / "out").read_text() == expected
    other = cli(*command, "--confidence", "0.5", "--resume")
    assert other.status == 2


def test_a_finished_ndjson_is_added_to_and_a_csv_is_not(cli, tmp_path: Path, model: Path) -> None:
    first, second, _ = write_pictures(tmp_path)
    out = tmp_path / "out.ndjson"
    options = ("--model", model, "--format", "ndjson", "--output", out)
    assert cli("detect", first, *options).status == 0
    assert cli("detect", first, second, *options, "--resume").status == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["input"] for line in lines if line["type"] == "prediction"] == [str(first), str(second)]
    assert all(len(line["boxes"]) == 2 for line in lines if line["type"] == "prediction")
    table = ("--model", model, "--format", "csv", "--output", tmp_path / "out.csv")
    assert cli("detect", first, *table).status == 0
    refused = cli("detect", first, second, *table, "--resume")
    assert refused.status == 2 and "only ndjson" in refused.err


def test_masks_and_keypoints_are_in_the_answers(cli, tmp_path: Path) -> None:
    rows = [[4, 8, 4, 4, 0.9, 0.1, 1.0, 4, 8, 0.75], [12, 8, 6, 2, 0.2, 0.7, 1.0, 12, 8, 0.25]]
    model = save(tmp_path, detector(rows, keypoints=1, masks=True))
    (path,) = write_pictures(tmp_path, [(32, 32)])
    document = cli("detect", path, "--model", model, "--format", "json", "--save", tmp_path / "drawn").json()
    check_schema(document, SCHEMA)
    (box,) = document["predictions"][0]["boxes"]  # the mask of the dog, on the right, is empty
    assert box["keypoints"] == [[8, 16, 0.75]]
    mask = box["mask"]
    assert mask["size"] == [32, 32] and sum(mask["counts"][1::2]) == 64  # 8x8 pixels of the box
    assert mask["counts"][:2] == [4 * 32 + 12, 8]


def test_boxes_are_scored(cli, tmp_path: Path, model: Path) -> None:
    pytest.importorskip("pycocotools")
    (path,) = write_pictures(tmp_path, [(64, 32)])
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "0.txt").write_text("0 0.25 0.5 0.25 0.5\n1 0.75 0.5 0.375 0.25\n")
    command = ("detect", path, "--model", model, "--labels", tmp_path / "labels")
    score = cli(*command, "--format", "json").json()["box_score"]
    assert (score["map_50"], score["map"], score["boxes"]) == (pytest.approx(1), pytest.approx(1), 2)
    assert cli(*command, "--fail-under", "0.9").status == 0
    (tmp_path / "labels" / "0.txt").write_text("0 0.25 0.5 0.25 0.5\n1 0.2 0.2 0.1 0.1\n")
    outcome = cli(*command, "--fail-under", "0.9")
    assert outcome.status == 1 and "mAP@0.5 0.5000, mAP@0.5:0.95 0.5000" in outcome.out
    (tmp_path / "labels" / "0.txt").write_text("7 0.2 0.2 0.1 0.1\n")
    assert "0.txt:1: expected a class below 2" in cli(*command).err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("detect", "{picture}", "--model", "digits-cnn"), "predicts classes, not boxes; use trninfer classify"),
        (("detect", "{picture}", "--model", "digits-ffnn"), "reads features, not pictures; use trninfer ffnn"),
        (("classify", "{picture}", "--model", "{model}"), "predicts boxes, not classes; use trninfer detect"),
        (("detect", "--model", "{model}"), "no pictures specified"),
        (("detect", "{picture}", "--model", "{model}", "--confidence", "2"), "not a fraction from 0 to 1"),
        (("detect", "{picture}", "--model", "{model}", "--fail-under", "0.5"), "it requires --labels"),
        (("detect", "{picture}", "--model", "{model}", "--labels", "none.json"), "--labels none.json"),
        (("detect", "{picture}", "--model", "{model}", "--top-k", "3"), "--top-k"),
    ],
)
def test_wrong_usage_is_one_line(cli, tmp_path: Path, model: Path, arguments, says: str) -> None:
    (picture,) = write_pictures(tmp_path, [(32, 32)])
    outcome = cli(*(word.format(picture=picture, model=model) for word in arguments))
    assert outcome.status == 2 and says in outcome.err and len(outcome.err.splitlines()) == 1
