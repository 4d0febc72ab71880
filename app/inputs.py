"""Finding pictures: files, folders, globs and standard input."""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

STANDARD_INPUT = "-"

# What a folder or a glob is searched for; a file that is named itself is always tried.
PICTURE_SUFFIXES = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)


@dataclass(frozen=True)
class InputProblem:
    """An input that could not be used, and why."""

    input: str | int
    message: str


def find_pictures(arguments: list[str]) -> tuple[list[str], list[InputProblem]]:
    """The pictures that arguments mean, each once, and the arguments that mean none.

    Arguments keep their order; what a folder or a glob holds is sorted by name. Hidden files, and in folders files
    without a picture's suffix, are left out.
    """
    found: list[str] = []
    problems: list[InputProblem] = []
    seen: set[str] = set()
    for argument in arguments:
        paths, message = _expand(argument)
        if message:
            problems.append(InputProblem(argument, message))
        for path in paths:
            identity = path if path == STANDARD_INPUT else os.path.realpath(path)
            if identity not in seen:
                seen.add(identity)
                found.append(path)
    return found, problems


def _expand(argument: str) -> tuple[list[str], str]:
    """The pictures of one argument, or why there are none."""
    if argument == STANDARD_INPUT:
        return [STANDARD_INPUT], ""
    if not argument or "\0" in argument:
        return [], "not the name of a file"
    path = Path(argument)
    try:
        if path.is_dir():
            pictures = _pictures_in(argument)
            return pictures, "" if pictures else "no pictures in this folder"
        if os.path.lexists(argument):
            return [argument], ""
    except OSError as error:
        return [], f"cannot be read: {error.strerror or error}"
    if glob.has_magic(argument):
        matches = sorted(match for match in glob.glob(argument) if not os.path.isdir(match))
        return matches, "" if matches else "no file matches"
    return [], "no such file or folder"


def _pictures_in(folder: str) -> list[str]:
    names = [
        name
        for name in os.listdir(folder)
        if not name.startswith(".") and os.path.splitext(name)[1].lower() in PICTURE_SUFFIXES
    ]
    return [os.path.join(folder, name) for name in sorted(names)]
