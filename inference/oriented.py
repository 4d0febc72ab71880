"""Oriented boxes: their corners, their overlap, and the suppression of overlapping ones."""

from __future__ import annotations

import numpy as np

_BLOCK = 128  # number of boxes compared at once with all boxes before them
_LEAST = np.float32(1e-7)


def outlines(boxes: np.ndarray) -> np.ndarray:
    """Return the corners [N, 4, 2] of boxes [N, 5]: centre, width, height and angle in radians, clockwise in the
    picture."""
    middle, sides, angles = boxes[:, None, :2], boxes[:, 2:4] / 2, boxes[:, 4]
    cosines, sines = np.cos(angles), np.sin(angles)
    across = np.stack([cosines, sines], axis=1) * sides[:, :1]
    along = np.stack([-sines, cosines], axis=1) * sides[:, 1:]
    steps = np.stack([across + along, across - along, -across - along, along - across], axis=1)
    return np.asarray(middle + steps)


def enclosing(corners: np.ndarray) -> np.ndarray:
    """Return the upright boxes [N, 4] (x1, y1, x2, y2) around corners [N, 4, 2]."""
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def suppress_oriented(boxes: np.ndarray, scores: np.ndarray, classes: np.ndarray, iou: float) -> np.ndarray:
    """Return the indices of the boxes to keep, in order of decreasing score.

    As in YOLO's implementation, a box is dropped if its overlap with any higher-scoring box of its class exceeds `iou`,
    even if that box is dropped too. `boxes` is [N, 5]; see `outlines`.
    """
    order = np.argsort(-scores, kind="stable")
    is_kept = np.ones(len(order), bool)
    for kind in np.unique(classes):
        places = np.flatnonzero(classes[order] == kind)
        ordered = boxes[order[places]].astype(np.float32)
        for first in range(0, len(ordered), _BLOCK):
            block = ordered[first : first + _BLOCK]
            overlap = overlaps(block, ordered[: first + len(block)])
            is_before = np.arange(overlap.shape[1]) < first + np.arange(len(block))[:, None]
            is_kept[places[first : first + len(block)]] = ~((overlap > iou) & is_before).any(axis=1)
    return order[is_kept]


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the overlap of each box [N, 5] with each of `others` [M, 5], from 0 to 1.

    Boxes are treated as normal distributions: the overlap is 1 minus their Hellinger distance (ProbIoU, Llerena et al.,
    2021).
    """
    (x1, y1, a1, b1, c1), (x2, y2, a2, b2, c2) = _moments(boxes[:, None]), _moments(others[None])
    a, b, c = a1 + a2, b1 + b2, c1 + c2
    x, y = x1 - x2, y1 - y2
    spread = a * b - c * c
    distance = (a * y * y + b * x * x - 2 * c * x * y) / (spread + _LEAST) / 4
    determinants = np.maximum(a1 * b1 - c1 * c1, 0) * np.maximum(a2 * b2 - c2 * c2, 0)
    distance += np.log(spread / (4 * np.sqrt(determinants) + _LEAST) + _LEAST) / 2
    distance = np.clip(distance, _LEAST, np.float32(100))
    return np.asarray(1 - np.sqrt(1 - np.exp(-distance) + _LEAST))


def _moments(boxes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the means of x and y, their variances, and their covariance."""
    x, y, width, height, angle = np.moveaxis(boxes, -1, 0)
    wide, high, cosine, sine = width * width / 12, height * height / 12, np.cos(angle), np.sin(angle)
    return (
        x,
        y,
        wide * cosine * cosine + high * sine * sine,
        wide * sine * sine + high * cosine * cosine,
        (wide - high) * cosine * sine,
    )
