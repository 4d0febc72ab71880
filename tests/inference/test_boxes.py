"""Boxes: decoding and suppression, compared with plain Python loops over random heads."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.inference.boxes import Limits, find_boxes, move_to_picture, suppress
from trninfer.models.boxes import BoxHead
from trninfer.models.errors import ModelError
from trninfer.models.frame import Frame


def overlap(a, b):
    width, height = (min(a[k + 2], b[k + 2]) - max(a[k], b[k]) for k in (0, 1))
    shared = max(width, 0) * max(height, 0)
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union else 0.0


def greedy(corners, scores, classes, iou):
    """Suppress boxes by the definition of non-maximum suppression."""
    kept = []
    for n in sorted(range(len(scores)), key=lambda n: -scores[n]):
        if all(classes[k] != classes[n] or overlap(corners[k], corners[n]) <= iou for k in kept):
            kept.append(n)
    return kept


@given(st.integers(0, 60), st.integers(1, 3), st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]), st.integers(0, 10**6))
@settings(max_examples=60)
def test_suppression_is_greedy_within_each_class(count, classes, iou, seed):
    random = np.random.default_rng(seed)
    low = random.integers(0, 12, (count, 2))
    corners = np.concatenate([low, low + random.integers(1, 10, (count, 2))], axis=1).astype(np.float32)
    scores = random.permutation(count).astype(np.float32) / 64
    kinds = random.integers(0, classes, count)
    expected = greedy(corners.tolist(), scores.tolist(), kinds.tolist(), iou)
    assert suppress(corners, scores, kinds, iou).tolist() == expected
    assert suppress(corners, scores, kinds, iou, 2).tolist() == expected[:2]


def test_suppression_keeps_the_first_of_equals_and_empty_boxes():
    corners = np.array([[0, 0, 4, 4], [0, 0, 4, 4], [2, 2, 2, 2], [2, 2, 2, 2]], np.float32)
    kept = suppress(corners, np.float32([0.5, 0.5, 0.4, 0.4]), np.zeros(4, int), 0.5)
    assert kept.tolist() == [0, 2, 3]  # an empty box overlaps no other box


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@st.composite
def heads(draw):
    """Draw a head with random rows, and the expected boxes by the definition of its encoding."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    code = draw(st.sampled_from(["centre", "corners", "cells", "priors"]))
    grids = {"strides": (16, 32)} if code in ("cells", "priors") else {}
    if code == "priors":
        grids |= {"prior_counts": (2, 1), "priors": (8.0, 8.0, 16.0, 12.0, 30.0, 30.0)}
    scores = draw(st.sampled_from(["probabilities", "logits"]))
    head = BoxHead(
        draw(st.integers(1, 4)),
        draw(st.sampled_from(["rows", "columns"])),
        code,
        draw(st.sampled_from(["pixels", "fraction"])) if not grids else "pixels",
        scores,
        objectness=draw(st.booleans()),
        masks=(masks := draw(st.sampled_from([0, 3]))),
        prototypes="maps" if masks else "",
        keypoints=(points := draw(st.sampled_from([0, 2]))),
        keypoint_size=draw(st.sampled_from([2, 3])) if points else 0,
        **grids,
    )
    count = head.box_count(40, 64) or draw(st.integers(0, 30))
    table = random.random((count, head.columns.width)).astype(np.float32)
    if code not in ("cells", "priors") and head.unit == "pixels":
        table[:, :4] *= 40
    if code == "corners":
        table[:, 2:4] += table[:, :2]
    if scores == "logits":
        table[:, 4 : head.columns.scores.stop] = table[:, 4 : head.columns.scores.stop] * 6 - 3
    return head, table


def expected_boxes(head, table, limits):
    """Return the boxes, computed with loops: (corners, confidence, class, masks, keypoints) of each, in order of
    decreasing confidence."""
    found = []
    cells = [] if head.code in ("centre", "corners") else list(zip(*head.grid(40, 64)))
    for n, row in enumerate(table.astype(np.float64)):
        start = 4
        objectness = 1.0
        if head.objectness:
            objectness = sigmoid(row[4]) if head.scores == "logits" else row[4]
            start = 5
        scores = row[start : start + head.classes]
        scores = (sigmoid(scores) if head.scores == "logits" else scores) * objectness
        unit = np.array([64, 40, 64, 40]) if head.unit == "fraction" else 1
        a, b, c, d = row[:4] * unit
        if head.code == "cells":
            (x, y), (w, h) = cells[n]
            a, b, c, d = x + a * w, y + b * h, np.exp(c) * w, np.exp(d) * h
        if head.code == "priors":
            (x, y), (w, h) = cells[n]
            a, b, c, d = x + 0.1 * a * w, y + 0.1 * b * h, np.exp(0.2 * c) * w, np.exp(0.2 * d) * h
        corners = [a, b, c, d] if head.code == "corners" else [a - c / 2, b - d / 2, a + c / 2, b + d / 2]
        best = int(scores.argmax())
        if scores[best] > limits.confidence:
            found.append((corners, scores[best], best, row))
    kept = greedy([f[0] for f in found], [f[1] for f in found], [f[2] for f in found], limits.iou)
    return [found[n] for n in kept][: limits.max_detections]


