"""Convert boxes to COCO's results format, and compute the mean average precision as defined by COCO.

The precision is computed by COCO's reference implementation, pycocotools, which is an optional dependency.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..models.budget import OverBudget, read_json
from ..models.errors import InputError
from ..models.regular_files import describe, open_regular
from .box import Box, RunLengths
from .predictions import Prediction

MAX_BYTES = 1 << 30  # maximum size in bytes of an annotation file
MAX_TEXT = 16 << 20  # maximum size in bytes of the label file for one picture
INSTALL_HINT = "pip install 'trninfer[coco]'"

# COCO numbers its 80 classes from 1 to 90, skipping these numbers.
_MISSING = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
_COCO_IDS = tuple(number for number in range(1, 91) if number not in _MISSING)


class MissingPycocotoolsError(InputError):
    """pycocotools is not installed; the message contains installation instructions."""


@dataclass(frozen=True)
class Truth:
    """The correct boxes of one picture, as COCO annotations without ids."""

    image_id: int | str
    annotations: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Annotations:
    """The ids of classes and pictures, and the correct boxes if they are known.

    `categories` contains the id of each label. `pictures` maps file names to the entries of COCO's annotation file;
    alternatively, `folder` contains a YOLO text file for each picture.
    """

    categories: Mapping[str, int]
    pictures: Mapping[str, Truth] = field(default_factory=dict)
    folder: Path | None = None
    labels: tuple[str, ...] = ()

    def image_id(self, name: str | int) -> int | str:
        """Return the id of a picture: its id in the annotations, if any; otherwise the stem of its file name if that is
        a number, as in COCO's data sets; otherwise the file name."""
        truth = self.pictures.get(Path(str(name)).name)
        stem = Path(str(name)).stem
        if truth is not None:
            return truth.image_id
        return int(stem) if stem.isascii() and stem.isdigit() else Path(str(name)).name

    def truth_of(self, answer: Prediction) -> Truth | None:
        """Return the correct boxes of a picture, or None if they are unknown. Raises InputError if the file is
        malformed."""
        if self.folder is None:
            return self.pictures.get(Path(str(answer.input)).name)
        path = self.folder / f"{Path(str(answer.input)).stem}.txt"
        lines = _read_text(path, MAX_TEXT).splitlines() if path.is_file() else []  # a missing file means no objects
        boxes = []
        for number, line in enumerate(lines, start=1):
            if line.strip():
                boxes.append(_yolo_annotation(line.split(), answer.size or (1, 1), self._ids, f"{path}:{number}"))
        return Truth(self.image_id(answer.input), tuple(boxes))

    @property
    def _ids(self) -> tuple[int, ...]:
        return tuple(self.categories[label] for label in self.labels)


def number_categories(labels: Sequence[str]) -> Annotations:
    """Return the ids of a network's labels: COCO's ids for its 80 classes, otherwise numbers starting at 1."""
    is_coco = len(labels) == len(_COCO_IDS) and (labels[0], labels[-1]) == ("person", "toothbrush")
    numbers = _COCO_IDS if is_coco else range(1, len(labels) + 1)
    return Annotations(dict(zip(labels, numbers)), labels=tuple(labels))


def read_annotations(path: Path, labels: Sequence[str]) -> Annotations:
    """Read COCO's annotations (.json), or use a folder with a YOLO text file for each picture.

    Raises InputError if `path` is neither, or if it shares no class with the network.
    """
    if path.is_dir():
        numbered = number_categories(labels)
        return Annotations(numbered.categories, folder=path, labels=tuple(labels))
    try:
        text = _read_text(path, MAX_BYTES)
        data = read_json(text)
        categories = {str(entry["name"]): int(entry["id"]) for entry in data["categories"]}
        names = {entry["id"]: Path(str(entry["file_name"])).name for entry in data["images"]}
        boxes: dict[Any, list[dict[str, Any]]] = {number: [] for number in names}
        for entry in data["annotations"]:
            boxes[entry["image_id"]].append(_coco_annotation(entry))
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        if isinstance(error, OverBudget):
            raise InputError(f"{path}: {error}") from None
        raise InputError(f"{path}: not COCO annotations (images, annotations, categories)") from None
    if not set(categories) & set(labels):
        examples = ", ".join(list(categories)[:5])
        raise InputError(
            f"{path}: none of its classes ({examples}) is a class of the network ({', '.join(labels[:5])})"
        )
    pictures = {name: Truth(number, tuple(boxes[number])) for number, name in names.items()}
    return Annotations(categories, pictures, labels=tuple(labels))


