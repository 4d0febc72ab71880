"""A worker: a session on its own backend. This module does not depend on Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ...models.files import Model
from ...version import __version__
from ..backend import Backend, BackendInfo, BackendUnavailable, KernelError
from ..launch_options import DEFAULT_LAUNCHES, LaunchOptions
from ..session import BatchAnswer, OverflowedError, Session, no_answers
from ..timing import Row

Note = Callable[[str], None]

# Errors that users can cause are passed on unchanged. Other errors are bugs and are reported with their traceback.
EXPECTED_ERRORS = (BackendUnavailable, KernelError, OverflowedError)


class BackendOpener(Protocol):
    """Opens a backend. An opener must be picklable: a module-level function or a functools.partial of one."""

    def __call__(self, *, progress: Note, warn: Note) -> Backend:
        """Open the backend, whose messages are passed to `progress` and `warn`."""


# Converts the sources sent to a worker to inputs [N, ...]. Also returns the reason why each unusable source was
# rejected, keyed by position. It must be picklable too.
Prepare = Callable[[Sequence[Any]], tuple[np.ndarray, Mapping[int, str]]]


class WorkerFault(RuntimeError):  # noqa: N818 (a bug of the program, not an error of the user)
    """A bug in the program that occurred in a worker, with its traceback."""


@dataclass(frozen=True)
class Setup:
    """Configuration of a worker, sent before the first batch. `prepare` is None if batches are sent as arrays.

    If `sizes` are given, in ascending order, a batch is padded to the next larger size, so that no other sizes are
    planned or compiled. A worker runs each size once before it is ready.
    """

    model: Model
    opener: BackendOpener
    dtype: str
    prepare: Prepare | None = None
    launches: LaunchOptions = DEFAULT_LAUNCHES
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Hello:
    """The description of a worker that is ready: its backend, the rows of its network, and where it runs."""

    info: BackendInfo
    rows: tuple[Row, ...]
    host: str
    process: int
    version: str


@dataclass(frozen=True)
class Reply:
    """The reply of a worker: an answer or an error, and lines for the user.

    `faults` are the exceptions that were logged although they were worked around, each as a line and its traceback.
    """

    value: Any
    error: Exception | None
    progress: tuple[str, ...]
    warnings: tuple[str, ...]
    faults: tuple[str, ...] = ()

    @property
    def notes(self) -> list[tuple[str, str]]:
        """The lines with their level: info, warning or error."""
        levels = {"info": self.progress, "warning": self.warnings, "error": self.faults}
        return [(level, line) for level, lines in levels.items() for line in lines]


class _Faults(logging.Handler):
    """Collects logged exceptions while it is entered."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Append the message of an exception and its traceback."""
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            self.texts.append(f"{record.getMessage()}\n{trace}")

    def __enter__(self) -> list[str]:
        """Start to collect exceptions in the returned list."""
        logging.getLogger("trninfer").addHandler(self)
        return self.texts

    def __exit__(self, *error: object) -> None:
        logging.getLogger("trninfer").removeHandler(self)


class Worker:
    """A session in a worker.

    Errors are returned as values, which preserves their types. If the process runs out of memory, it ends.
    """

    def __init__(self) -> None:
        self._session: Session | None = None
        self._prepare: Prepare | None = None
        self._sizes: tuple[int, ...] = ()
        self._progress: list[str] = []
        self._warnings: list[str] = []

    def begin(self, setup: Setup) -> Reply:
        """Open the backend, prepare the model, and reply with a `Hello`."""
        return self._reply(lambda: self._begin(setup))

    def answer(self, inputs: Any) -> Reply:
        """Process a batch, and reply with a `BatchAnswer`. Timelines are omitted, because they are large."""
        return self._reply(lambda: self._answer(inputs))

    def _begin(self, setup: Setup) -> Hello:
        backend = setup.opener(progress=self._progress.append, warn=self._warnings.append)
        self._session = Session(setup.model, backend, setup.dtype, launches=setup.launches, warn=self._warnings.append)
        self._prepare = setup.prepare
        self._sizes = setup.sizes
        for size in self._sizes:
            with contextlib.suppress(OverflowedError):  # some networks cannot process zeros
                self._run(np.zeros((size, *setup.model.network.input.shape), np.float32))
        return Hello(self._session.info, self._session.rows, platform.node(), os.getpid(), __version__)

    def _answer(self, inputs: Any) -> BatchAnswer:
        assert self._session is not None
        failures: Mapping[int, str] = {}
        if self._prepare is not None:
            inputs, failures = self._prepare(inputs)
        if not len(inputs):
            return no_answers(self._session.rows, self._session.model.network.row_size, failures)
        return replace(self._run(inputs), failures=failures)

    def _run(self, inputs: np.ndarray) -> BatchAnswer:
        """Process a batch after padding it with copies of its last input."""
        assert self._session is not None
        count = len(inputs)
        size = next((size for size in self._sizes if size >= count), count)
        filled = np.concatenate([inputs, np.repeat(inputs[-1:], size - count, axis=0)]) if size > count else inputs
        (answer,) = self._session.stream([filled])
        return replace(
            answer,
            size=count,
            classes=answer.classes[:count],
            probabilities=answer.probabilities[:count],
            raw=None if answer.raw is None else answer.raw[:count],
            timelines=(None,) * len(answer.timelines),
        )

    def _reply(self, work: Callable[[], Any]) -> Reply:
        value: Any = None
        error: Exception | None = None
        with _Faults() as faults:
            try:
                value = work()
            except EXPECTED_ERRORS as problem:
                error = problem
            except MemoryError:
                raise  # becomes an error of Ray; the pool then ends this process and sends its inputs to another
            except Exception:
                error = WorkerFault(traceback.format_exc())
        reply = Reply(value, error, tuple(self._progress), tuple(self._warnings), tuple(faults))
        self._progress.clear()
        self._warnings.clear()
        return reply
