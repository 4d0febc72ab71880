"""The pictures that a command line names: its arguments, and the lines of `--from-list`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ..inference.files import describe, open_regular
from ..inference.search import STANDARD_INPUT, InputProblem, find_pictures
from .errors import UsageError

MAX_LIST_BYTES = 256 << 20  # of a list of files: some millions of names


def find_named_pictures(
    arguments: Sequence[str], recursive: bool, from_list: str | None
) -> tuple[list[str], list[InputProblem]]:
    """The pictures of the arguments, then those in the list, each once; and what names none.

    UsageError where the list cannot be read, and where it and a picture both are to come from standard input.
    """
    listed = read_list(from_list) if from_list is not None else []
    if from_list != STANDARD_INPUT:
        return find_pictures(arguments, recursive, listed)
    if STANDARD_INPUT in arguments:
        raise UsageError("- and --from-list - both read standard input; give one of them")
    found, problems = find_pictures(arguments, recursive, [name for name in listed if name != STANDARD_INPUT])
    itself = InputProblem(STANDARD_INPUT, "standard input holds the list; it cannot hold a picture too")
    return found, problems + [itself] * listed.count(STANDARD_INPUT)


def read_list(path: str) -> list[str]:
    """The names in a list of files ("-" for standard input): one a line, as they are, empty lines left out.

    Names are bytes, as everywhere in the file system, decoded as Python decodes the names of files. UsageError where
    the list cannot be read or is larger than MAX_LIST_BYTES.
    """
    try:
        if path == STANDARD_INPUT:
            if sys.stdin is None or sys.stdin.isatty():
                raise UsageError("--from-list -: no list is piped into standard input")
            content = sys.stdin.buffer.read(MAX_LIST_BYTES + 1)
        else:
            with open_regular(path) as file:
                content = file.read(MAX_LIST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"--from-list {path}: {describe(error)}") from None
    if len(content) > MAX_LIST_BYTES:
        raise UsageError(f"--from-list {path}: more than {MAX_LIST_BYTES >> 20} MiB; no list of pictures is so long")
    lines = (line.removesuffix(b"\r") for line in content.split(b"\n"))
    return [os.fsdecode(line) for line in lines if line]
