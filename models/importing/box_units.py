"""Correction of guesses about boxes, based on the values that ONNX Runtime computes for the outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ..boxes import BoxHead
from ..errors import ModelError
from .box_heads import GRIDS

LARGEST_FRACTION = 2.0  # the median is below this for fractions of the image's sides, and above it for pixels
LEAST_ORDERED = 0.9  # minimum share of boxes whose first corner is above and to the left of the second
LARGEST_OFFSET = 4.0  # the median is below this for centres relative to their cell, in cells, and above it for pixels
LARGEST_EXCESS = 0.02  # probabilities are in the range from 0 to 1, apart from the rounding of 8-bit files
_CLOSE = 1e-3


def fit_to_values(
    head: BoxHead, outputs: Sequence[tuple[str, np.ndarray | None]], size: tuple[int, int] = (0, 0)
) -> BoxHead | None:
    """Return a head with the code and unit of boxes and the kind of scores indicated by the values, or None if the
    values are not boxes, because scores are not from 0 to 1 or selected classes are not whole numbers.

    `outputs` are the names and values of the outputs for one example, with the primary one first; values may be
    unknown. `size` is the height and width of the image. Corners in the wrong order, and corners whose values are
    unknown, are not treated as boxes.
    """
    rows = outputs[0][1] if outputs else None
    if rows is not None and not _are_scored(head, rows if head.layout == "rows" else rows.T):
        return None
    if head.code == "cells" and rows is not None:
        head = _decoded(head, rows if head.layout == "rows" else rows.T)
    if head.code not in ("corners", "centre") or head.ended:
        return head
    if rows is None:
        return None if head.scores_from else head
    numbers = (rows if head.layout == "rows" else rows.T)[:, head.columns.box].astype(np.float32)
    if head.code == "corners" and (numbers[:, :2] <= numbers[:, 2:]).all(axis=1).mean() < LEAST_ORDERED:
        return None
    is_fraction = float(np.median(np.abs(numbers))) < LARGEST_FRACTION
    head = dataclasses.replace(head, unit="fraction" if is_fraction else "pixels")
    if head.code == "centre" and not is_fraction and _are_corners(numbers, size):
        head = dataclasses.replace(head, code="corners")
    scores = dict(outputs).get(head.scores_from)
    return head if scores is None else _with_kind_of(head, scores)


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


def _decoded(head: BoxHead, rows: np.ndarray) -> BoxHead:
    """Return a head that reads centres and sizes in pixels if the file already converts cells to pixels."""
    boxes = rows[:, head.columns.box].astype(np.float32)
    if np.median(np.abs(boxes[:, :2])) < LARGEST_OFFSET or (boxes[:, 2:] <= 0).any():
        return head
    return dataclasses.replace(head, code="centre", unit="pixels", strides=())


def _are_corners(numbers: np.ndarray, size: tuple[int, int]) -> bool:
    """Return True if rows of four numbers, one for each cell of a grid, are corners instead of centres and sizes.

    The boxes of a grid are close to their cells: the middle of the corners is closer than the first corner.
    """
    for strides in GRIDS:
        origins, sides = BoxHead(1, "rows", "cells", strides=strides).grid(*size)
        if len(origins) == len(numbers) > 0:
            low, high = numbers[:, :2], numbers[:, 2:]
            distances = [float(np.median(np.abs(at - origins - sides / 2) / sides)) for at in (low, (low + high) / 2)]
            return bool((low <= high).all(axis=1).mean() >= LEAST_ORDERED and distances[1] < distances[0] / 2)
    return False


def _with_kind_of(head: BoxHead, scores: np.ndarray) -> BoxHead:
    """Return a head with the kind of its separate scores [boxes, scores].

    Rows that add up to 1 are probabilities with a background, and other numbers from 0 to 1 are independent.
    """
    if scores.min() < -_CLOSE or scores.max() > 1 + _CLOSE:
        return dataclasses.replace(head, scores="softmax" if head.background else "logits")
    has_background = bool(np.abs(scores.sum(axis=1) - 1).max() < _CLOSE)
    try:
        return dataclasses.replace(head, background=has_background, classes=scores.shape[1] - has_background)
    except ModelError:  # a single score, for the background
        return head
