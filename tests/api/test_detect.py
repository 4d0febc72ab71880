"""`trninfer.detect`: pictures in every form, and invalid arguments."""

from __future__ import annotations

import io

import numpy as np
import pytest
import trninfer
from PIL import Image
from small_detectors import detector, write_pictures

MODEL = detector()


def corners(answer) -> list[float]:
    box = answer.boxes[0]
    return [box.x1, box.y1, box.x2, box.y2]


def test_pictures_in_every_form_have_boxes_in_their_own_pixels(tmp_path) -> None:
    (path,) = write_pictures(tmp_path, [(64, 32)])
    image = Image.open(path)
    forms = [str(path), path.read_bytes(), io.BytesIO(path.read_bytes()), image, np.asarray(image)]
    answers = trninfer.detect(forms, MODEL)
    for answer in answers:
        assert answer.size == (64, 32)
        assert corners(answer) == pytest.approx([8, 8, 24, 24])
        assert [box.label for box in answer.boxes] == ["cat", "dog"]
    own = trninfer.detect(np.zeros((3, 16, 16), np.float32), MODEL)[0]
    assert (own.size, corners(own)) == ((16, 16), [2, 6, 6, 10])


def test_answers_are_documents_and_files(tmp_path) -> None:
    (path,) = write_pictures(tmp_path, [(64, 32)])
    answers = trninfer.detect(path, MODEL, confidence=0.8)
    assert [box["label"] for box in answers.to_dict()["predictions"][0]["boxes"]] == ["cat"]
    answers.save(tmp_path / "boxes.csv")
    assert (tmp_path / "boxes.csv").read_text().splitlines()[1].split(",")[1:3] == ["cat", "0"]
    answers.report(tmp_path / "page.html")
    assert "data:image/jpeg" in (tmp_path / "page.html").read_text()
    table = pytest.importorskip("pandas") and answers.to_pandas()
    assert list(table.columns) == ["input", "label", "class_index", "confidence", "x1", "y1", "x2", "y2", "error"]
    assert "cat" in repr(answers[0]) and "cat 0.9" in answers._repr_html_()


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"confidence": 2}, trninfer.ArgumentError, "confidence is 2; expected a number from 0 to 1"),
        ({"iou": "much"}, trninfer.ArgumentError, "iou is much"),
        ({"max_detections": 0}, trninfer.ArgumentError, "max_detections is 0"),
        ({"model": "digits-cnn"}, trninfer.ModelError, "does not predict boxes; use classify"),
    ],
)
def test_invalid_arguments_are_refused(options, error, says: str) -> None:
    with pytest.raises(error, match=says):
        trninfer.detect(Image.new("RGB", (9, 9)), **{"model": MODEL, **options})


def test_classify_names_detect() -> None:
    with pytest.raises(trninfer.ModelError, match="predicts boxes, not classes; use detect"):
        trninfer.classify(Image.new("RGB", (9, 9)), MODEL)
