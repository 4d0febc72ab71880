"""Extract boxes from the output of a detector: decode them, suppress duplicates, and map them to the picture. This code
runs on the host, in NumPy.

Rows are filtered by confidence first, so that only the remaining few are decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..models.boxes import BoxHead
from ..models.errors import ArgumentError
from ..models.frame import Frame
from .oriented import enclosing, outlines, suppress_oriented

CONFIDENCE = 0.25
IOU = 0.7
MAX_DETECTIONS = 300
MAX_CANDIDATES = 30_000  # maximum number of boxes passed to suppression; the most confident boxes are kept
CLASS_OFFSET = 7680.0  # distance in pixels by which the boxes of consecutive classes are moved apart
_LARGEST = np.float32(80)  # maximum logarithm of a size; larger values overflow float32


@dataclass(frozen=True)
class Limits:
    """Limits that select the reported boxes: minimum confidence, maximum overlap (intersection over union), and maximum
    number."""

    confidence: float = CONFIDENCE
    iou: float = IOU
    max_detections: int = MAX_DETECTIONS


def check_limits(confidence: float, iou: float, max_detections: int) -> Limits:
    """Return the limits. Raises ArgumentError for a fraction outside the range [0, 1], or for a maximum number outside
    the range [1, MAX_CANDIDATES]."""
    for name, share in (("confidence", confidence), ("iou", iou)):
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise ArgumentError(f"{name} is {str(share)[:60]}; expected a number from 0 to 1")
    if type(max_detections) is not int or not 1 <= max_detections <= MAX_CANDIDATES:
        raise ArgumentError(
            f"max_detections is {str(max_detections)[:60]}; expected an integer from 1 to {MAX_CANDIDATES}"
        )
    return Limits(float(confidence), float(iou), max_detections)


class BoxArrays(NamedTuple):
    """The K boxes of a picture, in order of decreasing confidence, in pixels of the network's image."""

    corners: np.ndarray  # float32 [K, 4]: x1, y1, x2, y2
    confidences: np.ndarray  # float32 [K]
    classes: np.ndarray  # int64 [K]
    masks: np.ndarray  # float32 [K, masks]: coefficients of the mask prototypes
    keypoints: np.ndarray  # float32 [K, keypoints, 2 or 3]
    oriented: np.ndarray | None = None  # float32 [K, 5]: centre, width, height, angle in the network's image
    outlines: np.ndarray | None = None  # float32 [K, 4, 2]: corners of oriented boxes in the picture


def find_boxes(
    head: BoxHead, size: tuple[int, int], rows: np.ndarray, others: Mapping[str, np.ndarray], limits: Limits
) -> BoxArrays:
    """Return the boxes of one picture.

    `rows` is the primary output in its original shape, `others` contains the other outputs, keyed by name, and `size`
    is the height and width of the network's image.
    """
    table = rows if head.layout == "rows" else rows.T
    candidates, confidences, classes = _candidates(head, table, others, limits)
    corners = _corners(head, size, table, candidates)
    oriented = _oriented(head, corners, table, candidates) if head.angle else None
    if head.suppress and not head.ended:
        groups = np.zeros_like(classes) if head.agnostic else classes
        if oriented is None:
            kept = suppress(corners, confidences, groups, limits.iou, limits.max_detections)
        else:
            kept = suppress_oriented(oriented, confidences, groups, limits.iou)[: limits.max_detections]
            oriented = oriented[kept]
        candidates, confidences, classes, corners = candidates[kept], confidences[kept], classes[kept], corners[kept]
    masks = np.asarray(table[candidates, head.columns.masks], np.float32)
    return BoxArrays(corners, confidences, classes, masks, _keypoints(head, size, table, others, candidates), oriented)


