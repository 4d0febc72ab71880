"""Boxes of heads, compared with independent implementations of the authors' published formulas."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from trninfer.inference.boxes import Limits, find_boxes, move_to_picture
from trninfer.models.frame import frame_of
from trninfer.models.importing.box_spec import BOX_KINDS
from trninfer.models.inputs import ImageInput

ALL = Limits(confidence=0.05, iou=1.0, max_detections=30_000)
HEIGHT, WIDTH = 96, 128
PICTURE = 200, 170  # width and height


def picture(**changes: object) -> ImageInput:
    return ImageInput(3, HEIGHT, WIDTH, "photo", (0.0,) * 3, (1.0,) * 3, WIDTH, **changes)  # type: ignore[arg-type]


def test_yolox() -> None:
    """`demo_postprocess` of Megvii-BaseDetection/YOLOX: offsets and logarithms of sizes, in units of each cell's
    stride."""
    random = np.random.default_rng(0)
    cells = [(x, y, step) for step in (8, 16, 32) for y, x in product(range(HEIGHT // step), range(WIDTH // step))]
    rows = random.normal(0, 1, (len(cells), 4 + 1 + 3)).astype(np.float32)
    rows[:, 4:] = 1 / (1 + np.exp(-rows[:, 4:]))
    ratio = min(HEIGHT / PICTURE[1], WIDTH / PICTURE[0])
    expected = []
    for (x, y, step), (dx, dy, w, h, objectness, *scores) in zip(cells, rows.tolist()):
        centre = np.array([dx + x, dy + y]) * step
        half = np.exp([w, h]) * step / 2
        confidence = objectness * max(scores)
        if confidence > ALL.confidence:
            corners = np.clip(np.concatenate([centre - half, centre + half]) / ratio, 0, PICTURE * 2)
            expected.append([*corners, confidence, int(np.argmax(scores))])
    spec = picture(resize_mode="pad", pad_colour=114, pad_place="corner")
    head = BOX_KINDS["yolox"].head(classes=3)
    found = move_to_picture(find_boxes(head, (HEIGHT, WIDTH), rows, {}, ALL), frame_of(spec, *PICTURE))
    assert len(found.classes) == len(expected) > 100
    _, ordered = zip(*sorted((-row[4], row) for row in expected))
    assert np.abs(found.corners - np.array(ordered)[:, :4]).max() < 1e-3
    assert np.abs(found.confidences - np.array(ordered)[:, 4]).max() < 1e-6
    assert found.classes.tolist() == [row[5] for row in ordered]


def test_retinaface() -> None:
    """`PriorBox`, `decode` and `decode_landm` of biubug6/Pytorch_Retinaface, with its variances of 0.1 and 0.2."""
    random = np.random.default_rng(1)
    priors = [
        ((x + 0.5) * step, (y + 0.5) * step, side)
        for step, sides in ((8, (16, 32)), (16, (64, 128)), (32, (256, 512)))
        for y, x, side in product(range(math.ceil(HEIGHT / step)), range(math.ceil(WIDTH / step)), sides)
    ]
    boxes, scores, points = (random.normal(0, 1, (len(priors), count)).astype(np.float32) for count in (4, 2, 10))
    scores = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    head = BOX_KINDS["retinaface"].head(scores_from="conf", keypoints_from="landms")
    others = {"conf": scores, "landms": points}
    found = find_boxes(head, (HEIGHT, WIDTH), boxes, others, ALL)
    moved = move_to_picture(found, frame_of(picture(resize_mode="squash"), *PICTURE))
    scale = np.array([PICTURE[0] / WIDTH, PICTURE[1] / HEIGHT])
    order = [place for place in np.argsort(-scores[:, 1], kind="stable") if scores[place, 1] > ALL.confidence]
    assert len(moved.confidences) == len(order) > 100
    for place, corners, confidence, landmarks in zip(order, moved.corners, moved.confidences, moved.keypoints):
        x, y, side = priors[place]
        centre = np.array([x, y]) + boxes[place, :2] * 0.1 * side
        half = side * np.exp(boxes[place, 2:] * 0.2) / 2
        right = np.clip(np.array([centre - half, centre + half]) * scale, 0, PICTURE)
        marks = np.clip((np.array([x, y]) + points[place].reshape(5, 2) * 0.1 * side) * scale, 0, PICTURE)
        assert np.abs(corners - right.ravel()).max() < 1e-3 and confidence == scores[place, 1]
        assert np.abs(landmarks - marks).max() < 1e-3
