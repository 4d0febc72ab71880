"""Guessed boxes are checked against values: fractions or pixels, order of corners, and kinds of scores."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_chain import Chain, checked
from trninfer.models.boxes import BoxHead
from trninfer.models.importing.box_units import fit_code, fit_to_values

HEAD = BoxHead(2, "rows", "corners", scores_from="scores", background=True)
PLAIN = BoxHead(2, "columns", "centre")


def corners(count: int = 50) -> np.ndarray:
    """Return random boxes in an image, as fractions of its sides."""
    low, sides = np.random.default_rng(0).uniform(0, 0.5, (2, count, 2))
    return np.concatenate([low, low + sides], axis=1)


def fitted(head: BoxHead, rows: np.ndarray | None, scores: np.ndarray | None = None) -> BoxHead:
    found = fit_to_values(head, [("boxes", rows), ("scores", scores)])
    assert found is not None
    return found


@pytest.mark.parametrize(("scale", "unit"), [(1, "fraction"), (300, "pixels"), (32, "pixels")])
def test_the_unit_is_that_of_the_values(scale: float, unit: str) -> None:
    for given in ("pixels", "fraction"):
        head = dataclasses.replace(HEAD, unit=given)
        assert fitted(head, corners() * scale).unit == unit
        columns = np.concatenate([corners().T * scale, np.full((2, 50), 0.5)])
        assert fitted(dataclasses.replace(PLAIN, unit=given), columns).unit == unit


def test_cells_that_the_file_has_converted_are_read_as_pixels() -> None:
    """YOLOX exports either raw numbers of each cell or, with `decode_in_inference`, boxes in pixels."""
    head = BoxHead(2, "rows", "cells", objectness=True, strides=(8, 16, 32))
    random = np.random.default_rng(0)
    raw = np.concatenate([random.normal(0, 1, (84, 4)), random.uniform(0, 1, (84, 3))], axis=1)
    assert fitted(head, raw) == head
    decoded = np.concatenate([random.uniform(0, 64, (84, 2)), np.exp(raw[:, 2:4]) * 8, raw[:, 4:]], axis=1)
    read = fitted(head, decoded)
    assert (read.code, read.unit, read.strides, read.objectness) == ("centre", "pixels", (), True)


@pytest.mark.parametrize("head", [PLAIN, BoxHead(2, "rows", "cells", objectness=True, strides=(8, 16, 32))])
@pytest.mark.parametrize("code", ["corners", "centre"])
def test_boxes_of_cells_are_corners_or_centres(head: BoxHead, code: str) -> None:
    """The boxes of an anchor-free detector are close to their cells."""
    random = np.random.default_rng(0)
    first, sides = BoxHead(1, "rows", "cells", strides=(8, 16, 32)).grid(64, 96)
    before, after = random.uniform(0, 6, (2, len(first), 2)) * sides
    low, high = first + sides / 2 - before, first + sides / 2 + after
    boxes = [low, high] if code == "corners" else [(low + high) / 2, high - low]
    rows = np.concatenate([*boxes, random.uniform(0, 1, (len(first), 3))], axis=1)
    found = fit_to_values(head, [("boxes", rows if head.layout == "rows" else rows[:, :-1].T)], (64, 96))
    assert found is not None and (found.code, found.unit) == (code, "pixels")


@pytest.mark.parametrize("code", ["corners", "centre"])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_the_code_of_a_grid_follows_from_the_values(code: str, layout: str) -> None:
    """Ultralytics' exporter writes corners before the suppression of overlaps, and otherwise centres."""
    random = np.random.default_rng(0)
    first, sides = BoxHead(1, "rows", "cells", strides=(8, 16, 32)).grid(64, 96)
    before, after = random.uniform(0, 6, (2, len(first), 2)) * sides
    low, high = first + sides / 2 - before, first + sides / 2 + after
    rows = np.concatenate([low, high] if code == "corners" else [(low + high) / 2, high - low], axis=1)
    rows = np.concatenate([rows, random.uniform(0, 1, (len(first), 2))], axis=1)
    for guess in ("corners", "centre"):
        head = BoxHead(2, layout, guess)
        assert fit_code(head, rows if layout == "rows" else rows.T).code == code
        far = random.normal(0, 1000, rows.shape)  # the distances of YOLO26 are not limited
        assert fit_code(head, far if layout == "rows" else far.T).code == guess
    oriented = BoxHead(1, "rows", "centre", angle=True)
    assert fit_code(oriented, rows) == oriented


