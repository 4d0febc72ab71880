"""Removal of what a Ray of our own leaves behind, processes and folder, even if this process is killed.

A Ray keeps its files in a folder, and each of its processes has that folder's name in the variable `MARK`. Beside it
runs this file, as a program that waits for the process that started it to end, and then clears both away. It imports
nothing but the standard library. On systems without /proc processes are left to Ray, which ends them itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

MARK = "TRNINFER_RAY"
PREFIX = "trninfer-ray-"
LONGEST_FOLDER = 40  # bytes: Unix limits the paths of sockets to 107, and Ray adds up to 64 to that of its folder
_LOCK = "lock"  # a file in the folder, locked as long as the folder is in use
_CLEAR_SECONDS = 4.0
_QUIET_SECONDS = 1.0  # without a process: one that is just being started is in nobody's list for a moment
_UNLOCKED_SECONDS = 60.0  # for a new folder to get its lock


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
    """A new folder for a Ray, which is cleared away with its processes when the block ends or this process does."""
    import fcntl

    clear_left_over()
    folder = tempfile.mkdtemp(prefix=PREFIX)
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix=PREFIX, dir="/tmp")
    with contextlib.ExitStack() as stack:
        stack.callback(clear, folder)
        lock = stack.enter_context(open(os.path.join(folder, "unlocked"), "wb"))
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(lock.name, os.path.join(folder, _LOCK))  # so that no other run finds it before it is locked
        janitor = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process
        )
        stack.callback(_dismiss, janitor)
        yield folder


def clear(folder: str, quiet: float = 0.0) -> None:
    """Kill the processes of a folder, until there was none for `quiet` seconds, and remove it."""
    began = seen = time.monotonic()
    while (now := time.monotonic()) - began < _CLEAR_SECONDS:
        found = processes_of(folder)
        if not found and now - seen >= quiet:
            break
        for process in found:
            seen = now
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)


def processes_of(folder: str) -> list[int]:
    """The processes, other than this one, that are marked with a folder."""
    mark = os.fsencode(f"{MARK}={folder}")
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(entry))
    return found


def clear_left_over() -> None:
    """Clear away the folders of processes that were killed together with their janitors."""
    import fcntl

    for place in {tempfile.gettempdir(), "/tmp"}:
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            folders = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
            for folder in folders:
                with contextlib.suppress(OSError):
                    status = os.lstat(folder)
                    if status.st_uid != os.getuid() or not os.path.isdir(folder) or os.path.islink(folder):
                        continue
                    try:
                        with open(os.path.join(folder, _LOCK), "r+b") as lock:
                            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError where it is in use
                            clear(folder)
                    except FileNotFoundError:
                        if time.time() - status.st_mtime > _UNLOCKED_SECONDS and not processes_of(folder):
                            clear(folder)


def _dismiss(janitor: subprocess.Popen[bytes]) -> None:
    assert janitor.stdin is not None
    with contextlib.suppress(OSError):
        janitor.stdin.write(b".")  # the word that all went well
    with contextlib.suppress(OSError):
        janitor.stdin.close()
    try:
        janitor.wait(_CLEAR_SECONDS + 1)
    except subprocess.TimeoutExpired:
        janitor.kill()
        janitor.wait()


def main(folder: str) -> None:
    """Clear a folder away when the process that started this one has closed standard input, or has ended.

    Where it was killed, some of its processes may just be starting others.
    """
    parent, said = os.getppid(), b""
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], 1.0)[0]:
            said = os.read(0, 1)
            break
    clear(folder, 0.0 if said else _QUIET_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1])
