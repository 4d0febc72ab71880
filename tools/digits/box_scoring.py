"""Score boxes: average precision, precision and recall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class BoxScore(NamedTuple):
    """The mean average precision over all classes, and the precision and recall of the boxes above a confidence."""

    mean_average_precision: float
    precision: float
    recall: float


def iou_of(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the IoU [n, m] of boxes [n, 4] with boxes [m, 4], all specified by their corners."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clip(0).prod(-1) for boxes in (first, second)]
    union = areas[0][:, None] + areas[1][None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def suppress(boxes: np.ndarray, iou: float) -> np.ndarray:
    """Remove boxes that overlap a more confident box of the same class from `boxes`, [n, 6] (class, confidence,
    corners)."""
    boxes = boxes[np.argsort(-boxes[:, 1], kind="stable")]
    survivors: list[int] = []
    overlaps = iou_of(boxes[:, 2:], boxes[:, 2:])
    for index in range(len(boxes)):
        if all(boxes[other, 0] != boxes[index, 0] or overlaps[other, index] <= iou for other in survivors):
            survivors.append(index)
    return boxes[survivors]


def score(answers: Sequence[np.ndarray], truths: Sequence[np.ndarray], classes: int, confidence: float) -> BoxScore:
    """Score predicted boxes [n, 6] (class, confidence, corners) of pictures with true boxes [m, 5] (class, corners).

    A predicted box is correct if it is the most confident prediction for a true box of its class, with an IoU of at
    least 0.5. Average precision is the area under the precision-recall curve, made monotone (as for PASCAL VOC since
    2010).
    """
    rows = []  # class, confidence, correct
    totals = np.zeros(classes)
    for boxes, truth in zip(answers, truths, strict=True):
        np.add.at(totals, truth[:, 0].astype(int), 1)
        matched: set[int] = set()
        boxes = boxes[np.argsort(-boxes[:, 1], kind="stable")]
        overlaps = iou_of(boxes[:, 2:], truth[:, 1:])
        for index, row in enumerate(boxes):
            of_class = [m for m in range(len(truth)) if truth[m, 0] == row[0] and m not in matched]
            best = max(of_class, key=lambda m: overlaps[index, m], default=None)
            right = best is not None and overlaps[index, best] >= 0.5
            if right:
                matched.add(best)  # type: ignore[arg-type]
            rows.append((row[0], row[1], right))
    table = np.array(rows, np.float64).reshape(-1, 3)
    sure = table[:, 1] >= confidence
    right = table[sure, 2].sum()
    averages = [_average_precision(table[table[:, 0] == c], totals[c]) for c in range(classes) if totals[c]]
    return BoxScore(float(np.mean(averages)), right / max(1, sure.sum()), right / max(1.0, totals.sum()))


def _average_precision(rows: np.ndarray, total: float) -> float:
    """Return the area under the precision-recall curve of the predictions (class, confidence, correct) of one class."""
    right = rows[np.argsort(-rows[:, 1], kind="stable"), 2].cumsum()
    recall = np.concatenate([[0.0], right / total])
    precision = np.concatenate([right / np.arange(1, len(right) + 1), [0.0]])
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(recall) * precision[:-1]).sum())
