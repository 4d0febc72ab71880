"""The host process: one BLAS thread and no garbage collection while kernels run, and atomic file writes."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np  # noqa: F401  the BLAS that is to be found has to be loaded
from threadpoolctl import ThreadpoolController

NAME = 40  # characters of a file's name used in its temporary file's name, which must not be too long

_limited = threading.Lock()  # held by the launch that set the number of threads


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the end of the block; the first of simultaneous launches sets it.

    A kernel's tiles are too small for more threads, and threads waiting for a busy core stall for milliseconds.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@cache
def _controller() -> ThreadpoolController:
    """Return the BLAS libraries of this process; cached, since the search takes milliseconds."""
    return ThreadpoolController()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cycle collector for a block: a program is many small objects without cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a binary file that atomically replaces `path`, with its permissions, at the end of the block.

    OSError if it cannot be written; nothing is left beside `path` then.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:NAME]}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.chmod(temporary, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the process's umask, which mkstemp ignores."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
