"""Exit statuses and one-line messages for errors."""

from __future__ import annotations

import contextlib
import shutil
import sys

from .text import lines_of, wrapped

CHECK_FAILED = 1
BAD_USAGE = 2
NO_BACKEND = 3
INTERRUPTED = 130


class UsageError(Exception):
    """Incorrect usage or unusable input. The message is a single line for the user."""


class Terminated(SystemExit):
    """Raised on SIGTERM or SIGHUP. The program cleans up as it does after Ctrl-C and exits with the status of the
    signal."""


def exit_status(error: BaseException) -> int | None:
    """Return the exit status for an error that a user can cause, or None for a bug."""
    if isinstance(error, (UsageError, OSError, MemoryError)):  # missing file, full disk, out of memory
        return BAD_USAGE
    # This is imported only after an error, because --help must not import NumPy.
    from ..models.errors import TrninferError
    from ..runtime.backend import BackendUnavailable

    if isinstance(error, BackendUnavailable):
        return NO_BACKEND
    return BAD_USAGE if isinstance(error, TrninferError) else None


def reason(error: Exception) -> str:
    """Return the reason for an error, without the error number and the file name if it is an OSError."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def complain(message: str) -> None:
    """Print a message to standard error, wrapped if it is long."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            lines = lines_of(f"trninfer: {message}")
            if sys.stderr.isatty():
                columns = shutil.get_terminal_size().columns
                lines = [part for line in lines for part in wrapped(line, columns)]
            print("\n".join(lines), file=sys.stderr, flush=True)
