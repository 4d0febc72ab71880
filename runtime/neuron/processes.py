"""Run child processes with a time limit and terminate them together with their children.

This requires POSIX, as does the Neuron driver.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NOTE_SECONDS = 30.0  # interval between notes that a process is still running

_running: set[subprocess.Popen[bytes]] = set()  # processes started by `run_limited`, in all threads

Waiting = Callable[[float], None]  # called with the elapsed seconds


@dataclass(frozen=True)
class ProcessResult:
    """The result of a process: its exit status (None if it was terminated at the limit, negative for a signal), its
    duration in seconds, and the peak resident memory, in bytes, of the process or any of its children."""

    status: int | None
    seconds: float
    peak_bytes: int


def run_limited(
    command: Sequence[str],
    *,
    given: Path,
    log: Path,
    variables: Mapping[str, str],
    limit: float,
    note: Waiting = lambda seconds: None,
) -> ProcessResult:
    """Run a command for at most `limit` seconds in the folder of `log`, to which its output is written. Its input is
    read from the file `given`. (neuronx-cc leaves intermediate files in its working directory.)

    `note` is called every NOTE_SECONDS. The command and its children are terminated together, even if this process is
    interrupted. Raises OSError if the command cannot be started.
    """
    start = time.perf_counter()
    with given.open("rb") as source, log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=output,
            stderr=output,
            env=dict(variables),
            cwd=log.parent,
            start_new_session=True,
        )
    _running.add(process)
    next_note, pause = NOTE_SECONDS, 0.005
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            seconds = time.perf_counter() - start
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                return ProcessResult(process.returncode, seconds, usage.ru_maxrss * 1024)
            if seconds > limit:
                end_group(process)
                return ProcessResult(None, seconds, 0)
            if seconds > next_note:
                next_note += NOTE_SECONDS
                note(seconds)
            time.sleep(pause)
            pause = min(pause * 1.2, 0.25)
    except BaseException:
        end_group(process)
        raise
    finally:
        _running.discard(process)


def end_all() -> None:
    """Kill all processes started by `run_limited`, in every thread. Their exit status is then -SIGKILL."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session, with all its descendants, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
