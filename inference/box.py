"""A box around an object of a picture, with its keypoints, mask or outline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_EXTRAS = ("keypoints", "mask", "outline")


@dataclass(frozen=True)
class RunLengths:
    """A mask of a complete picture as COCO's uncompressed run lengths.

    `size` is (height, width). `counts` alternate between pixels outside and inside the mask, column by column.
    """

    size: tuple[int, int]
    counts: tuple[int, ...]

    def to_array(self) -> np.ndarray:
        """Return the mask as bool [height, width]."""
        inside = np.repeat(np.arange(len(self.counts)) % 2 == 1, self.counts)
        return inside.reshape(self.size[::-1]).T


@dataclass(frozen=True)
class Box:
    """An object in a picture: its label, and its corners in pixels of the picture.

    `keypoints` are (x, y) or (x, y, confidence), and `mask` contains the pixels of the object; if the network does not
    output them, `keypoints` is empty and `mask` is None. `outline` contains the four corners (x, y) of an oriented box,
    which is enclosed by x1 to y2; it is empty for an upright box.
    """

    label: str
    class_index: int
    confidence: float
    x1: float
    y1: float
    x2: float
    y2: float
    keypoints: tuple[tuple[float, ...], ...] = ()
    mask: RunLengths | None = None
    outline: tuple[tuple[float, float], ...] = ()

    @property
    def record(self) -> dict[str, Any]:
        """Return the box as plain values, as used in reports."""
        record: dict[str, Any] = {name: value for name, value in vars(self).items() if name not in _EXTRAS}
        if self.keypoints:
            record["keypoints"] = [list(point) for point in self.keypoints]
        if self.mask is not None:
            record["mask"] = {"size": list(self.mask.size), "counts": list(self.mask.counts)}
        if self.outline:
            record["outline"] = [list(point) for point in self.outline]
        return record

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Box:
        """Parse a record. Raises KeyError, TypeError or ValueError if it is malformed."""
        mask = record.get("mask")
        plain = {name: record[name] for name in cls.__dataclass_fields__ if name not in _EXTRAS}
        numbers = [float(plain[name]) for name in ("confidence", "x1", "y1", "x2", "y2")]
        if type(plain["label"]) is not str or type(plain["class_index"]) is not int or not np.isfinite(numbers).all():
            raise ValueError
        return cls(
            **plain,
            keypoints=tuple(tuple(map(float, point)) for point in record.get("keypoints", ())),
            mask=None if mask is None else RunLengths(tuple(map(int, mask["size"])), tuple(map(int, mask["counts"]))),  # type: ignore[arg-type]
            outline=tuple((float(x), float(y)) for x, y in record.get("outline", ())),
        )
