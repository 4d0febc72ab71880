"""The process at the other end of a `RemoteWorker`: opens a backend and does what it is asked.

    python -c "...; worker.main(FD)"     with a socket at file descriptor FD

Requests are (operation, arguments), answers ("result", value) or ("error", exception); ("progress", text) and
("warning", text) may come before an answer. It ends with its parent, whose end of the socket is then closed.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from ...models.files import Model
from ..backend import ArraySpec, Backend, BackendInfo, BackendUnavailable, KernelError, LaunchResult
from ..session import BatchAnswer, OverflowedError, Session

Note = Callable[[str], None]

# What a user can cause: passed on as it is. Anything else is a fault of the program and comes with its traceback.
EXPECTED_ERRORS = (BackendUnavailable, KernelError, OverflowedError)


class BackendOpener(Protocol):
    """Opens a backend; picklable: a module's function or a functools.partial of one."""

    def __call__(self, *, progress: Note, warn: Note) -> Backend:
        """The backend, which tells `progress` and `warn` what it has to say."""


class WorkerError(RuntimeError):
    """A fault of the program in another process, with its traceback."""


class Worker:
    """The operations that a parent can ask for, by name."""

    def __init__(self, progress: Note, warn: Note) -> None:
        self._progress = progress
        self._warn = warn
        self._backend: Backend | None = None
        self._session: Session | None = None

    def open(self, opener: BackendOpener) -> BackendInfo:
        """Open the backend."""
        self._backend = opener(progress=self._progress, warn=self._warn)
        return self._backend.info

    def prepare(self, model: Model, dtype: str) -> None:
        """Make a session of a model on the backend."""
        assert self._backend is not None
        self._session = Session(model, self._backend, dtype)

    def run(self, x: np.ndarray) -> BatchAnswer:
        """Run one batch, without its timelines, which are large."""
        assert self._session is not None
        (answer,) = self._session.stream([x])
        return replace(answer, timelines=(None,) * len(answer.timelines))

    def launch(self, kernel: str, arrays: tuple[np.ndarray, ...], parameters: dict[str, Any]) -> LaunchResult:
        """Run one kernel of trninfer.kernels."""
        assert self._backend is not None
        return replace(self._backend.launch(_find_kernel(kernel), *arrays, **parameters), timeline=None)

    def time(self, kernel: str, specs: tuple[ArraySpec, ...], parameters: dict[str, Any]) -> LaunchResult:
        """Time one kernel of trninfer.kernels."""
        assert self._backend is not None
        return replace(self._backend.time(_find_kernel(kernel), *specs, **parameters), timeline=None)


def _find_kernel(name: str) -> Any:
    from ... import kernels  # not before the backend is open: importing kernels settles which `nki` they get

    if name not in kernels.__all__:
        raise KernelError(f"{name} is not a kernel of trninfer.kernels; no other can run in a process of its own")
    return kernels.kernel(name)


def serve(connection: Connection) -> None:
    """Answer requests until the parent closes its end."""
    worker = Worker(lambda text: connection.send(("progress", text)), lambda text: connection.send(("warning", text)))
    while True:
        try:
            operation, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = ("result", getattr(worker, operation)(*arguments))
        except EXPECTED_ERRORS as error:
            answer = ("error", error)
        except Exception:
            answer = ("error", WorkerError(traceback.format_exc()))
        try:
            connection.send(answer)
        except OSError:
            return


def main(file: int) -> None:
    """Serve the socket at a file descriptor."""
    with Connection(file) as connection:
        serve(connection)