@pytest.mark.parametrize("size", [96, 640])
@pytest.mark.parametrize("distance", [0.0, 0.3])
def test_corners_in_any_order_are_no_sizes(size: int, distance: float) -> None:
    """On random inputs, YOLO26's distances from a cell may be of any sign, and are often small."""
    first, sides = BoxHead(1, "rows", "cells", strides=(8, 16, 32)).grid(size, size)
    distances = np.random.default_rng(0).normal(distance, 0.5, (2, *first.shape)) * sides
    rows = np.concatenate([first - distances[0], first + distances[1], np.zeros((len(first), 2))], axis=1)
    head = BoxHead(2, "rows", "corners")
    assert fit_code(head, rows) == head


def test_offsets_are_no_corners() -> None:
    offsets = np.random.default_rng(0).standard_normal((60, 4))
    assert fit_to_values(HEAD, [("boxes", offsets), ("scores", None)]) is None
    assert fit_to_values(HEAD, [("boxes", None), ("scores", None)]) is None
    assert fit_to_values(PLAIN, [("boxes", None)]) is None  # all of it ends in a sigmoid
    assert fit_to_values(PLAIN, []) == PLAIN
    cells = BoxHead(2, "rows", "cells", strides=(8,), scores_from="scores")
    assert fitted(cells, offsets) is cells


def test_scores_are_of_the_kind_of_the_values() -> None:
    logits = np.random.default_rng(0).standard_normal((50, 3))
    assert fitted(HEAD, corners(), logits).scores == "softmax"
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    found = fitted(HEAD, corners(), shares)
    assert (found.scores, found.background, found.classes) == ("probabilities", True, 2)
    found = fitted(HEAD, corners(), 1 / (1 + np.exp(-logits)))
    assert (found.scores, found.background, found.classes) == ("probabilities", False, 3)


@pytest.mark.parametrize(("ending", "kind"), [("pixels", "boxes"), ("fraction", "boxes"), ("offsets", "values")])
def test_boxes_with_separate_scores_and_no_names(ending: str, kind: str, tmp_path: Path) -> None:
    """Corners from an exporter that numbers its outputs; offsets from priors require --boxes, as a note states."""
    chain = Chain(3, 12, 16)
    chain.inputs[0] = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 12, 16))
    for channels, op in ((2, "Sigmoid"), (2, "Sigmoid"), (4, "Identity"), (3, "Identity")):
        chain.value = "x"
        chain.conv((3, channels), pads=[1] * 4)
        chain.add(op)
        chain.add("Transpose", perm=[0, 2, 3, 1])
        chain.add("Reshape", chain.constant([1, -1, channels]))
    low, sides, offsets, logits = (f"value{number}" for number in (3, 7, 11, 15))
    boxes = offsets
    if ending != "offsets":
        chain.add("Concat", chain.add("Add", sides, first=low), first=low, axis=2)
        boxes = chain.add("Mul", chain.constant(np.array(16.0 if ending == "pixels" else 0.5)))
    scores = chain.add("Softmax", first=logits, axis=2)
    imported = checked(chain.model(outputs=[boxes, scores]), tmp_path)
    assert imported.network.output.kind == kind
    assert any("--boxes" in note for note in imported.notes)
    if kind == "boxes":
        head = imported.network.output.boxes
        assert head is not None and (head.unit, head.background, head.classes) == (ending, True, 2)


YOLO5 = BoxHead(2, "rows", "centre", objectness=True)
ENDED = BoxHead(2, "rows", "corners", ended=True)


@pytest.mark.parametrize("head", [PLAIN, YOLO5, BoxHead(2, "rows", "cells", objectness=True, strides=(8, 16, 32))])
@pytest.mark.parametrize("column", [4, 5])
def test_raw_numbers_instead_of_scores_are_no_boxes(head: BoxHead, column: int) -> None:
    """An embedding or a table of features may have the shape of a detector's output by coincidence."""
    rows = np.random.default_rng(0).uniform(0, 1, (84, head.columns.width))
    for number in (-0.3, 1.3):
        rows[7, column] = number
        assert fit_to_values(head, [("boxes", rows.T if head.layout == "columns" else rows)], (64, 64)) is None
    rows[7, column] = 1.0
    rows[5, 2] = -1.0 if head.code == "cells" else 0.5
    assert fitted(head, rows.T if head.layout == "columns" else rows).classes == 2


