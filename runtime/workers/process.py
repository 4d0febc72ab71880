"""A worker in a separate process on this machine, which communicates over pipes.

The process is a new Python interpreter, started with `subprocess`. `multiprocessing` is unsuitable: "fork" copies locks
that other threads hold, "spawn" and "forkserver" run the user's main module again in each worker, and a
`ProcessPoolExecutor` abandons all tasks if one worker is killed. The process imports nothing from the current folder.
It ends as soon as the parent process ends for any reason, because it detects that the other end of its standard input
is closed.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from ...child_python import python_command
from .worker import Reply, WorkerFault

_GRACE_SECONDS = 5.0  # seconds for the process to exit after its input is closed
_IDLE_SECONDS = 0.5  # seconds for an idle process to exit after its last message; a busy process is killed
_NO_MEMORY = 77  # exit status of a process that ran out of memory
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class WorkerEnded(RuntimeError):  # noqa: N818 (the condition)
    """The process ended before it replied. The message is one line."""


class AskedWorker(Protocol):
    """The object that answers messages in the process, such as `worker.Worker`."""

    def begin(self, setup: Any) -> Reply:
        """Initialise the worker from the first message."""

    def answer(self, inputs: Any) -> Reply:
        """Answer any later message."""


class WorkerProcess:
    """A process in which an object of class `kind` answers messages, the first of them with `begin`.

    The process must be closed. Raises WorkerEnded if the system cannot start it.

    `kind` is a module-level class that is constructed without arguments. `variables` are environment variables set only
    in the process. Numerical libraries use one thread in it, unless the environment of the parent process specifies
    another number.
    """

    def __init__(self, kind: type[AskedWorker], variables: Mapping[str, str] = MappingProxyType({})) -> None:
        self._said: list[tuple[str, str]] = []
        try:
            self._process = subprocess.Popen(
                python_command(__name__, "serve", kind.__module__, kind.__name__),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**_ONE_THREAD, **os.environ, **variables},
                **_out_of_reach(),
            )
        except OSError as error:  # too many processes or open files
            raise WorkerEnded(f"a worker process could not be started: {error.strerror}") from None

    def ask(self, message: Any) -> Any:
        """Send a message and return the value of its reply. Raises the error in the reply, or WorkerEnded."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump(message, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
            reply: Reply = pickle.load(self._process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):  # ValueError: the pipes are closed
            raise self._ended() from None
        self._said += reply.notes
        if reply.error is not None:
            raise reply.error
        return reply.value

    def notes(self) -> list[tuple[str, str]]:
        """Return the lines that the worker logged since the last call, as (level, line)."""
        lines, self._said = self._said, []
        return lines

    def kill(self) -> None:
        """End the process at once. Pending replies raise WorkerEnded."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # flushing unwritten data may fail
                    pipe.close()
        self._wait()

    def _ended(self) -> WorkerEnded:
        status = self._wait()
        if status == _NO_MEMORY:
            return WorkerEnded("a worker process ran out of memory")
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return WorkerEnded(f"a worker process {how}")

    def _wait(self) -> int:
        try:
            return self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class ProcessWorker:
    """A pool's worker that runs in a process; see `pool.PoolWorker`."""

    def __init__(self, process: WorkerProcess) -> None:
        self._process = process

    def notes(self) -> list[tuple[str, str]]:
        """Return the lines that the worker logged since the last call, as (level, line)."""
        return self._process.notes()

    def kill(self) -> None:
        """End the worker at once."""
        self._process.kill()

    def close(self) -> None:
        """End the worker, and wait until it has ended."""
        self._process.close()


def _out_of_reach() -> dict[str, Any]:
    """Return the arguments of Popen that shield the process from Ctrl-C, which is meant for the parent process only."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def serve(module: str, kind: str) -> None:
    """Run the main loop of the process: answer messages with an instance of a module's class until there are no
    more."""
    # Notes of launches state faults that were worked around. Without a handler, Python would also write them to stderr.
    logging.getLogger("trninfer").addHandler(logging.NullHandler())
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(os.dup(0), messages), daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as replies:
        # The pipes are for messages and replies alone: libraries print to standard error, and the children of this
        # process do not hold the end of a pipe after this process was killed.
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        try:
            worker: AskedWorker = getattr(importlib.import_module(module), kind)()
            ask: Callable[[Any], Reply] = worker.begin
            while not isinstance(message := messages.get(), _End):
                pickle.dump(ask(message), replies, pickle.HIGHEST_PROTOCOL)
                replies.flush()
                ask = worker.answer
                del message  # release its contents while waiting for the next message
            if message.fault:
                pickle.dump(Reply(None, WorkerFault(message.fault), (), ()), replies, pickle.HIGHEST_PROTOCOL)
        except MemoryError:
            os._exit(_NO_MEMORY)  # the process is no longer usable; the caller starts another
        except OSError:  # the parent process has closed the pipe
            os._exit(0)


@dataclass(frozen=True)
class _End:
    """Marks the end of the messages. `fault`: the traceback of the error if the last message is unreadable."""

    fault: str = ""


def _receive(descriptor: int, messages: queue.SimpleQueue[Any]) -> None:
    """Read messages into a queue. When there are no more, end the process, even if it is busy."""
    with os.fdopen(descriptor, "rb") as pipe:
        try:
            while True:
                messages.put(pickle.load(pipe))
        except MemoryError:
            os._exit(_NO_MEMORY)
        except (EOFError, OSError, pickle.UnpicklingError):
            messages.put(_End())
        except Exception:  # a class of the message cannot be imported here
            messages.put(_End(traceback.format_exc()))
    time.sleep(_IDLE_SECONDS)
    os._exit(0)
