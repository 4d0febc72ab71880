"""Functions that open only regular files, and never block on pipes."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import IO, BinaryIO, cast


def flags(*names: str) -> int:
    """Combine the available flags of `os.open` by name; on Windows, add the flag for binary files."""
    combined = 0
    for name in (*names, "O_BINARY", "O_NOINHERIT"):
        combined |= getattr(os, name, 0)
    return combined


_READING = flags("O_RDONLY", "O_CLOEXEC", "O_NONBLOCK")


class _Reader(io.BufferedReader):
    """A read-only file that ignores errors when it is closed (for example, if a file server is unreachable), since no
    data can be lost."""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading, without ever blocking on a pipe.

    Raises OSError if it does not exist or cannot be read, and ValueError, with the message "not a regular file",
    for folders, pipes and devices. Invalid file names also raise ValueError.
    """
    descriptor = os.open(path, _READING)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file")
    return cast(BinaryIO, _Reader(io.FileIO(descriptor, "rb")))


def describe(error: Exception) -> str:
    """Describe in plain words why `open_regular` or reading failed."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return str(error)


def file_size(file: IO[bytes]) -> int:
    """Return the size in bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def open_file_or_pipe(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file or a pipe, such as a shell's `<(command)`, for reading; a pipe without a writer is empty.

    Raises OSError and ValueError like `open_regular`.
    """
    descriptor = os.open(path, _READING)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        os.close(descriptor)
        raise ValueError("neither a regular file nor a pipe")
    if hasattr(os, "set_blocking"):  # available on Windows since Python 3.12, for pipes
        os.set_blocking(descriptor, True)
    return cast(BinaryIO, _Reader(io.FileIO(descriptor, "rb")))