def _read_text(path: Path, most: int) -> str:
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
            if len(content) > most:
                raise InputError(f"{path}: more than {most >> 20} MiB")
            return content.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: {describe(error)}") from None


def _coco_annotation(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an annotation that are relevant for boxes."""
    bbox = [float(value) for value in entry["bbox"]]
    if len(bbox) != 4:
        raise ValueError
    area = float(entry.get("area", bbox[2] * bbox[3]))
    if not all(map(math.isfinite, (*bbox, area))):
        raise ValueError
    return {
        "category_id": int(entry["category_id"]),
        "bbox": bbox,
        "area": area,
        "iscrowd": int(entry.get("iscrowd", 0)),
    }


def _yolo_annotation(words: list[str], size: tuple[int, int], ids: Sequence[int], where: str) -> dict[str, Any]:
    """Parse a line of a YOLO label file: a class, followed by centre and size, or by the corners of an outline."""
    try:
        number, values = int(words[0]), np.array([float(word) for word in words[1:]])
        if not 0 <= number < len(ids) or not np.isfinite(values).all() or len(values) < 4 or len(values) % 2:
            raise ValueError
    except ValueError:
        raise InputError(f"{where}: expected a class below {len(ids)}, and x y width height as fractions") from None
    points = values.reshape(-1, 2) * size
    low, sides = points[0] - points[1] / 2, points[1]
    if len(points) > 2:
        low, sides = points.min(axis=0), points.max(axis=0) - points.min(axis=0)
    bbox = [float(value) for value in (*low, *sides)]
    return {"category_id": ids[number], "bbox": bbox, "area": bbox[2] * bbox[3], "iscrowd": 0}


def coco_entries(answer: Prediction, annotations: Annotations) -> list[dict[str, Any]]:
    """Return the boxes of a picture as entries in COCO's results format."""
    return [
        coco_entry(box, annotations.image_id(answer.input), annotations.categories[box.label])
        for box in answer.boxes or ()
        if box.label in annotations.categories
    ]


def coco_entry(box: Box, image_id: int | str, category_id: int) -> dict[str, Any]:
    """Return a box as an entry in COCO's results format: x, y, width and height."""
    entry: dict[str, Any] = {
        "image_id": image_id,
        "category_id": category_id,
        "bbox": [round(value, 3) for value in (box.x1, box.y1, box.x2 - box.x1, box.y2 - box.y1)],
        "score": box.confidence,
    }
    if box.mask is not None:
        entry["segmentation"] = {"size": list(box.mask.size), "counts": compress_counts(box.mask)}
    if box.outline:
        entry["segmentation"] = [[value for point in box.outline for value in point]]
    if box.keypoints:
        entry["keypoints"] = [value for point in box.keypoints for value in (*point, 1.0)[:3]]
    return entry


def compress_counts(mask: RunLengths) -> str:
    """Encode run lengths in COCO's compressed text format: differences from the run before the previous one, with 5
    bits per character, lowest bits first."""
    text = []
    for index, count in enumerate(mask.counts):
        value = count - (mask.counts[index - 2] if index > 2 else 0)
        while True:
            bits, value = value & 31, value >> 5
            more = value != (-1 if bits & 16 else 0)
            text.append(chr(48 + (bits | 32 if more else bits)))
            if not more:
                break
    return "".join(text)


@dataclass(frozen=True)
class ClassPrecision:
    """The average precision of one class, or None if no picture contains the class."""

    label: str
    boxes: int
    ap_50: float | None
    ap: float | None


@dataclass(frozen=True)
class BoxScore:
    """Mean average precision as defined by COCO, over boxes of all sizes, with at most 100 boxes per picture.

    `map_50` is computed at an overlap of 0.5; `map` is the mean over the overlaps 0.5, 0.55, ... 0.95. Both are None if
    there are no correct boxes.
    """

    pictures: int
    unlabelled: int
    boxes: int
    map_50: float | None
    map: float | None
    classes: tuple[ClassPrecision, ...]


class BoxScorer:
    """Collects predictions and their correct boxes, and scores them. Raises MissingPycocotoolsError if the package is
    missing."""

    def __init__(self, annotations: Annotations) -> None:
        _pycocotools()
        self._annotations = annotations
        self._images: list[int | str] = []
        self._right: list[dict[str, Any]] = []
        self._found: list[dict[str, Any]] = []
        self._unlabelled = 0

    def add(self, answer: Prediction) -> None:
        """Add the prediction for a picture. Raises InputError if its label file is unreadable."""
        truth = self._annotations.truth_of(answer)
        if truth is None:
            self._unlabelled += 1
            return
        number = len(self._images) + 1  # pycocotools identifies pictures by number
        self._images.append(truth.image_id)
        self._right += [{**entry, "image_id": number} for entry in truth.annotations]
        self._found += [
            coco_entry(
                Box(**{**vars(box), "mask": None, "keypoints": (), "outline": ()}),
                number,
                self._annotations.categories[box.label],
            )
            for box in answer.boxes or ()
            if box.label in self._annotations.categories
        ]

    @property
    def score(self) -> BoxScore:
        """Return the score of the predictions so far."""
        coco, evaluate = _pycocotools()
        categories = [{"id": number, "name": label} for label, number in self._annotations.categories.items()]
        right = [{**entry, "id": number} for number, entry in enumerate(self._right, start=1)]
        images = [{"id": number} for number in range(1, len(self._images) + 1)]
        with contextlib.redirect_stdout(io.StringIO()):
            truth, results = coco(), coco()
            for dataset, entries in ((truth, right), (results, _with_areas(self._found))):
                dataset.dataset = {"images": images, "annotations": entries, "categories": categories}
                dataset.createIndex()
            evaluation = evaluate(truth, results, "bbox")
            evaluation.evaluate()
            evaluation.accumulate()
        # [overlaps, recalls, classes] for all sizes and 100 boxes
        precision = evaluation.eval["precision"][:, :, :, 0, -1]
        counts = {number: 0 for number in self._annotations.categories.values()}
        for entry in self._right:
            counts[entry["category_id"]] = counts.get(entry["category_id"], 0) + 1
        labels = {number: label for label, number in self._annotations.categories.items()}
        classes = tuple(
            ClassPrecision(
                labels[number], counts[number], _mean(precision[:1, :, index]), _mean(precision[:, :, index])
            )
            for index, number in enumerate(evaluation.params.catIds)
            if counts[number]
        )
        return BoxScore(
            pictures=len(self._images),
            unlabelled=self._unlabelled,
            boxes=len(self._right),
            map_50=_mean(precision[:1]),
            map=_mean(precision),
            classes=classes,
        )


def _with_areas(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert results to annotations, as pycocotools does when it loads a file."""
    return [
        {**entry, "id": number, "area": entry["bbox"][2] * entry["bbox"][3], "iscrowd": 0}
        for number, entry in enumerate(entries, start=1)
    ]


def _mean(precision: np.ndarray) -> float | None:
    """Return the mean, excluding classes that are absent from all pictures, whose value is -1."""
    known = precision[precision > -1]
    return float(known.mean()) if known.size else None


def _pycocotools() -> tuple[Any, Any]:
    try:
        from pycocotools.coco import COCO  # type: ignore[import-untyped, import-not-found, unused-ignore]
        from pycocotools.cocoeval import COCOeval  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise MissingPycocotoolsError(f"mAP requires pycocotools, which is not installed ({INSTALL_HINT})") from None
    return COCO, COCOeval
