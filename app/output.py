"""Destinations of reports: standard output, or a file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from .errors import UsageError, reason

PARTIAL = ".partial"  # after the name of an --output: the file in which its answers wait until they are all there


_TARGETS: dict[Path, Path] = {}  # the files that paths led to when they were checked


def check_output(path: Path | None, option: str = "--output") -> None:
    """UsageError where `path` could not be written to; called before the work, not after it."""
    if path is None:
        return
    try:
        os.stat(path)
    except FileNotFoundError:
        pass  # it will be made
    except (OSError, ValueError) as error:  # links that lead in circles, a name that is too long, and such
        raise UsageError(f"{option} {path}: {reason(error)}") from None
    target = _TARGETS[path] = Path(os.path.realpath(path))
    if target.name.endswith(PARTIAL):
        raise UsageError(f"{option} {path}: names that end in {PARTIAL} are those of unfinished answers; give another")
    if target.is_dir():
        raise UsageError(f"{option} {path}: is a folder; give the name of a file")
    if not target.parent.is_dir():
        raise UsageError(f"{option} {path}: the folder {target.parent} does not exist")
    place = target if is_special(path) else target.parent
    if not os.access(place, os.W_OK):
        raise UsageError(f"{option} {path}: no permission to write there")


def check_files(output: Path | None, trace: Path | None, report: Path | None) -> None:
    """UsageError where a file of --output, --trace or --report could not be written, or two of them are one."""
    named: dict[str, str] = {}
    for option, path in (("--output", output), ("--trace", trace), ("--report", report)):
        check_output(path, option)
        if path is None or is_special(path):
            continue
        other = named.setdefault(os.path.realpath(path), option)
        if other != option:
            raise UsageError(f"{other} and {option} both name {path}; each writes a file of its own")
    if trace is not None and is_special(trace):
        raise UsageError(f"--trace {trace}: not a regular file")


def check_kept(read: Iterable[str | Path], *written: tuple[str, Path | None]) -> None:
    """UsageError where one of the files that are written, each with the option that names it, is one that is read."""
    there: dict[tuple[int, int], str] = {}
    for option, path in written:
        if path is not None and path.is_file():
            status = path.stat()
            there[status.st_dev, status.st_ino] = f"{option} {path}"
    for name in read if there else ():
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(name)
            if (status.st_dev, status.st_ino) in there:
                raise UsageError(f"{there[status.st_dev, status.st_ino]}: is a file that is read; give another name")


def is_special(path: Path) -> bool:
    """True if the path is a device or a pipe, which is written to and never replaced."""
    target = Path(os.path.realpath(path))
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


def _is_device(target: Path) -> bool:
    """True for a device or a pipe; a link, which was made during the work, is replaced like a file."""
    with contextlib.suppress(OSError):
        mode = os.lstat(target).st_mode
        return not stat.S_ISREG(mode) and not stat.S_ISLNK(mode)
    return False


def stream_of(output: Path | None) -> IO[str] | None:
    """Return the stream whose width and colours a text is laid out for: standard output; None for a file."""
    return sys.stdout if output is None else None


def write_output(text: str, path: Path | None, option: str = "--output") -> None:
    """Write a report to the file that an option names, or to standard output where there is no path. A reader that
    went away is no error."""
    write_chunks((text,), path, option)


def write_chunks(chunks: Iterable[str], path: Path | None, option: str = "--output") -> None:
    """Write a report that comes in pieces, as `write_output` writes one."""
    with open_output(path, option) as write:
        for chunk in chunks:
            if not write(chunk):
                break


def _target(path: Path) -> Path:
    """Return the file that a path led to before the work: a link stays a link, and one that was made in the meantime is
    not followed."""
    return _TARGETS.get(path) or Path(os.path.realpath(path))


@contextlib.contextmanager
def open_output(path: Path | None, option: str = "--output") -> Iterator[Callable[[str], bool]]:
    """Yield a function that writes pieces of a report and returns True while someone reads them.

    A regular file takes its place once all is written, and keeps what it held where anything goes wrong before.
    UsageError where it cannot be written.
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
    """Write to standard output, and return whether anyone reads it: a reader that went away (`| head`) is no error.

    UsageError where it cannot be written.
    """
    if sys.stdout is None:
        raise UsageError("standard output is closed; --output FILE writes to a file")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # What is still in the buffer would be tried again at exit, with a message: send it nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"standard output cannot be written: {reason(error)}") from None
        return False
    return True


def write_stderr(text: str) -> None:
    """Write to standard error as far as there is one."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: it was closed
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
    with _replacing_file(target) as file:

        def write(text: str) -> bool:
            file.write(text.encode("utf-8", "backslashreplace"))
            return True

        yield write


@contextlib.contextmanager
def _replacing_file(target: Path) -> Iterator[BinaryIO]:
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def open_binary(path: Path, option: str = "--output") -> Iterator[BinaryIO]:
    """A file for bytes that takes its place once all is written; UsageError where it cannot be written."""
    try:
        with _replacing_file(_target(path)) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{option} {path}: cannot be written: {reason(error)}") from None


def write_bytes(content: bytes, path: Path, option: str) -> None:
    """Write a file whole or not at all; UsageError where it cannot be written."""
    with open_binary(path, option) as file:
        file.write(content)


def _umask() -> int:
    """The process's umask, which mkstemp does not go by."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
