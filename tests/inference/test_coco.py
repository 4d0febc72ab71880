"""COCO's formats, compared with pycocotools if it is installed."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.inference.box import Box
from trninfer.inference.coco import BoxScorer, coco_entries, compress_counts, number_categories, read_annotations
from trninfer.inference.detections import encode_mask
from trninfer.inference.predictions import Prediction
from trninfer.models.errors import InputError


def answer(name, *boxes, size=(100, 100)):
    return Prediction(name, None, None, None, (), boxes=boxes, size=size)


@given(st.integers(1, 80), st.integers(1, 80), st.integers(0, 10**6))
def test_masks_are_compressed_as_pycocotools_does(height, width, seed):
    masks = pytest.importorskip("pycocotools.mask")
    inside = np.random.default_rng(seed).random((height, width)) < 0.3
    mask = encode_mask(inside, 0, 0, width, height)
    if mask is not None:
        compressed = compress_counts(mask)
        assert (masks.decode({"size": [height, width], "counts": compressed.encode()}) == inside).all()
        assert (
            masks.frPyObjects({"size": [height, width], "counts": list(mask.counts)}, height, width)["counts"]
            == compressed.encode()
        )


def test_ids_of_classes_and_pictures():
    names = ["person", *map(str, range(1, 79)), "toothbrush"]
    assert list(number_categories(names).categories.values())[:13] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14]
    assert number_categories(names).categories["toothbrush"] == 90
    numbered = number_categories(["cat", "dog"])
    entries = coco_entries(answer("val/0042.jpg", Box("dog", 1, 0.5, 10, 20, 40, 60)), numbered)
    assert entries == [{"image_id": 42, "category_id": 2, "bbox": [10, 20, 30, 40], "score": 0.5}]
    assert numbered.image_id("val/street.jpg") == "street.jpg"


def annotations(folder: Path, **changes) -> Path:
    data = {
        "images": [{"id": 7, "file_name": "a.jpg"}, {"id": 9, "file_name": "sub/b.jpg"}],
        "categories": [{"id": 3, "name": "dog"}, {"id": 5, "name": "cow"}],
        "annotations": [
            {"image_id": 7, "category_id": 3, "bbox": [10, 10, 20, 20], "area": 400, "iscrowd": 0},
            {"image_id": 9, "category_id": 5, "bbox": [0, 0, 50, 50]},
        ],
        **changes,
    }
    (folder / "truth.json").write_text(json.dumps(data))
    return folder / "truth.json"


def test_boxes_are_scored_by_the_annotations_of_coco(tmp_path):
    pytest.importorskip("pycocotools")
    truth = read_annotations(annotations(tmp_path), ("cat", "dog"))
    assert (truth.image_id("x/b.jpg"), truth.image_id("x/c.jpg")) == (9, "c.jpg")
    scorer = BoxScorer(truth)
    scorer.add(answer("x/a.jpg", Box("dog", 1, 0.9, 10, 10, 30, 30), Box("cat", 0, 0.8, 0, 0, 5, 5)))
    scorer.add(answer("x/b.jpg"))
    scorer.add(answer("x/c.jpg", Box("dog", 1, 0.9, 10, 10, 30, 30)))
    score = scorer.score
    assert (score.pictures, score.unlabelled, score.boxes) == (2, 1, 2)
    assert score.map == pytest.approx(0.5) and score.map_50 == pytest.approx(0.5)  # the network has no class cow
    assert {each.label: each.ap for each in score.classes} == {"dog": pytest.approx(1), "cow": 0.0}


def test_a_score_is_that_of_pycocotools(tmp_path):
    coco = pytest.importorskip("pycocotools.coco")
    evaluation = pytest.importorskip("pycocotools.cocoeval")
    random = np.random.default_rng(0)
    labels = ("a", "b", "c")
    (tmp_path / "truth").mkdir()
    images, right, results = [], [], []
    scorer = BoxScorer(read_annotations(tmp_path / "truth", labels))
    for number in range(1, 9):
        lines, boxes = [], []
        for _ in range(int(random.integers(0, 6))):
            kind, low, sides = int(random.integers(3)), random.uniform(0, 60, 2), random.uniform(10, 40, 2)
            centre = (low + sides / 2) / 100
            lines.append(
                f"{kind} {centre[0]!r} {centre[1]!r} {sides[0] / 100!r} {sides[1] / 100!r}".replace(
                    "np.float64(", ""
                ).replace(")", "")
            )
            entry = {"id": len(right) + 1, "image_id": number, "category_id": kind + 1, "bbox": [*low, *sides]}
            right.append({**entry, "area": sides.prod(), "iscrowd": 0})
            moved = low + random.normal(0, 4, 2)
            score = float(random.random())
            boxes.append(Box(labels[kind], kind, score, *moved, *(moved + sides)))
            results.append({**entry, "bbox": [*moved.round(3), *sides.round(3)], "score": score})
        images.append({"id": number})
        (tmp_path / "truth" / f"{number}.txt").write_text("\n".join(lines))
        scorer.add(answer(f"{number}.jpg", *boxes))
    truth = coco.COCO()
    truth.dataset = {
        "images": images,
        "annotations": right,
        "categories": [{"id": n, "name": labels[n - 1]} for n in (1, 2, 3)],
    }
    truth.createIndex()
    expected = evaluation.COCOeval(truth, truth.loadRes(results), "bbox")
    expected.evaluate()
    expected.accumulate()
    expected.summarize()
    assert (scorer.score.map, scorer.score.map_50) == pytest.approx(tuple(expected.stats[:2]), abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"images": None}, "not COCO annotations"),
        ({"annotations": [{"image_id": 1, "category_id": 3, "bbox": [0, 0, 1, 1]}]}, "not COCO annotations"),
        ({"annotations": [{"image_id": 7, "category_id": 3, "bbox": [0, 0, 1]}]}, "not COCO annotations"),
        ({"categories": [{"id": 1, "name": "horse"}], "annotations": []}, "none of its classes (horse)"),
    ],
)
def test_other_files_are_refused(tmp_path, changes, says):
    with pytest.raises(InputError) as error:
        read_annotations(annotations(tmp_path, **changes), ("cat", "dog"))
    assert says in str(error.value)


def test_outlines_of_yolo_have_boxes(tmp_path):
    (tmp_path / "a.txt").write_text("1 0.1 0.1 0.5 0.2 0.3 0.4\n")
    truth = read_annotations(tmp_path, ("cat", "dog")).truth_of(answer("a.png"))
    assert truth.annotations[0]["bbox"] == pytest.approx([10, 10, 40, 30])
    assert read_annotations(tmp_path, ("cat", "dog")).truth_of(answer("none.png")).annotations == ()
