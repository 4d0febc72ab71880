"""Destinations of reports: standard output, or a file that is written atomically."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from .errors import UsageError, reason

PARTIAL = ".partial"  # suffix of the log that holds the predictions for an --output until the report is complete


_TARGETS: dict[Path, Path] = {}  # paths and the targets to which they resolved at the time of the check


def check_output(path: Path | None, option: str = "--output") -> None:
    """Raise UsageError if `path` is not writable. Called before any work, so that no results are lost."""
    if path is None:
        return
    try:
        os.stat(path)
    except FileNotFoundError:
        pass  # the file will be created
    except (OSError, ValueError) as error:  # circular links, names that are too long, and so on
        raise UsageError(f"{option} {path}: {reason(error)}") from None
    target = _TARGETS[path] = Path(os.path.realpath(path))
    if target.name.endswith(PARTIAL):
        raise UsageError(
            f"{option} {path}: names that end in {PARTIAL} are reserved for unfinished answers; use another name"
        )
    if target.is_dir():
        raise UsageError(f"{option} {path}: this is a folder; pass the name of a file")
    if not target.parent.is_dir():
        raise UsageError(f"{option} {path}: the folder {target.parent} does not exist")
    folder = target if is_special(path) else target.parent
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {path}: no permission to write there")


def check_files(output: Path | None, trace: Path | None, report: Path | None) -> None:
    """Raise UsageError if a file of --output, --trace or --report is not writable, or if two of them are the same
    file."""
    options: dict[str, str] = {}
    for option, path in (("--output", output), ("--trace", trace), ("--report", report)):
        check_output(path, option)
        if path is None or is_special(path):
            continue
        other = options.setdefault(os.path.realpath(path), option)
        if other != option:
            raise UsageError(f"{other} and {option} both write {path}; use different files")
    if trace is not None and is_special(trace):
        raise UsageError(f"--trace {trace}: not a regular file")


def check_kept(read: Iterable[str | Path], *written: tuple[str, Path | None]) -> None:
    """Raise UsageError if a file to be written, passed together with its option, is also an input."""
    inputs: dict[tuple[int, int], str] = {}
    for option, path in written:
        if path is not None and path.is_file():
            status = path.stat()
            inputs[status.st_dev, status.st_ino] = f"{option} {path}"
    for name in read if inputs else ():
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(name)
            if (status.st_dev, status.st_ino) in inputs:
                raise UsageError(
                    f"{inputs[status.st_dev, status.st_ino]}: this file is read as input; use another name"
                )


def is_special(path: Path) -> bool:
    """Return True if the path is a device or a pipe, which is written to but never replaced."""
    target = Path(os.path.realpath(path))
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


def _is_device(target: Path) -> bool:
    """Return True for a device or a pipe, and False for a link that was created during the run, which is replaced like
    a file."""
    with contextlib.suppress(OSError):
        mode = os.lstat(target).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISLNK(mode)
    return False


def stream_of(output: Path | None) -> IO[str] | None:
    """Return the stream that determines the width and colours of the output: standard output, or None for a file."""
    return sys.stdout if output is None else None


def write_output(text: str, path: Path | None, option: str = "--output") -> None:
    """Write a report to the file specified by an option, or to standard output if there is no path. A closed pipe is
    not an error."""
    write_chunks((text,), path, option)


def write_chunks(chunks: Iterable[str], path: Path | None, option: str = "--output") -> None:
    """Write a report that is produced in pieces; otherwise identical to `write_output`."""
    with open_output(path, option) as write:
        for chunk in chunks:
            if not write(chunk):
                break


def _target(path: Path) -> Path:
    """Return the file that a path referred to before the run. Existing links are preserved, and links created since are
    not followed."""
    return _TARGETS.get(path) or Path(os.path.realpath(path))


@contextlib.contextmanager
def open_output(path: Path | None, option: str = "--output") -> Iterator[Callable[[str], bool]]:
    """Yield a function that writes a piece of a report and returns True while the output is still being read.

    A regular file is replaced once everything has been written, and remains unchanged after an error. Raises UsageError
    if it is not writable.
    """
    if path is None:
        yield write_stdout
        return
    target = _target(path)
    try:
        with _open_special(target) if _is_device(target) else _replacing(target) as write:
            yield write
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {reason(error)}") from None


def write_stdout(text: str) -> bool:
    """Write to standard output; return False if the reader has closed it (`| head`), which is not an error.

    Raises UsageError if standard output cannot be written.
    """
    if sys.stdout is None:
        raise UsageError("standard output is closed; use --output FILE to write to a file")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Discard the buffer, since Python would flush it again at exit and print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"standard output cannot be written: {reason(error)}") from None
        return False
    return True


def write_stderr(text: str) -> None:
    """Write to standard error, ignoring errors."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: the stream is closed
        if sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


@contextlib.contextmanager
def _open_special(target: Path) -> Iterator[Callable[[str], bool]]:
    with target.open("wb", buffering=0) as file:

        def write(text: str) -> bool:
            rest = memoryview(text.encode("utf-8", "backslashreplace"))
            try:
                while rest:
                    rest = rest[file.write(rest) or 0 :]
            except BrokenPipeError:
                return False
            return True

        yield write


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[Callable[[str], bool]]:
    from ..simulator.machine.atomic_file import replacing

    with replacing(target, synced=True) as file:

        def write(text: str) -> bool:
            file.write(text.encode("utf-8", "backslashreplace"))
            return True

        yield write


@contextlib.contextmanager
def open_binary(path: Path, option: str = "--output") -> Iterator[BinaryIO]:
    """Open a binary file that replaces `path` once everything has been written. Raises UsageError if it is not
    writable."""
    from ..simulator.machine.atomic_file import replacing

    try:
        with replacing(_target(path), synced=True) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {reason(error)}") from None


def write_bytes(content: bytes, path: Path, option: str) -> None:
    """Write a file atomically. Raises UsageError if it is not writable."""
    with open_binary(path, option) as file:
        file.write(content)
