"""A worker in a process of its own on this machine, asked over pipes.

The process ends with this one, whose end of its standard input is then closed, and imports nothing from the current
folder.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from .cluster.worker import Reply

_GRACE_SECONDS = 5.0  # for the process to end by itself
_HOME = str(Path(__file__).resolve().parents[2])  # the folder that the package is in


class WorkerEnded(RuntimeError):  # noqa: N818 (the condition)
    """The process ended before it answered; the message is one line."""


class AskedWorker(Protocol):
    """Worker in the process, such as `cluster.worker.Worker`."""

    def begin(self, setup: Any) -> Reply:
        """Get ready, by the first message."""

    def answer(self, inputs: Any) -> Reply:
        """Answer a later message."""


class WorkerProcess:
    """A process in which an object of class `kind` answers messages, the first of them by `begin`. To be closed.

    `kind` is a class of a module, made without arguments. `variables` are environment variables of the process alone.
    """

    def __init__(self, kind: type[AskedWorker], variables: Mapping[str, str] = MappingProxyType({})) -> None:
        program = (
            f"import sys; sys.path[:] = {_search_path()!r}; from {kind.__module__} import {kind.__name__} as kind; "
            f"from {__name__} import serve; serve(kind)"
        )
        self._said: list[tuple[str, str]] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, **variables},
            **_out_of_reach(),
        )

    @property
    def process_id(self) -> int:
        """The operating system's number of the process."""
        return self._process.pid

    def ask(self, message: Any) -> Any:
        """Send a message and wait for the value of its reply; raises the reply's error, and WorkerEnded."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump(message, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
            reply: Reply = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # ValueError: the pipes are closed
            raise self._ended() from None
        self._said += [("info", line) for line in reply.progress] + [("warning", line) for line in reply.warnings]
        if reply.error is not None:
            raise reply.error
        return reply.value

    def notes(self) -> list[tuple[str, str]]:
        """Return the worker's lines since the last call: (level, line)."""
        said, self._said = self._said, []
        return said

    def kill(self) -> None:
        """End the process at once; what waits for a reply gets WorkerEnded."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not written yet
                    pipe.close()
        self._wait()

    def _ended(self) -> WorkerEnded:
        status = self._wait()
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return WorkerEnded(f"a worker's process {how}")

    def _wait(self) -> int:
        try:
            return self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _out_of_reach() -> dict[str, Any]:
    """Return the arguments of Popen that keep the process from Ctrl-C, which is meant for this one."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _search_path() -> list[str]:
    """Return the module search path of this process, without the current folder unless the package itself is there."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed, and with it what a relative entry meant
        return [entry for entry in sys.path if os.path.isabs(entry)]
    return [entry for entry in sys.path if os.path.abspath(entry or here) != here or here == _HOME]


def serve(kind: type[AskedWorker]) -> None:
    """Answer messages until there are no more: the main loop of the process."""
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # what libraries print goes to standard error: the pipe is for replies
        worker = kind()
        ask: Callable[[Any], Reply] = worker.begin
        while True:
            try:
                message = pickle.load(sys.stdin.buffer)
                pickle.dump(ask(message), replies, pickle.HIGHEST_PROTOCOL)
                replies.flush()
            except (EOFError, OSError):  # nobody asks any more
                return
            ask = worker.answer
