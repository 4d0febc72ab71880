"""Convert boxes to CSV records and to COCO results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ...inference.coco import Annotations, coco_entries
from ...inference.predictions import Prediction

BOX_COLUMNS = ("input", "label", "class_index", "confidence", "x1", "y1", "x2", "y2", "error")


def box_lines(answer: Prediction, name: str | int) -> list[dict[str, Any]]:
    """Return one record with the columns BOX_COLUMNS for each box in the picture `name`."""
    return [
        {"input": name, **{key: value for key, value in vars(box).items() if key in BOX_COLUMNS}}
        for box in answer.boxes or ()
    ]


def coco_chunks(answers: Iterable[Prediction], annotations: Annotations) -> Iterator[str]:
    """Yield the results file in COCO's format in pieces, one entry per line."""
    separator = "[\n"
    for answer in answers:
        for entry in coco_entries(answer, annotations):
            yield separator + json.dumps(entry)
            separator = ",\n"
    yield "\n]\n" if separator[0] == "," else "[]\n"
