"""Score class maps against the correct classes: the intersection over union of each class, and its mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..models.errors import InputError
from ..models.preprocess import open_image
from .class_maps import VOID, ClassMap

SUFFIXES = (".png", ".bmp", ".gif", ".tif", ".tiff")  # suffixes of lossless formats
MODES = ("P", "L", "1", "I;16", "I")


@dataclass(frozen=True)
class ClassIou:
    """The score of one class: the numbers of pixels that belong to the class, that are predicted as the class, and that
    are both."""

    label: str
    class_index: int
    pixels: int
    answered: int
    both: int

    @property
    def iou(self) -> float:
        """Return the intersection over union."""
        return self.both / (self.pixels + self.answered - self.both)


@dataclass(frozen=True)
class MapScore:
    """The comparison of class maps with the correct classes; `classes` contains those that are correct or predicted for
    some pixel.

    `unlabelled` counts pictures without known classes.
    """

    pictures: int
    pixels: int
    correct: int
    classes: tuple[ClassIou, ...] = ()
    unlabelled: int = 0

    @property
    def mean_iou(self) -> float:
        """Return the mean intersection over union of the classes, or 0 if nothing is scored."""
        return sum(score.iou for score in self.classes) / len(self.classes) if self.classes else 0.0

    @property
    def pixel_accuracy(self) -> float:
        """Return the fraction of correct pixels, or 0 if nothing is scored."""
        return self.correct / self.pixels if self.pixels else 0.0


class MapScorer:
    """Accumulates the overlaps of class maps with the correct maps."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._answered: Counter[int] = Counter()
        self._right: Counter[int] = Counter()
        self._both: Counter[int] = Counter()
        self._pictures = self._unlabelled = 0

    def add(self, found: ClassMap | None) -> None:
        """Count a prediction."""
        if found is None or found.overlaps is None:
            self._unlabelled += 1
            return
        self._pictures += 1
        for overlap in found.overlaps:
            self._answered[overlap.class_index] += overlap.answered
            self._right[overlap.class_index] += overlap.right
            self._both[overlap.class_index] += overlap.both

    @property
    def score(self) -> MapScore:
        """Return the score so far."""
        classes = tuple(
            ClassIou(self._labels[index], index, self._right[index], self._answered[index], self._both[index])
            for index in sorted({*self._answered, *self._right})
        )
        return MapScore(self._pictures, self._right.total(), self._both.total(), classes, self._unlabelled)


class MapLabels:
    """A folder of pictures with the correct class of each pixel: STEM.png for a picture STEM.jpg; 255 is void."""

    def __init__(self, folder: str, classes: int) -> None:
        """Open a folder. Raises InputError if it does not contain such pictures."""
        self._folder, self._classes = folder, classes
        path = Path(folder)
        if not path.is_dir():
            raise InputError(
                f"{folder}: not a folder; expected a folder of class maps, with STEM.png for a picture STEM.jpg"
            )
        self._files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES}
        if not self._files:
            raise InputError(f"{folder}: contains no class maps ({', '.join(SUFFIXES)})")

    def check_some(self, names: Sequence[str]) -> None:
        """Raise InputError unless at least one of the pictures has a map."""
        if names and not any(Path(name).stem in self._files for name in names):
            raise InputError(
                f"{self._folder}: contains no map for any of the pictures, such as {Path(names[0]).stem}.png"
            )

    def read(self, name: str, size: tuple[int, int]) -> np.ndarray | None:
        """Return the correct classes [H, W] of a picture of `size` (width, height), in which void is greater than all
        classes, or None if there is no map.

        Raises InputError if the size of the map is different, or if it contains an invalid class number.
        """
        file = self._files.get(Path(name).stem)
        if file is None:
            return None
        try:
            image = open_image(file)
        except InputError as error:
            raise InputError(f"its map {file}: {error}") from None
        if image.mode not in MODES:
            raise InputError(
                f"its map {file}: the mode is {image.mode}; expected a palette or grayscale picture whose pixel "
                f"values are class numbers"
            )
        if image.size != size:
            raise InputError(
                f"its map {file}: {image.width}x{image.height} pixels, but the picture has {size[0]}x{size[1]}"
            )
        right = np.asarray(image).astype(np.int64)
        void = VOID if image.mode in ("P", "L", "1") else 0xFFFF
        wrong = (right >= self._classes) & (right != void)
        if wrong.any():
            allowed = f"0 to {self._classes - 1}, and {void} for no class"
            raise InputError(f"its map {file}: class {right[wrong][0]} is out of range; allowed: {allowed}")
        return right
