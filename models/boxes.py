"""Detection heads: the layout and encoding of the values in an output of kind "boxes"."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .checks import MAX_LABELS, check_choice, check_range
from .errors import ModelError

LAYOUTS = ("rows", "columns")
CODES = ("centre", "corners", "cells", "priors")
UNITS = ("pixels", "fraction")
SCORES = ("probabilities", "logits", "softmax")
PRIOR_CELLS = ("strides", "filled", "corners")
MAX_EXTRAS = 4096  # values of a box in addition to its corners and scores
MAX_PRIORS = 256
ENDED = 6  # values in an end-to-end row: corners, score and class


class Columns(NamedTuple):
    """Slices of a box's fields in its row; empty if the field is stored in another output."""

    box: slice
    objectness: slice
    scores: slice
    masks: slice
    keypoints: slice
    angle: slice
    width: int


@dataclass(frozen=True)
class BoxHead:
    """Encoding of boxes in the outputs of a network with `classes` labels.

    A row describes one box: four coordinates and, depending on the network, objectness, a score for each class, mask
    coefficients and keypoints.
    """

    classes: int
    layout: str = "columns"
    """"rows": an output [boxes, numbers]; "columns": [numbers, boxes]."""
    code: str = "centre"
    """"centre": x, y, width, height; "corners": x1, y1, x2, y2; "cells": x and y from the corner of a cell and the
    logarithms of width and height, in strides; "priors": offsets from a prior box, in units of `variances` times its
    size."""
    unit: str = "pixels"
    """Unit of centres and corners: pixels of the network's image, or fractions of its sides."""
    scores: str = "probabilities"
    """"logits": a sigmoid is applied to each score; "softmax": a softmax is applied to all scores of a box."""
    objectness: bool = False
    """True if a row contains an additional score for "any object", which multiplies the class scores."""
    background: bool = False
    """True if one of the scores represents the background (no object), which has no label."""
    background_last: bool = False
    """True if the score of the background is the last one instead of the first."""
    suppress: bool = True
    """True to suppress overlapping boxes of a class; False if the network was trained to yield one box per object."""
    agnostic: bool = False
    """True if boxes are selected regardless of their classes: overlapping boxes of different classes are suppressed
    too, and a box has only its most probable class."""
    ended: bool = False
    """True if rows are already selected: x1, y1, x2, y2, score, class, then masks and keypoints."""
    masks: int = 0
    """Number of mask coefficients per box, which multiply the mask prototypes."""
    keypoints: int = 0
    keypoint_size: int = 0
    """Values per keypoint: 2 (x, y), or 3 including its confidence."""
    strides: tuple[int, ...] = ()
    """Stride of each grid in pixels, in the order of the boxes; for codes "cells" and "priors"."""
    priors: tuple[float, ...] = ()
    """Width and height, in pixels, of the priors of a cell, flattened, grid by grid."""
    prior_counts: tuple[int, ...] = ()
    """Number of priors per cell of each grid."""
    prior_cells: str = "strides"
    """Positions of priors: "strides": the centres of cells that are as large as the strides; "filled": the centres of
    cells that fill the image, as in SSDLite; "corners": the upper left corners of cells whose side is that of the image
    divided by their number, rounded down, as in torchvision's RetinaNet."""
    variances: tuple[float, ...] = (0.1, 0.2)
    """Variances of the centres and of the sizes."""
    scores_from: str = ""
    """Name of the output [boxes, scores] if the scores are not part of the rows."""
    keypoints_from: str = ""
    """Name of the output [boxes, numbers] if the keypoints are not part of the rows."""
    prototypes: str = ""
    """Name of the output [masks, height, width] with the mask prototypes."""
    angle: bool = False
    """Whether a row ends with the rotation of the box about its centre, in radians, clockwise in the picture."""

    def __post_init__(self) -> None:
        where = "boxes"
        check_choice(where, "layout", self.layout, LAYOUTS)
        check_choice(where, "code", self.code, CODES)
        check_choice(where, "unit", self.unit, UNITS)
        check_choice(where, "scores", self.scores, SCORES)
        check_range(where, "classes", self.classes, 1, MAX_LABELS)
        check_range(where, "masks", self.masks, 0, MAX_EXTRAS)
        check_range(where, "keypoints", self.keypoints, 0, MAX_EXTRAS)
        check_range(where, "keypoint_size", self.keypoint_size, 2 if self.keypoints else 0, 3 if self.keypoints else 0)
        if bool(self.masks) != bool(self.prototypes):
            raise ModelError(
                f"boxes: {self.masks} mask coefficients require an output of prototypes, but prototypes is "
                f"{self.prototypes!r}"
            )
        self._check_grids()
        if self.objectness and (self.background or self.scores == "softmax"):
            raise ModelError("boxes: objectness requires scores that are logits, without a background class")
        if self.background_last and not self.background:
            raise ModelError("boxes: background_last requires background")
        if self.angle and (self.code != "centre" or self.masks or self.keypoints):
            raise ModelError("boxes: an angle requires code=centre, and cannot be combined with masks or keypoints")
        code = "centre" if self.angle else "corners"
        if self.ended and (self.code != code or self.scores_from or self.objectness or self.background):
            raise ModelError("boxes: rows that are already selected must contain corners, a score and a class")

    def _check_grids(self) -> None:
        for stride in self.strides:
            check_range("boxes", "strides", stride, 1, 4096)
        if (self.code in ("cells", "priors")) != bool(self.strides):
            raise ModelError(
                "boxes: strides must be given for the codes cells and priors, and only for these; got "
                f"{len(self.strides)} strides"
            )
        counts = len(self.strides) if self.code == "priors" else 0
        if len(self.prior_counts) != counts or any(not 1 <= count <= MAX_PRIORS for count in self.prior_counts):
            raise ModelError(
                f"boxes: prior_counts is {list(self.prior_counts)[:8]}; expected one count for each stride"
            )
        if len(self.priors) != 2 * sum(self.prior_counts) or not all(0 < side < 1e5 for side in self.priors):
            raise ModelError(
                f"boxes: priors contains {len(self.priors)} numbers; expected a positive width and height for each"
            )
        check_choice("boxes", "prior_cells", self.prior_cells, PRIOR_CELLS)
        if self.prior_cells != "strides" and self.code != "priors":
            raise ModelError(f"boxes: prior_cells={self.prior_cells} requires the code priors")
        if len(self.variances) != 2 or not all(0 < variance <= 100 for variance in self.variances):
            raise ModelError("boxes: variances must be two positive numbers, for centres and for sizes")

    @property
    def columns(self) -> Columns:
        """The positions of a box's fields in its row."""
        if self.ended:
            box, objectness, scores = slice(0, 4), slice(4, 4), slice(4, ENDED)
        else:
            box, objectness = slice(0, 4), slice(4, 4 + self.objectness)
            scores = slice(objectness.stop, objectness.stop + (0 if self.scores_from else self.score_count))
        masks = slice(scores.stop, scores.stop + self.masks)
        numbers = 0 if self.keypoints_from else self.keypoints * self.keypoint_size
        keypoints = slice(masks.stop, masks.stop + numbers)
        angle = slice(keypoints.stop, keypoints.stop + self.angle)
        return Columns(box, objectness, scores, masks=masks, keypoints=keypoints, angle=angle, width=angle.stop)

    @property
    def score_count(self) -> int:
        """The number of scores of a box, including the background score."""
        return self.classes + self.background

    @property
    def other_outputs(self) -> tuple[str, ...]:
        """The names of the outputs that are required in addition to the rows."""
        return tuple(filter(None, (self.scores_from, self.keypoints_from, self.prototypes)))

    def box_count(self, height: int, width: int) -> int | None:
        """Return the total number of boxes in all grids for an image of this size; None if there are no grids."""
        if not self.strides:
            return None
        counts = self.prior_counts or (1,) * len(self.strides)
        return sum(
            count * math.ceil(height / stride) * math.ceil(width / stride)
            for stride, count in zip(self.strides, counts)
        )

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise ModelError unless an output of this shape contains rows of the described layout."""
        if not self.fits(shape):
            order = "[boxes, numbers]" if self.layout == "rows" else "[numbers, boxes]"
            expected = f"{order} with {self.columns.width} numbers per box"
            raise ModelError(f"boxes: the output has shape {list(shape)[:8]}; expected {expected}")

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return True if an output of this shape contains rows of the described layout."""
        return len(shape) == 2 and shape[1 if self.layout == "rows" else 0] == self.columns.width

    def grid(self, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the origins [N, 2] and the sizes [N, 2] of all cells or priors, in pixels, in the order of the boxes.

        Origins are corners for cells and centres for priors. The boxes of a grid are ordered row by row; the boxes of
        a cell are adjacent.
        """
        origins, sizes, first = [], [], 0
        for stride, count in zip(self.strides, self.prior_counts or (1,) * len(self.strides)):
            counts = math.ceil(height / stride), math.ceil(width / stride)
            rows, columns = np.indices(counts, np.float32)
            cells = np.stack([columns.ravel(), rows.ravel()], axis=1)
            steps = np.array(stride, np.float32)
            if self.prior_cells != "strides":
                steps = np.array((width / counts[1], height / counts[0]), np.float32)
                steps = steps if self.prior_cells == "filled" else np.floor(steps)
            if self.code == "priors" and self.prior_cells != "corners":
                cells += np.float32(0.5)
            if self.code == "priors":
                sides = np.array(self.priors[2 * first : 2 * (first + count)], np.float32).reshape(count, 2)
            else:
                sides = np.full((1, 2), stride, np.float32)
            origins.append(np.repeat(cells * steps, count, axis=0))
            sizes.append(np.tile(sides, (len(cells), 1)))
            first += count
        return np.concatenate(origins), np.concatenate(sizes)