@given(heads(), st.sampled_from([0.1, 0.5]), st.sampled_from([1, 5, 300]))
@settings(max_examples=150, deadline=None)
def test_boxes_are_what_loops_find(case, confidence, most):
    head, table = case
    limits = Limits(confidence, 0.5, most)
    output = table if head.layout == "rows" else np.ascontiguousarray(table.T)
    found = find_boxes(head, (40, 64), output, {}, limits)
    expected = expected_boxes(head, table, limits)
    assert found.classes.tolist() == [each[2] for each in expected]
    assert found.confidences == pytest.approx(np.array([each[1] for each in expected]), abs=1e-5)
    assert found.corners == pytest.approx(np.array([each[0] for each in expected]).reshape(-1, 4), rel=1e-4, abs=1e-3)
    start = head.columns.masks
    assert found.masks == pytest.approx(
        np.array([each[3][start] for each in expected]).reshape(len(expected), head.masks)
    )
    points = np.array([each[3][head.columns.keypoints] for each in expected])
    points = points.reshape(len(expected), head.keypoints, head.keypoint_size or 2)
    if head.unit == "pixels" and head.code != "priors":
        assert found.keypoints == pytest.approx(points)


def test_rows_of_end_to_end_detectors_are_not_suppressed():
    rows = np.array(
        [[0, 0, 9, 9, 0.3, 1], [1, 1, 9, 9, 0.9, 0], [0, 0, 9, 9, 0.8, 7], [0, 0, 1, 1, 0.2, 0]], np.float32
    )
    head = BoxHead(2, "rows", "corners", ended=True)
    found = find_boxes(head, (16, 16), rows, {}, Limits())
    assert found.classes.tolist() == [0, 1]  # class 7 is out of range
    assert found.corners[0].tolist() == [1, 1, 9, 9]
    assert len(find_boxes(head, (16, 16), rows, {}, Limits(max_detections=1)).classes) == 1


def test_an_agnostic_head_selects_boxes_regardless_of_their_classes():
    rows = np.array([[0, 0, 9, 9, 0.6, 0.5], [0, 0, 9, 8, 0.1, 0.4], [20, 0, 29, 9, 0.3, 0]], np.float32)
    by_class, agnostic = (BoxHead(2, "rows", "corners", agnostic=choice) for choice in (False, True))
    assert find_boxes(by_class, (32, 32), rows, {}, Limits()).classes.tolist() == [0, 1, 0]
    assert find_boxes(agnostic, (32, 32), rows, {}, Limits()).classes.tolist() == [0, 0]
    ended = dataclasses.replace(agnostic, suppress=False)  # each box with one class
    found = find_boxes(ended, (32, 32), rows, {}, Limits())
    assert (found.classes.tolist(), found.confidences.tolist()) == ([0, 1, 0], pytest.approx([0.6, 0.4, 0.3]))
    oriented = np.concatenate([rows, np.zeros((3, 1), np.float32)], axis=1)
    for choice, count in ((False, 3), (True, 2)):
        head = BoxHead(2, "rows", "centre", angle=True, agnostic=choice)
        assert len(find_boxes(head, (32, 32), oriented, {}, Limits()).classes) == count


def test_a_head_that_needs_no_suppression_may_answer_a_box_for_two_classes():
    rows = np.array([[0, 0, 9, 9, 0.6, 0.5], [0, 0, 9, 9, 0.1, 0.4], [0, 0, 9, 9, 0.3, 0]], np.float32)
    head = BoxHead(2, "rows", "corners", suppress=False)
    found = find_boxes(head, (16, 16), rows, {}, Limits(iou=0.0))
    assert list(zip(found.classes.tolist(), found.confidences.round(3).tolist())) == [
        (0, 0.6000000238418579),
        (1, 0.5),
        (1, 0.4000000059604645),
    ]


def test_scores_and_landmarks_apart():
    head = BoxHead(
        1,
        "rows",
        "priors",
        scores="softmax",
        background=True,
        strides=(8,),
        priors=(16.0, 16.0),
        prior_counts=(1,),
        keypoints=1,
        keypoint_size=2,
        scores_from="conf",
        keypoints_from="landms",
    )
    rows = np.zeros((4, 4), np.float32)
    others = {"conf": np.float32([[5, 0], [0, 3], [5, 0], [5, 0]]), "landms": np.full((4, 2), 2.5, np.float32)}
    found = find_boxes(head, (16, 16), rows, others, Limits())
    assert found.corners.tolist() == [[4, -4, 20, 12]]
    assert found.confidences == pytest.approx([np.exp(3) / (1 + np.exp(3))])
    assert found.keypoints.tolist() == [[[16, 8]]]


def test_boxes_move_to_the_picture_and_end_at_its_edges():
    head = BoxHead(1, "rows", "corners", keypoints=1, keypoint_size=3)
    rows = np.array([[2, 10, 30, 90, 0.9, 16, 16, 0.5]], np.float32)
    found = find_boxes(head, (32, 32), rows, {}, Limits())
    moved = move_to_picture(found, Frame(64, 32, 32, 16, 0, -8))
    assert moved.corners.tolist() == [[4, 4, 60, 32]]
    assert moved.keypoints.tolist() == [[[32, 16, 0.5]]]


def test_boxes_of_detr() -> None:
    """One class for each box, even if two of its probabilities are high; the last score means "no object"."""
    head = BoxHead(
        3, "rows", unit="fraction", scores="softmax", background=True, background_last=True, suppress=False,
        scores_from="logits",
    )  # fmt: skip
    rows = np.full((4, 4), 0.5, np.float32)
    logits = np.log(np.float32([[0.45, 0.4, 0.05, 0.1], [0.1, 0.1, 0.1, 0.7], [0.1, 0.1, 0.7, 0.1], [1, 1, 1, 1]]))
    found = find_boxes(head, (20, 40), rows, {"logits": logits}, Limits())
    assert found.classes.tolist() == [2, 0] and found.confidences == pytest.approx([0.7, 0.45])
    assert found.corners.tolist() == [[10, 5, 30, 15]] * 2
    with pytest.raises(ModelError, match="background_last requires background"):
        BoxHead(3, background_last=True)
