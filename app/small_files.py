"""Read small files of options and constants."""

from __future__ import annotations

from pathlib import Path

from .errors import UsageError


def read_small_file(path: Path, name: str, most: int) -> bytes:
    """Return the contents of a file or pipe, at most `most` bytes; `name` identifies the file in error messages.

    Does not wait for a pipe that has no writer. Raises UsageError if the file is unreadable or too large.
    """
    from ..models.regular_files import describe, open_file_or_pipe  # imported here to keep --help free of NumPy

    try:
        with open_file_or_pipe(path) as file:
            content = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name}: {describe(error)}") from None
    if len(content) > most:
        raise UsageError(f"{name}: larger than {most} bytes")
    if not content and path.is_fifo():
        raise UsageError(f"{name}: the pipe is empty")
    return content
