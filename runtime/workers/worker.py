"""A worker: a session on a backend of its own. Independent of Ray."""

from __future__ import annotations

import contextlib
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

# Errors that users can cause are passed on unchanged. Others are faults of the program and carry their traceback.
EXPECTED_ERRORS = (BackendUnavailable, KernelError, OverflowedError)


class BackendOpener(Protocol):
    """Opens a backend; picklable: a module's function or a functools.partial of one."""

    def __call__(self, *, progress: Note, warn: Note) -> Backend:
        """Open the backend, whose messages go to `progress` and `warn`."""


# Makes inputs [N, ...] of the sources sent instead of them, and reports by position why a source cannot be used.
# Picklable likewise.
Prepare = Callable[[Sequence[Any]], tuple[np.ndarray, Mapping[int, str]]]


class WorkerFault(RuntimeError):  # noqa: N818 (a fault of ours, not of a user)
    """A fault of the program in a worker, with its traceback."""


@dataclass(frozen=True)
class Setup:
    """Configuration of a worker, sent before the first batch. `prepare` is None if batches are sent as arrays.

    With `sizes`, in ascending order, a batch is padded to the next of them, so that no others are ever planned or
    compiled; a ready worker has run each of them once.
    """

    model: Model
    opener: BackendOpener
    dtype: str
    prepare: Prepare | None = None
    launches: LaunchOptions = DEFAULT_LAUNCHES
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Hello:
    """A worker that is ready: its backend, the rows of its network, and where it runs."""

    info: BackendInfo
    rows: tuple[Row, ...]
    host: str
    process: int
    version: str


@dataclass(frozen=True)
class Reply:
    """Reply of a worker: an answer, or the error in its place; and the lines for the user."""

    value: Any
    error: Exception | None
    progress: tuple[str, ...]
    warnings: tuple[str, ...]


class Worker:
    """A session in a worker. Errors are returned as values, so that they keep their types; except that a process out of
    memory ends."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._prepare: Prepare | None = None
        self._sizes: tuple[int, ...] = ()
        self._progress: list[str] = []
        self._warnings: list[str] = []

    def begin(self, setup: Setup) -> Reply:
        """Open the backend and prepare the model: a reply with a `Hello`."""
        return self._reply(lambda: self._begin(setup))

    def answer(self, inputs: Any) -> Reply:
        """Answer a batch: a reply with a `BatchAnswer`, without timelines, which are large."""
        return self._reply(lambda: self._answer(inputs))

    def _begin(self, setup: Setup) -> Hello:
        backend = setup.opener(progress=self._progress.append, warn=self._warnings.append)
        self._session = Session(setup.model, backend, setup.dtype, launches=setup.launches, warn=self._warnings.append)
        self._prepare = setup.prepare
        self._sizes = setup.sizes
        for size in self._sizes:
            with contextlib.suppress(OverflowedError):  # a network may not accept zeros
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
        """Answer a batch that is filled up with its last input."""
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
        try:
            value = work()
        except EXPECTED_ERRORS as problem:
            error = problem
        except MemoryError:
            raise  # ends in an error of Ray's: the crew ends this process and its inputs go to another
        except Exception:
            error = WorkerFault(traceback.format_exc())
        reply = Reply(value, error, tuple(self._progress), tuple(self._warnings))
        self._progress.clear()
        self._warnings.clear()
        return reply
