"""Oriented boxes; the overlap is compared with integrals of the normal distributions that represent the boxes."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from small_detectors import LABELS
from trninfer.inference.box import Box
from trninfer.inference.boxes import BoxArrays, Limits, find_boxes, move_to_picture
from trninfer.inference.coco import coco_entry
from trninfer.inference.drawing import draw_boxes
from trninfer.inference.oriented import enclosing, outlines, overlaps, suppress_oriented
from trninfer.models.boxes import BoxHead
from trninfer.models.errors import ModelError
from trninfer.models.frame import Frame

HEAD = BoxHead(len(LABELS), "columns", "centre", angle=True)


def density(box: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the density of a box's normal distribution, whose variance along each side is a twelfth of the squared
    side."""
    across = (x - box[0]) * math.cos(box[4]) + (y - box[1]) * math.sin(box[4])
    along = (y - box[1]) * math.cos(box[4]) - (x - box[0]) * math.sin(box[4])
    power = across**2 * 12 / box[2] ** 2 + along**2 * 12 / box[3] ** 2
    return np.exp(-power / 2) * 12 / (2 * math.pi * box[2] * box[3])


@pytest.mark.parametrize(
    "other", [(0, 0, 6, 3, 0.4), (1, 0.5, 6, 3, 0.4), (0, 0, 6, 3, 1.2), (2, -1, 4, 4, 0), (-1, 1, 9, 2, -0.7)]
)
def test_the_overlap_is_that_of_two_distributions(other: tuple[float, ...]) -> None:
    box, other_box = np.array([(0, 0, 6, 3, 0.4)], np.float32), np.array([other], np.float32)
    step = 0.05
    x, y = np.meshgrid(np.arange(-15, 15, step), np.arange(-15, 15, step))
    shared = (np.sqrt(density(box[0], x, y) * density(other_box[0], x, y)) * step * step).sum()
    assert overlaps(box, other_box)[0, 0] == pytest.approx(1 - math.sqrt(max(0, 1 - shared)), abs=2e-3)


@given(st.integers(1, 300), st.integers(0, 10**6))
def test_a_box_is_dropped_for_any_better_one_of_its_class(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    boxes = random.uniform((0, 0, 1, 1, -1), (30, 30, 9, 9, 2), (count, 5)).astype(np.float32)
    scores, classes = random.permutation(count) / count, random.integers(0, 3, count)
    every = overlaps(boxes, boxes)
    kept = [
        place
        for place in range(count)
        if not ((every[place] > 0.3) & (classes == classes[place]) & (scores > scores[place])).any()
    ]
    found = suppress_oriented(boxes, scores, classes, 0.3)
    assert found.tolist() == sorted(kept, key=lambda place: -scores[place])


def test_corners_of_a_turned_box() -> None:
    corners = outlines(np.array([[10, 20, 8, 4, math.pi / 2]], np.float32))
    assert corners[0] == pytest.approx(np.array([[8, 24], [12, 24], [12, 16], [8, 16]]), abs=1e-5)
    assert enclosing(corners)[0] == pytest.approx([8, 16, 12, 24], abs=1e-5)


def find(rows: list[list[float]], **changes: object) -> BoxArrays:
    """Return the boxes of a network with 32x32 images, mapped to a picture of 64x32."""
    table = np.array(rows, np.float32).T
    found = find_boxes(HEAD, (32, 32), table, {}, Limits(0.25, 0.7, 300))
    return move_to_picture(found, Frame(64, 32, 32, 16, 0, -8))


def test_boxes_in_the_picture() -> None:
    rows = [[16, 16, 8, 4, 0.9, 0.1, 0.0], [16.5, 16, 8, 4, 0.8, 0.1, 0.05], [30, 16, 8, 4, 0.1, 0.7, math.pi / 4]]
    found = find(rows)
    assert (found.classes.tolist(), len(found.corners)) == ([0, 1], 2)
    assert found.corners[0] == pytest.approx([24, 12, 40, 20])
    reach = 12 * math.sqrt(0.5)
    assert found.corners[1] == pytest.approx([60 - reach, 16 - reach, 64, 16 + reach], abs=1e-4)  # clipped at the edge


def test_corners_in_a_squashed_picture() -> None:
    """A square standing on a corner becomes a rhombus, not a rectangle, when one axis is stretched."""
    rows = np.array([[16, 16, 8, 8, 0.9, 0.1, math.pi / 4]], np.float32).T
    found = move_to_picture(find_boxes(HEAD, (32, 32), rows, {}, Limits(0.25, 0.7, 300)), Frame(128, 32, 32, 32, 0, 0))
    assert found.outlines is not None
    reach = 4 * math.sqrt(2)
    tips = [[64, 16 + reach], [64 - 4 * reach, 16], [64, 16 - reach], [64 + 4 * reach, 16]]
    assert sorted(found.outlines[0].tolist()) == pytest.approx(np.array(sorted(tips)), abs=1e-4)
    assert found.corners[0] == pytest.approx([64 - 4 * reach, 16 - reach, 64 + 4 * reach, 16 + reach], abs=1e-4)


def test_records_pictures_and_coco() -> None:
    outline = ((5.0, 1.0), (9.0, 5.0), (5.0, 9.0), (1.0, 5.0))
    box = Box("cat", 0, 0.5, 1.0, 1.0, 9.0, 9.0, outline=outline)
    assert Box.from_record(json.loads(json.dumps(box.record))) == box
    assert coco_entry(box, 1, 2)["segmentation"] == [[5.0, 1.0, 9.0, 5.0, 5.0, 9.0, 1.0, 5.0]]
    picture = Image.new("RGB", (500, 500))
    upright, turned = (
        np.array(draw_boxes(picture, [each], (10, 10))).any(axis=2)
        for each in (Box("cat", 0, 0.5, 1.0, 1.0, 9.0, 9.0), box)
    )
    assert upright[400, 50] and not turned[400, 50]  # a point on the side of the bounding box
    assert turned[252, 52] and turned[350, 150]


def test_an_angle_is_for_centres() -> None:
    with pytest.raises(ModelError, match="an angle requires code=centre"):
        BoxHead(2, "columns", "corners", angle=True)
