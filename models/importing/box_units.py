"""Correction of guesses about boxes, based on the values that ONNX Runtime computes for the outputs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ..boxes import BoxHead
from ..checks import Shape
from ..errors import ModelError
from ..outputs import Output
from .box_heads import BOXES_PER_CELL, GRIDS

LARGEST_FRACTION = 2.0  # the median is below this for fractions of the image's sides, and above it for pixels
LEAST_ORDERED = 0.9  # minimum share of boxes whose first corner is above and to the left of the second
MOST_ORDERED = 0.5  # maximum share of centres and sizes that have the order of two corners
LARGEST_OFFSET = 4.0  # the median is below this for centres relative to their cell, in cells, and above it for pixels
LEAST_CORRELATION = 0.3  # of the centres of boxes with those of their cells, and of the two corners of boxes
LARGEST_EXCESS = 0.02  # probabilities are in the range from 0 to 1, apart from the rounding of 8-bit files
_CLOSE = 1e-3


def fit_to_values(
    head: BoxHead, outputs: Sequence[tuple[str, np.ndarray | None]], size: tuple[int, int] = (0, 0)
) -> BoxHead | None:
    """Return a head with the code and unit of boxes and the kind of scores indicated by the values, or None if the
    values are not boxes: scores are not from 0 to 1, selected classes are not whole numbers, or boxes are unrelated to
    the cells of their grid.

    `outputs` are the names and values of the outputs for one example, with the primary one first, or empty if they are
    unknown. Values are None if the whole output ends in a function such as a sigmoid, as no table of boxes and scores
    does. `size` is the height and width of the image. Corners in the wrong order, and corners whose values are unknown,
    are not treated as boxes.
    """
    rows = outputs[0][1] if outputs else None
    if rows is None:
        return _without_values(head, bool(outputs))
    numbers = _numbers(head, rows)
    if not _are_scored(head, _table(head, rows)):
        return None
    if head.code == "cells":
        if 0 <= numbers.min() <= numbers.max() <= 1:  # logarithms of sizes would include negative numbers
            return None
        head = _decoded(head, numbers)
    head = _without_priors(head, numbers)
    scores = dict(outputs).get(head.scores_from)
    if head.code not in ("corners", "centre") or head.ended:
        return head if scores is None or head.code != "priors" else _with_kind_of(head, scores)
    if head.code == "corners" and _share_in_order(numbers) < LEAST_ORDERED:
        return None
    is_fraction = float(np.median(np.abs(numbers))) < LARGEST_FRACTION
    head = dataclasses.replace(head, unit="fraction" if is_fraction else "pixels")
    if head.code == "centre" and not is_fraction and _are_corners(numbers, size):
        head = dataclasses.replace(head, code="corners")
    if head.suppress and not _follow_cells(numbers, head.code, size):  # otherwise, a row is a query, not a cell
        return None
    return head if scores is None else _with_kind_of(head, scores)


def _without_values(head: BoxHead, are_known: bool) -> BoxHead | None:
    """Return a head whose table has no values, or None if it is not treated as boxes. `are_known`: the values are
    missing because the whole output ends in a function (see `fit_to_values`)."""
    if head.scores_from:
        return None if head.code in ("corners", "centre") and not head.ended else head
    return None if are_known else head


def _table(head: BoxHead, rows: np.ndarray) -> np.ndarray:
    """Return the values of an output with one row per box."""
    return rows if head.layout == "rows" else rows.T


def _numbers(head: BoxHead, rows: np.ndarray) -> np.ndarray:
    """Return the four numbers of each box: [boxes, 4]."""
    return _table(head, rows)[:, head.columns.box].astype(np.float32)


def _share_in_order(numbers: np.ndarray) -> float:
    """Return the share of rows of four numbers in which the first two are at most the last two, as in corners."""
    return float((numbers[:, :2] <= numbers[:, 2:]).all(axis=1).mean())


def _are_scored(head: BoxHead, rows: np.ndarray) -> bool:
    """Return True if the scores in the rows are probabilities, and the classes of selected boxes whole numbers."""
    if head.ended:
        scores, classes = rows[:, 4], rows[:, 5]
        are_whole = bool((np.abs(classes - np.round(classes)) < _CLOSE).all() and classes.min() > -2)
    else:
        scores, are_whole = rows[:, head.columns.objectness.start : head.columns.scores.stop], True
    if head.scores != "probabilities" or not scores.size:
        return are_whole
    return are_whole and bool(scores.min() > -LARGEST_EXCESS and scores.max() < 1 + LARGEST_EXCESS)


def _decoded(head: BoxHead, boxes: np.ndarray) -> BoxHead:
    """Return a head that reads centres and sizes in pixels if the file already converts cells to pixels."""
    if np.median(np.abs(boxes[:, :2])) < LARGEST_OFFSET or (boxes[:, 2:] <= 0).any():
        return head
    return dataclasses.replace(head, code="centre", unit="pixels", strides=())


def _without_priors(head: BoxHead, boxes: np.ndarray) -> BoxHead:
    """Return a head that reads corners in pixels if the file already adds the offsets to the priors."""
    if head.code != "priors" or _share_in_order(boxes) < LEAST_ORDERED:
        return head
    plain = {"strides": (), "priors": (), "prior_counts": (), "prior_cells": "strides"}
    return dataclasses.replace(head, code="corners", unit="pixels", **plain)  # type: ignore[arg-type]


def with_code(output: Output, shape: Shape, values: np.ndarray | None) -> Output:
    """Return an output of boxes with the code indicated by its values [examples, ...], which may be unknown; `shape` is
    that of one example."""
    if output.boxes is None or values is None:
        return output
    return dataclasses.replace(output, boxes=fit_code(output.boxes, values[0].reshape(shape)))


def fit_code(head: BoxHead, rows: np.ndarray) -> BoxHead:
    """Return a head whose boxes are corners, or centres and sizes, if nearly all of the rows can only be that.

    Corners of small boxes, whose order is arbitrary on random inputs, move together, unlike centres and sizes.
    """
    if head.angle:
        return head
    numbers = _numbers(head, rows)
    are_ordered = _share_in_order(numbers)
    have_sizes = (numbers[:, 2:] >= 0).all(axis=1).mean() >= LEAST_ORDERED
    if are_ordered >= LEAST_ORDERED:
        return dataclasses.replace(head, code="corners")
    if have_sizes and are_ordered <= MOST_ORDERED and not _move_together(numbers[:, :2], numbers[:, 2:]):
        return dataclasses.replace(head, code="centre")
    return head


def _are_corners(numbers: np.ndarray, size: tuple[int, int]) -> bool:
    """Return True if rows of four numbers, one for each cell of a grid, are corners instead of centres and sizes.

    The boxes of a grid are close to their cells: the middle of the corners is closer than the first corner.
    """
    for origins, sides in _grids(len(numbers), size):
        low, high = numbers[:, :2], numbers[:, 2:]
        distances = [float(np.median(np.abs(at - origins - sides / 2) / sides)) for at in (low, (low + high) / 2)]
        return bool(_share_in_order(numbers) >= LEAST_ORDERED and distances[1] < distances[0] / 2)
    return False


def _follow_cells(numbers: np.ndarray, code: str, size: tuple[int, int]) -> bool:
    """Return False if rows of four numbers are as many as boxes of a grid, but unrelated to the positions of its cells.

    Both are compared along each axis that has several cells. If a cell has several boxes, these may be adjacent.
    """
    middles = (numbers[:, :2] + numbers[:, 2:]) / 2 if code == "corners" else numbers[:, :2]
    grids = [*_grids(len(numbers), size), *_grids(len(numbers), size, are_adjacent=True)]
    return not grids or any(_move_together(middles, origins + sides / 2) for origins, sides in grids)


def _move_together(first: np.ndarray, second: np.ndarray) -> bool:
    """Return True if points [count, 2] are correlated with others along both axes, or do not vary along an axis."""
    products = ((first - first.mean(axis=0)) * (second - second.mean(axis=0))).mean(axis=0)
    return bool((products >= LEAST_CORRELATION * first.std(axis=0) * second.std(axis=0)).all())


def _grids(count: int, size: tuple[int, int], are_adjacent: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the origins and sides of the cells of each kind of grid that has `count` boxes, one or three per cell.

    `are_adjacent`: the boxes of a cell are adjacent rows; otherwise, a level has all cells for each of its priors.
    """
    for strides, anchors in itertools.product(GRIDS, BOXES_PER_CELL):
        levels = [BoxHead(1, "rows", "cells", strides=(stride,)).grid(*size) for stride in strides]
        if anchors * sum(len(origins) for origins, _ in levels) == count > 0:
            repeated = [
                [np.repeat(array, anchors, axis=0) if are_adjacent else np.tile(array, (anchors, 1)) for array in level]
                for level in levels
            ]
            yield np.concatenate([origins for origins, _ in repeated]), np.concatenate([s for _, s in repeated])


def _with_kind_of(head: BoxHead, scores: np.ndarray) -> BoxHead:
    """Return a head with the kind of its separate scores [boxes, scores].

    If every row adds up to 1, the scores are probabilities, one of them for the background; other scores from 0 to 1
    are independent probabilities.
    """
    if scores.min() < -_CLOSE or scores.max() > 1 + _CLOSE:
        return dataclasses.replace(head, scores="softmax" if head.background else "logits")
    has_background = bool(np.abs(scores.sum(axis=1) - 1).max() < _CLOSE)
    try:
        return dataclasses.replace(head, background=has_background, classes=scores.shape[1] - has_background)
    except ModelError:  # the only score would be that of the background
        return head