def test_selected_boxes_have_a_score_and_a_class() -> None:
    rows = np.concatenate([corners(), np.full((50, 1), 0.5), np.arange(50)[:, None] % 3 - 1], axis=1)
    assert fitted(ENDED, rows) == ENDED
    for column, number in ((4, 1.3), (4, -1.0), (5, 0.5), (5, -7)):
        other = rows.copy()
        other[3, column] = number
        assert fit_to_values(ENDED, [("boxes", other)]) is None


def test_a_table_of_features_is_reported_as_values(tmp_path: Path) -> None:
    """As many rows as YOLOX has cells for an image of 64x64."""
    for shape, function, kind in (
        ((84, 7), "Identity", "yolox"),
        ((84, 7), "Sigmoid", "yolox"),
        ((9, 85), "Sigmoid", "yolov8"),  # 85 features, as many as cells of four strides
        ((252, 6), "Sigmoid", "yolov5"),
    ):
        chain = Chain(3, 64, 64)
        chain.conv((3, 2), (8, 8), strides=[8, 8])
        chain.add("Flatten")
        chain.gemm(128, math.prod(shape))
        chain.add(function)
        chain.add("Reshape", chain.constant([-1, *shape]))
        imported = checked(chain.model(), tmp_path)
        assert imported.network.output.kind == "values"
        assert any(f"of boxes of {kind}, but not their values" in note for note in imported.notes)


def test_an_ordered_table_beside_one_score_per_row_is_reported_as_values(tmp_path: Path) -> None:
    """As many rows as a grid has cells for an image of 32x32; in each row, the first two numbers are smaller."""
    chain = Chain(3, 32, 32)
    chain.conv((3, 2), (8, 8), strides=[8, 8])
    features = chain.add("Flatten")
    tables = []
    for width in (2, 2, 1):
        chain.value = features
        chain.gemm(32, 21 * width)
        chain.add("Sigmoid")
        tables.append(chain.add("Reshape", chain.constant([-1, 21, width])))
    low, sides, scores = tables
    rows = chain.add("Concat", chain.add("Add", sides, first=low), first=low, axis=2)
    imported = checked(chain.model(outputs=[rows, scores]), tmp_path)
    assert imported.network.output.kind == "values"
    assert any("may be boxes and their scores" in note for note in imported.notes)


@pytest.mark.parametrize("order", ["cell, anchor", "anchor, cell"])
@pytest.mark.parametrize("anchors", [1, 3])
def test_boxes_with_separate_scores_follow_the_cells_of_their_grid(order: str, anchors: int) -> None:
    """As in YOLO-NAS."""
    head = BoxHead(2, "rows", "corners", scores_from="scores")
    random = np.random.default_rng(0)
    rows = []
    for stride in (8, 16, 32):
        cells, _ = BoxHead(1, "rows", "cells", strides=(stride,)).grid(64, 96)
        cells = np.tile(cells, (anchors, 1)) if order == "anchor, cell" else np.repeat(cells, anchors, axis=0)
        middles = cells + random.uniform(-1, 2, cells.shape) * stride
        sides = random.uniform(1, 5, cells.shape) * stride
        rows.append(np.concatenate([middles - sides / 2, middles + sides / 2], axis=1))
    table = np.concatenate(rows)
    scores = random.uniform(0, 1, (len(table), 2))
    assert fit_to_values(head, [("boxes", table), ("scores", scores)], (64, 96)) == head
    assert fit_to_values(head, [("boxes", random.permutation(table)), ("scores", scores)], (64, 96)) is None


@pytest.mark.parametrize("anchors", [1, 3])
@pytest.mark.parametrize("unit", [1.0, 1 / 64])
def test_boxes_follow_the_cells_of_their_grid(anchors: int, unit: float) -> None:
    """Three boxes for each cell, as in YOLOv5, are ordered by stride, anchor and cell."""
    random = np.random.default_rng(0)
    rows = []
    for stride in (8, 16, 32):
        cells, _ = BoxHead(1, "rows", "cells", strides=(stride,)).grid(64, 64)
        cells = np.tile(cells, (anchors, 1))
        middles = cells + random.uniform(-2, 3, cells.shape) * stride
        rows.append(np.concatenate([middles, random.uniform(1, 9, cells.shape) * stride], axis=1))
    boxes = np.concatenate(rows) * unit
    table = np.concatenate([boxes, random.uniform(0, 1, (len(boxes), 3))], axis=1)
    assert fit_to_values(YOLO5, [("boxes", table)], (64, 64)) is not None
    table[:, :4] = random.permutation(table[:, :4])
    assert fit_to_values(YOLO5, [("boxes", table)], (64, 64)) is None
