"""Pictures of `--save DIR`: each input with its boxes drawn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..inference.drawing import draw_boxes
from ..inference.predictions import Prediction
from ..inference.search import STANDARD_INPUT, InputProblem
from ..models.errors import InputError
from ..models.preprocess import open_image
from .errors import UsageError, complain, reason
from .text import count

_LOSSY = (".jpg", ".jpeg")  # of photos, which are as large as PNG otherwise
_QUALITY = 92


class DrawnPictures:
    """Writes pictures with their boxes into a folder, under their own names, numbered where these come again.

    UsageError where the folder cannot be made or is one that pictures are read from. `problems` are the pictures that
    could not be written.
    """

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
            raise UsageError(f"--save {folder}: pictures are read from this folder; give another")
        if not os.access(folder, os.W_OK):
            raise UsageError(f"--save {folder}: no permission to write there")

    def add(self, answer: Prediction) -> None:
        """Draw the boxes of a picture, and write it."""
        name = str(answer.input)
        if answer.boxes is None or answer.size is None or name == STANDARD_INPUT or not os.path.isfile(name):
            self._left_out.append(name)
            return
        try:
            drawn = draw_boxes(open_image(name), answer.boxes, answer.size)
        except InputError as error:  # it was read before, and has changed since
            self.problems.append(InputProblem(answer.input, f"not drawn: {error}"))
            return
        target = self._folder / self._file_name(name)
        temporary = target.with_name(f".{target.name}.partial")
        try:
            if target.suffix.lower() in _LOSSY:
                drawn.save(temporary, "JPEG", quality=_QUALITY)
            else:
                drawn.save(temporary, "PNG")
            os.replace(temporary, target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise UsageError(f"--save {target}: cannot be written: {reason(error)}") from None
        self._written += 1

    def _file_name(self, name: str) -> str:
        """Return a name that no picture of this run has yet."""
        stem, suffix = os.path.splitext(os.path.basename(name))
        suffix = suffix if suffix.lower() in (*_LOSSY, ".png") else ".png"
        found, number = f"{stem}{suffix}", 2
        while found.lower() in self._used:
            found, number = f"{stem}-{number}{suffix}", number + 1
        self._used.add(found.lower())
        return found

    def report(self, quiet: bool) -> None:
        """Print on standard error how many pictures were written, and which could not be drawn."""
        if not quiet:
            complain(f"{count(self._written, 'picture')} with boxes in {self._folder}")
        if self._left_out:
            more = f" and {len(self._left_out) - 1} more" if len(self._left_out) > 1 else ""
            complain(f"{self._left_out[0]}{more}: no picture file to draw on")
