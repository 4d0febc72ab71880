"""Detections: the boxes of a picture as predictions, with their labels, masks and keypoints."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np

from ..models.boxes import BoxHead
from ..models.frame import Frame, frame_of, own_frame
from ..models.inputs import ImageInput
from ..models.network import Network
from .box import Box, RunLengths
from .boxes import BoxArrays, Limits, find_boxes, move_to_picture
from .class_maps import map_record
from .predictions import Prediction

Sizes = MutableMapping["str | int", tuple[int, int]]  # name to (width, height) of in-flight pictures

_DECIMALS = 3  # number of decimals of pixel coordinates
_DIGITS = 6  # number of decimals of a confidence
_BAND_PIXELS = 1 << 20  # number of pixels of a mask that are computed at once


def answer_record(answer: Prediction) -> dict[str, Any]:
    """Return a prediction as plain values, including boxes or a class map if there are any."""
    record = dataclasses.asdict(dataclasses.replace(answer, boxes=None, size=None, map=None))
    del record["boxes"], record["size"], record["map"]
    if answer.shape is None:
        del record["shape"]
    return {**record, **picture_record(answer), **map_record(answer.map)}


def picture_record(answer: Prediction) -> dict[str, Any]:
    """Return the width, height and boxes of a picture as plain values; empty for a prediction without boxes."""
    if answer.boxes is None:
        return {}
    width, height = answer.size or (None, None)
    return {"width": width, "height": height, "boxes": [box.record for box in answer.boxes]}


def read_picture_record(record: dict[str, Any]) -> dict[str, Any]:
    """Parse the fields `boxes` and `size` of a prediction. Raises TypeError or ValueError if they are malformed."""
    if "boxes" not in record:
        return {}
    width, height = record["width"], record["height"]
    if type(width) is not int or type(height) is not int:
        raise ValueError
    return {"boxes": tuple(map(Box.from_record, record["boxes"])), "size": (width, height)}


class Detector:
    """Converts the output of a network of boxes to predictions.

    `sizes` contains the width and height of each picture until its prediction is made. Inputs without a size, such as
    arrays, are treated as pictures of the size of the network's image.
    """

    def __init__(self, limits: Limits, sizes: Sizes) -> None:
        self.limits = limits
        self.sizes = sizes

    def __call__(
        self, names: Sequence[str | int], network: Network, classes: np.ndarray, probabilities: np.ndarray
    ) -> list[Prediction]:
        """Return the prediction for each input; see `make_predictions`."""
        spec, head = network.input, network.output.boxes
        assert isinstance(spec, ImageInput) and head is not None
        parts = network.unpack(probabilities)
        answers = []
        for number, name in enumerate(names):
            rows, *others = (
                part[number].reshape(output.shape) for part, output in zip(parts, network.named_outputs, strict=True)
            )
            by_name = {output.name: array for output, array in zip(network.others, others)}
            picture_boxes = find_boxes(head, (spec.height, spec.width), rows, by_name, self.limits)
            size = self.sizes.pop(name, None)
            is_photo = size is not None and spec.preprocess == "photo"
            frame = frame_of(spec, *size) if size is not None and is_photo else own_frame(spec)
            boxes = _boxes(head, network.labels, move_to_picture(picture_boxes, frame), frame, spec, by_name)
            answers.append(Prediction(name, None, None, None, (), boxes=boxes, size=(frame.width, frame.height)))
        return answers


def _boxes(
    head: BoxHead,
    labels: Sequence[str],
    found: BoxArrays,
    frame: Frame,
    spec: ImageInput,
    outputs: dict[str, np.ndarray],
) -> tuple[Box, ...]:
    """Return the boxes in pixels of the picture, excluding boxes with an empty mask."""
    boxes = []
    for number, (corners, confidence, kind) in enumerate(zip(found.corners, found.confidences, found.classes)):
        mask = None
        if head.masks:
            mask = find_mask(found.masks[number], outputs[head.prototypes], corners, frame, (spec.height, spec.width))
            if mask is None:
                continue
        x1, y1, x2, y2 = (round(float(side), _DECIMALS) for side in corners)
        points = found.keypoints[number].astype(float).round(_DECIMALS).tolist()
        outline = [] if found.outlines is None else found.outlines[number].astype(float).round(_DECIMALS).tolist()
        boxes.append(
            Box(
                label=labels[kind],
                class_index=int(kind),
                confidence=round(float(confidence), _DIGITS),
                x1=x1,
                y1=y1,
                x2=x2,
                y2=y2,
                keypoints=tuple(map(tuple, points)),
                mask=mask,
                outline=tuple((x, y) for x, y in outline),
            )
        )
    return tuple(boxes)


def find_mask(
    coefficients: np.ndarray, prototypes: np.ndarray, corners: np.ndarray, frame: Frame, size: tuple[int, int]
) -> RunLengths | None:
    """Return the pixels of a box [x1, y1, x2, y2] at which the weighted sum of prototypes is positive, or None if there
    are none.

    `prototypes` [masks, h, w] cover the network's image of `size` (height, width) at a lower resolution. As in YOLO's
    exporter, their sum is first enlarged until the padding ends at a pixel boundary, and then interpolated at the
    pixels of the picture.
    """
    left, top = (max(0, int(np.ceil(side))) for side in corners[:2])
    right, bottom = min(frame.width, int(np.ceil(corners[2]))), min(frame.height, int(np.ceil(corners[3])))
    if right <= left or bottom <= top:
        return None
    small = np.tensordot(coefficients, prototypes.astype(np.float32, copy=False), 1)
    step = _pixels_of_a_step(frame, size, small.shape)
    image = _interpolated(small, (np.arange(size[0] // step) + 0.5) * (small.shape[0] * step / size[0]) - 0.5)
    image = _interpolated(image.T, (np.arange(size[1] // step) + 0.5) * (small.shape[1] * step / size[1]) - 0.5).T
    first_x, first_y = max(0, -frame.left), max(0, -frame.top)  # exclude the padding
    last_x, last_y = frame.resized_width - frame.left, frame.resized_height - frame.top
    image = image[first_y // step : -(-last_y // step), first_x // step : -(-last_x // step)]
    scale_x, scale_y = frame.scale
    columns = ((np.arange(left, right) + 0.5) * scale_x - frame.left - first_x) / step - 0.5
    rows = ((np.arange(top, bottom) + 0.5) * scale_y - frame.top - first_y) / step - 0.5
    image = _interpolated(image, rows).T
    inside = np.empty((len(rows), len(columns)), bool)
    band = max(1, _BAND_PIXELS // len(rows))
    for first in range(0, len(columns), band):
        inside[:, first : first + band] = _interpolated(image, columns[first : first + band]).T > 0
    return encode_mask(inside, left, top, frame.width, frame.height)


def _pixels_of_a_step(frame: Frame, size: tuple[int, int], small: tuple[int, ...]) -> int:
    """Return the number of pixels of the network's image per pixel of the enlarged sum of prototypes.

    It is the largest divisor of the prototypes' step that also divides the positions of the picture's edges.
    """
    step = size[0] // small[0]
    if (step * small[0], step * small[1]) != size:
        return 1
    edges = (frame.left, frame.top, frame.resized_width - frame.left, frame.resized_height - frame.top)
    inner = [edge for edge, last in zip(edges, (0, 0, size[1], size[0])) if 0 < abs(edge) < (last or math.inf)]
    return math.gcd(step, *inner)


def _interpolated(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Interpolate rows of `values` at fractional positions, repeating the values at the edges."""
    places = np.clip(places, 0, len(values) - 1)
    before = np.floor(places).astype(np.int64)
    share = (places - before).astype(np.float32)[:, None]
    after = np.minimum(before + 1, len(values) - 1)
    return np.asarray(values[before] * (1 - share) + values[after] * share)


