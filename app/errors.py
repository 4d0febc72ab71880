"""Errors as exit statuses and one line for the user."""

from __future__ import annotations

import contextlib
import shutil
import sys

from .text import lines_of, wrapped

CHECK_FAILED = 1
BAD_USAGE = 2
NO_BACKEND = 3
INTERRUPTED = 130
TERMINATED = 143


class UsageError(Exception):
    """A wrong use or an input that cannot be used; the message is one line for the user."""


class Terminated(SystemExit):
    """SIGTERM, or SIGHUP: the program ends as after Ctrl-C, with the exit status of the signal."""


def exit_status(error: BaseException) -> int | None:
    """The exit status for an error that a user can cause; None for all others, which are faults of the program."""
    if isinstance(error, (UsageError, OSError, MemoryError)):  # the last two: a machine that is full, a file that went
        return BAD_USAGE
    # Imported when something went wrong, not before: the help must come up without NumPy.
    from ..models.errors import TrninferError
    from ..runtime.backend import BackendUnavailable

    if isinstance(error, BackendUnavailable):
        return NO_BACKEND
    return BAD_USAGE if isinstance(error, TrninferError) else None


def reason(error: Exception) -> str:
    """Return the reason of an error, without the number and the file name that an OSError repeats."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def complain(message: str) -> None:
    """Print a message on standard error, if there is one: a line, or several where it is long or a terminal narrow."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            lines = lines_of(f"trninfer: {message}")
            if sys.stderr.isatty():
                columns = shutil.get_terminal_size().columns
                lines = [part for line in lines for part in wrapped(line, columns)]
            print("\n".join(lines), file=sys.stderr, flush=True)
