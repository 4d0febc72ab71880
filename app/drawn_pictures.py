"""Write the pictures of `--save DIR`: each input with its boxes drawn, or with its class map in colour."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..inference.arrays import is_array_file
from ..inference.class_maps import overlay, palette_picture
from ..inference.drawing import draw_boxes
from ..inference.predictions import Prediction
from ..inference.search import STANDARD_INPUT, InputProblem
from ..models.errors import InputError
from ..models.preprocess import open_image
from ..simulator.machine.atomic_file import replacing
from .errors import UsageError, complain, reason
from .text import count

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

_LOSSY = (".jpg", ".jpeg")  # formats kept for photos, which are much larger as PNG
_QUALITY = 92
_OVERLAY = "-overlay"
_LONGEST_STEM = 200  # in bytes, so that suffixes fit into the limit of 255 bytes per file name


class DrawnPictures:
    """Writes pictures with their boxes to a folder under their original names; duplicate names are numbered.

    Raises UsageError if the folder cannot be created or if pictures are read from it. `problems` lists the pictures
    that could not be written.
    """

    _endings: tuple[str, ...] = ("",)  # suffixes of the files written for a picture

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._used: set[str] = set()
        self._written = 0
        self._left_out: list[str] = []
        self.problems: list[InputProblem] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            read_from = {os.path.realpath(os.path.dirname(os.path.abspath(name))) for name in names}
        except (OSError, ValueError) as error:
            raise UsageError(f"--save {folder}: {reason(error) if isinstance(error, OSError) else error}") from None
        if os.path.realpath(folder) in read_from:
            raise UsageError(f"--save {folder}: this folder contains the input pictures; use another one")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"--save {folder}: no permission to write there")

    def add(self, answer: Prediction) -> None:
        """Draw the boxes of a picture and write it."""
        name = str(answer.input)
        if answer.boxes is None or answer.size is None or name == STANDARD_INPUT or not os.path.isfile(name):
            self._left_out.append(name)
            return
        try:
            picture = draw_boxes(open_image(name), answer.boxes, answer.size)
        except InputError as error:  # the file has changed since the prediction
            self.problems.append(InputProblem(answer.input, f"not drawn: {error}"))
            return
        self._written += self._write(answer.input, picture, self._folder / self._file_name(name))

    def _write(self, name: str | int, drawn: Image.Image, target: Path) -> bool:
        """Write the picture of an input atomically. If a folder has this name, record a problem and return False."""
        try:
            with replacing(target) as file:
                if target.suffix.lower() in _LOSSY:
                    drawn.save(file, "JPEG", quality=_QUALITY)
                else:
                    drawn.save(file, "PNG")
        except IsADirectoryError:
            self.problems.append(InputProblem(name, f"not drawn: {target} is a folder"))
            return False
        except OSError as error:
            raise UsageError(f"--save {target}: cannot be written: {reason(error)}") from None
        return True

    def _file_name(self, name: str) -> str:
        """Return an unused file name."""
        stem, suffix = os.path.splitext(os.path.basename(name))
        if len(os.fsencode(stem)) > _LONGEST_STEM:
            stem = os.fsencode(stem)[:_LONGEST_STEM].decode("utf-8", "ignore")
        suffix = suffix if suffix.lower() in (*_LOSSY, ".png") else ".png"
        candidate, number = stem, 2
        while any((candidate + ending).lower() in self._used for ending in self._endings):
            candidate, number = f"{stem}-{number}", number + 1
        self._used.update((candidate + ending).lower() for ending in self._endings)
        return candidate + suffix

    def report(self, quiet: bool) -> None:
        """Print to standard error how many pictures were written, and which pictures could not be written."""
        if not quiet:
            complain(f"{count(self._written, 'picture')} with boxes in {self._folder}")
        if self._left_out:
            more = f" and {len(self._left_out) - 1} more" if len(self._left_out) > 1 else ""
            complain(f"{self._left_out[0]}{more}: not drawn, because the input is not a picture file")


class SavedMaps(DrawnPictures):
    """Writes the class map of each picture to a folder as NAME.png, together with an overlay of the classes in
    colour."""

    _endings = ("", _OVERLAY)

    def __init__(self, folder: Path, names: Sequence[str], labels: Sequence[str]) -> None:
        super().__init__(folder, names)
        self._labels = labels
        self._maps = 0

    def save(self, input_name: str | int, pixels: np.ndarray) -> None:
        """Write the map of a picture, as `class_maps.to_picture` returns it, and its overlay if the input is a file."""
        name = str(input_name)
        displayed_name = "stdin" if name == STANDARD_INPUT else name
        target = self._folder / self._file_name(displayed_name)
        map_file = target.with_name(f"{target.stem}.png")
        self._maps += self._write(input_name, palette_picture(pixels, self._labels), map_file)
        if name == STANDARD_INPUT or not os.path.isfile(name):
            return
        try:
            picture = open_image(name)
            if picture.size != pixels.shape[::-1]:
                raise InputError("its size has changed")
            overlaid = overlay(picture, pixels, self._labels)
        except InputError as error:  # the file is not a picture, or changed since the prediction
            if not is_array_file(name):
                self.problems.append(InputProblem(input_name, f"not drawn: {error}"))
            return
        overlay_file = target.with_name(f"{target.stem}{_OVERLAY}{target.suffix}")
        self._written += self._write(input_name, overlaid, overlay_file)

    def report(self, quiet: bool) -> None:
        """Print to standard error how many maps and overlays were written."""
        if not quiet:
            complain(f"{count(self._maps, 'map')} and {count(self._written, 'overlay')} in {self._folder}")
