"""Where reports go: standard output, or a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from pathlib import Path

from .errors import UsageError


def check_output(path: Path | None, option: str = "--output") -> None:
    """UsageError where `path` could not be written to; called before the work, not after it."""
    if path is None:
        return
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UsageError(f"{option} {path}: is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise UsageError(f"{option} {path}: the folder {target.parent} does not exist")
    place = target if _is_special(target) else target.parent
    if not os.access(place, os.W_OK):
        raise UsageError(f"{option} {path}: no permission to write there")


def write_output(text: str, path: Path | None) -> None:
    """Write a report to a file, or to standard output where there is no path. A reader that went away is no error."""
    if path is None:
        write_stdout(text)
        return
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        if _is_special(target):  # /dev/null, a pipe: never to be replaced by a file
            target.write_text(text, encoding="utf-8")
        else:
            _replace(target, text)
    except OSError as error:
        raise UsageError(f"--output {path}: cannot be written: {error.strerror or error}") from None


def write_stdout(text: str) -> None:
    """Write to standard output; quiet where its reader has gone (`| head`), UsageError where it cannot be written."""
    if sys.stdout is None:
        raise UsageError("standard output is closed; --output FILE writes to a file")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still in the buffer would be tried again at exit, with a message: send it nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"standard output cannot be written: {error.strerror or error}") from None


def write_stderr(text: str) -> None:
    """Write to standard error as far as there is one."""
    with contextlib.suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


def _is_special(path: Path) -> bool:
    return path.exists() and not stat.S_ISREG(path.stat().st_mode)


def _replace(target: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's umask, which mkstemp does not go by."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
