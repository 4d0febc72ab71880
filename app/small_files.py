"""Files of options and constants: small, and read whole."""

from __future__ import annotations

from pathlib import Path

from .errors import UsageError


def read_small_file(path: Path, name: str, most: int) -> bytes:
    """Return what a file or a pipe holds, at most `most` bytes; `name` is how messages call it.

    A pipe that nobody writes to is not waited for. UsageError where the file cannot be read or is larger.
    """
    from ..models.regular_files import describe, open_file_or_pipe  # here: the help comes up without NumPy

    try:
        with open_file_or_pipe(path) as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: {describe(error)}") from None
    if len(content) > most:
        raise UsageError(f"{name}: larger than {most} bytes")
    if not content and path.is_fifo():
        raise UsageError(f"{name}: nothing came through this pipe")
    return content
