"""Intersection over union of class maps, and the correct maps in a folder."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.inference.class_maps import ClassMap, Overlap
from trninfer.inference.map_scoring import MapLabels, MapScorer
from trninfer.models.errors import InputError


def test_the_mean_is_over_classes_that_are_right_or_answered() -> None:
    scorer = MapScorer(("a", "b", "c", "d"))
    scorer.add(ClassMap(2, 2, (), "", (Overlap(0, 6, 4, 4), Overlap(1, 2, 4, 2))))
    scorer.add(ClassMap(2, 2, (), "", (Overlap(0, 4, 4, 4), Overlap(2, 3, 0, 0))))
    scorer.add(ClassMap(2, 2, (), ""))
    score = scorer.score
    assert [(each.label, each.iou) for each in score.classes] == [("a", 8 / 10), ("b", 2 / 4), ("c", 0)]
    assert score.mean_iou == pytest.approx(1.3 / 3) and score.pixel_accuracy == 10 / 12
    assert (score.pictures, score.unlabelled) == (2, 1)
    assert MapScorer(("a",)).score.mean_iou == 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, mode in (("palette", "P"), ("grey", "L"), ("deep", "I;16")):
        pixels = np.array([[0, 1], [2, 255 if mode != "I;16" else 65535]], np.uint16 if mode == "I;16" else np.uint8)
        image = Image.fromarray(pixels)
        if mode == "P":
            image.putpalette([9] * 768)
        image.save(tmp_path / f"{name}.png")
    Image.new("RGB", (2, 2)).save(tmp_path / "colours.png")
    return tmp_path


@pytest.mark.parametrize("name", ["palette", "grey", "deep"])
def test_maps_of_a_folder_by_stem(folder: Path, name: str) -> None:
    right = MapLabels(str(folder), 3).read(f"elsewhere/{name}.jpg", (2, 2))
    assert right is not None and right.ravel()[:3].tolist() == [0, 1, 2] and right[1, 1] >= 255


def test_invalid_map_is_reported(folder: Path) -> None:
    labels = MapLabels(str(folder), 2)
    assert labels.read("other.jpg", (2, 2)) is None
    with pytest.raises(InputError, match="2x2 pixels, but the picture has 3x2"):
        labels.read("grey.jpg", (3, 2))
    with pytest.raises(InputError, match="class 2 is out of range; allowed: 0 to 1, and 255"):
        labels.read("grey.jpg", (2, 2))
    with pytest.raises(InputError, match="the mode is RGB"):
        labels.read("colours.jpg", (2, 2))
    labels.check_some(["a.png", "grey.jpg"])
    with pytest.raises(InputError, match=r"no map for any of the pictures, such as a\.png"):
        labels.check_some(["a.jpg"])


def test_folder_without_maps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        MapLabels(str(tmp_path / "none"), 2)
    with pytest.raises(InputError, match="no class maps"):
        MapLabels(str(tmp_path), 2)