def _candidates(
    head: BoxHead, table: np.ndarray, others: Mapping[str, np.ndarray], limits: Limits
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (box, score, class) for the boxes before suppression, in order of decreasing score."""
    if head.ended:
        return _ended(head, table, limits)
    scores = _scores(head, table, others)
    if head.suppress:
        return _confident(scores, limits)
    has_one_class = head.agnostic or head.scores == "softmax"
    return (_likeliest if has_one_class else _highest)(scores, limits)


def suppress(
    corners: np.ndarray, scores: np.ndarray, classes: np.ndarray, iou: float, most: int | None = None
) -> np.ndarray:
    """Return the indices of the boxes to keep, at most `most`, in order of decreasing score.

    Applies greedy suppression within each class, like `torchvision.ops.batched_nms`: a box is dropped if its
    intersection over union with a kept box of higher score exceeds `iou`. Ties keep their order. `corners` is [N, 4].
    """
    order = np.argsort(-scores, kind="stable")
    # Boxes of different classes are moved apart by the same offset as in YOLO's implementation, so that overlaps are
    # rounded in the same way.
    offset = max(CLASS_OFFSET, float(np.abs(corners).max(initial=0)) + 1)
    boxes = corners[order].astype(np.float32) + classes[order, None].astype(np.float32) * np.float32(offset)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    remaining = np.arange(len(order))
    survivors: list[int] = []
    while len(remaining) and (most is None or len(survivors) < most):
        first, rest = remaining[0], remaining[1:]
        survivors.append(int(first))
        overlap = _intersections(boxes[first], boxes[rest])
        with np.errstate(divide="ignore", invalid="ignore"):
            is_close = overlap / (areas[first] + areas[rest] - overlap) > np.float32(iou)
        remaining = rest[~is_close]
    return order[survivors]


def _intersections(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the intersection area of a box with each of the boxes `others` [N, 4]."""
    low = np.maximum(box[:2], others[:, :2])
    high = np.minimum(box[2:], others[:, 2:])
    sides = np.maximum(high - low, 0)
    return np.asarray(sides[:, 0] * sides[:, 1])


def _ended(head: BoxHead, table: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the positions, scores and classes of the sufficiently confident rows in the output of an end-to-end
    detector, in order of decreasing score."""
    start = head.columns.scores.start
    scores = table[:, start]
    classes = np.rint(table[:, start + 1]).astype(np.int64)
    is_good = (scores > limits.confidence) & (classes >= 0) & (classes < head.classes)
    rows = np.flatnonzero(is_good)
    rows = rows[np.argsort(-scores[rows], kind="stable")[: limits.max_detections]]
    return rows, scores[rows].astype(np.float32), classes[rows]


def _confident(scores: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (box, score, class) for the sufficiently confident boxes with the highest scores, before suppression."""
    classes = scores.argmax(axis=1)
    best = scores[np.arange(len(scores)), classes]
    rows = np.flatnonzero(best > limits.confidence)
    rows = rows[np.argsort(-best[rows], kind="stable")[:MAX_CANDIDATES]]
    return rows, best[rows], classes[rows]


def _highest(scores: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (box, score, class) for the highest scores among the boxes with the highest maximum scores.

    An end-to-end YOLO makes the same selection: first `max_detections` boxes, then the same number of their scores, so
    that a box can be returned with two classes.
    """
    most = min(limits.max_detections, len(scores))
    rows = np.argsort(-scores.max(axis=1), kind="stable")[:most]
    flat = scores[rows].ravel()
    places = np.argsort(-flat, kind="stable")[:most]
    places = places[flat[places] > limits.confidence]
    return rows[places // scores.shape[1]], flat[places].astype(np.float32), places % scores.shape[1]


def _likeliest(scores: np.ndarray, limits: Limits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (box, score, class) for the boxes with the highest maximum scores, each with its most probable class, as a
    DETR and an end-to-end YOLO with `agnostic_nms` do."""
    best = scores.max(axis=1)
    rows = np.argsort(-best, kind="stable")[: limits.max_detections]
    rows = rows[best[rows] > limits.confidence]
    return rows, best[rows].astype(np.float32), scores[rows].argmax(axis=1)


def _scores(head: BoxHead, table: np.ndarray, others: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the probability of each class for each box, float32 [N, classes]."""
    places = head.columns
    scores = others[head.scores_from] if head.scores_from else table[:, places.scores]
    scores = scores.astype(np.float32, copy=False)
    if head.scores == "softmax":
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores = scores / scores.sum(axis=1, keepdims=True)
    elif head.scores == "logits":
        scores = _sigmoid(scores)
    if head.objectness:
        objectness = table[:, places.objectness].astype(np.float32, copy=False)
        scores = scores * (_sigmoid(objectness) if head.scores == "logits" else objectness)
    if head.background:
        return scores[:, :-1] if head.background_last else scores[:, 1:]
    return scores


def _sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x)) without overflow."""
    return np.asarray(np.float32(0.5) * (np.float32(1) + np.tanh(np.float32(0.5) * x)))


def _corners(head: BoxHead, size: tuple[int, int], table: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Decode the boxes `chosen` of a table to corners [K, 4] in pixels."""
    height, width = size
    numbers = table[chosen, head.columns.box].astype(np.float32)
    unit = np.array((width, height, width, height) if head.unit == "fraction" else (1, 1, 1, 1), np.float32)
    if head.code == "corners":
        return np.asarray(numbers * unit)
    if head.code == "centre":
        middle, sides = (numbers * unit)[:, :2], (numbers * unit)[:, 2:]
    else:
        origins, sizes = (cells[chosen] for cells in head.grid(height, width))
        steps, logarithms = numbers[:, :2], numbers[:, 2:]
        if head.code == "priors":
            steps, logarithms = steps * np.float32(head.variances[0]), logarithms * np.float32(head.variances[1])
        middle, sides = origins + steps * sizes, np.exp(np.minimum(logarithms, _LARGEST)) * sizes
    half = sides / np.float32(2)
    return np.concatenate([middle - half, middle + half], axis=1)


def _oriented(head: BoxHead, corners: np.ndarray, table: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the oriented boxes [K, 5] of the rows `chosen`, whose corners before the rotation are `corners`."""
    middle, sides = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    angles = table[chosen, head.columns.angle].astype(np.float32)
    return np.concatenate([middle, sides, angles], axis=1)


def _keypoints(
    head: BoxHead, size: tuple[int, int], table: np.ndarray, others: Mapping[str, np.ndarray], chosen: np.ndarray
) -> np.ndarray:
    """Return the keypoints [K, keypoints, 2 or 3] of the boxes `chosen`, in pixels."""
    if not head.keypoints:
        return np.empty((len(chosen), 0, 2), np.float32)
    source = others[head.keypoints_from] if head.keypoints_from else table[:, head.columns.keypoints]
    points = source[chosen].astype(np.float32).reshape(len(chosen), head.keypoints, head.keypoint_size)
    if head.code == "priors":
        origins, sizes = (cells[chosen, None] for cells in head.grid(*size))
        points[..., :2] = origins + points[..., :2] * np.float32(head.variances[0]) * sizes
    elif head.unit == "fraction":
        points[..., :2] *= np.array((size[1], size[0]), np.float32)
    return points


def move_to_picture(found: BoxArrays, frame: Frame) -> BoxArrays:
    """Convert boxes to pixels of the picture, clipped to its edges; outlines are not clipped."""
    if found.oriented is not None:
        turned = _outlines(found.oriented, frame)
        last = np.array((frame.width, frame.height) * 2, np.float32)
        return found._replace(corners=np.clip(enclosing(turned), np.float32(0), last), outlines=turned)
    corners = frame.to_picture(found.corners.reshape(-1, 2, 2)).reshape(-1, 4)
    keypoints = found.keypoints.copy()
    keypoints[..., :2] = frame.to_picture(keypoints[..., :2])
    return found._replace(corners=corners, keypoints=keypoints)


def _outlines(oriented: np.ndarray, frame: Frame) -> np.ndarray:
    """Return the corners of oriented boxes [K, 5] in the picture, float32 [K, 4, 2].

    A box remains a rectangle unless the picture was resized without preserving its aspect ratio. The sides of the
    rectangle are divided by the scales, as in YOLO's implementation.
    """
    scale, first = np.array(frame.scale, np.float32), np.array((frame.left, frame.top), np.float32)
    if frame.is_squashed:
        return (outlines(oriented) + first) / scale
    middle = (oriented[:, :2] + first) / scale
    return outlines(np.concatenate([middle, oriented[:, 2:4] / scale, oriented[:, 4:]], axis=1))