def _runs(inside: np.ndarray, begin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return, for each run in the columns of a mask, the column, the first row, and the row after the last."""
    edges = np.diff(np.pad(inside, ((1, 1), (0, 0))).astype(np.int8), axis=0).T
    columns, starts = np.nonzero(edges == 1)
    return columns + begin, starts, np.nonzero(edges == -1)[1]


def encode_mask(inside: np.ndarray, left: int, top: int, width: int, height: int) -> RunLengths | None:
    """Return the run lengths of a complete picture for a mask [h, w] at (left, top), or None if the mask is empty."""
    step = max(1, _BAND_PIXELS // max(1, len(inside)))
    parts = [_runs(inside[:, begin : begin + step], begin) for begin in range(0, inside.shape[1], step)]
    columns, starts, ends = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    if not len(starts):
        return None
    first = (columns + left) * height + top + starts
    last = (columns + left) * height + top + ends
    is_apart = first[1:] != last[:-1]  # a run may continue at the top of the next column
    first, last = np.append(first[0], first[1:][is_apart]), np.append(last[:-1][is_apart], last[-1])
    bounds = np.column_stack([first, last]).ravel()
    counts = np.diff(np.concatenate([[0], bounds, [width * height]]))
    return RunLengths((height, width), tuple(counts.tolist() if counts[-1] else counts[:-1].tolist()))
