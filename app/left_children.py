"""End processes that a user's script starts and leaves running."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

_SET_CHILD_SUBREAPER = 36  # option of prctl that adopts orphaned descendants (linux/prctl.h)
_ROUNDS = 100  # maximum number of rounds; a process may start another one just before it is killed


@contextlib.contextmanager
def ending_children() -> Iterator[None]:
    """End the processes that the block leaves running and their descendants, even if the block calls os._exit. Linux
    only."""
    if not Path("/proc/self/stat").exists():
        yield
        return
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, main_process, leave = _children(), os.getpid(), os._exit

    def end_and_leave(status: int) -> NoReturn:
        if os.getpid() == main_process:
            _end_all_but(before)
        leave(status)

    os._exit = end_and_leave
    try:
        yield
    finally:
        os._exit = leave
        _end_all_but(before)


def _end_all_but(before: set[int]) -> None:
    for _ in range(_ROUNDS):
        if not (left := _children() - before):
            break
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


def _children() -> set[int]:
    """Return the child processes of this process, except multiprocessing's resource tracker."""
    children = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_bytes().rpartition(b")")[2].split()[1])
            if parent == os.getpid():
                children.add(int(folder.name))
    # The tracker exits with this process, after it has removed shared memory.
    module = sys.modules.get("multiprocessing.resource_tracker")
    return children - {getattr(getattr(module, "_resource_tracker", None), "_pid", None)}
