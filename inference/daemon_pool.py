"""A pool of daemon threads, which never delay the exit of the program."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

Result = TypeVar("Result")

_Task = tuple["PendingResult[Any]", Callable[[], Any]]

_SIGNAL_CHECK_SECONDS = 1.0


class PendingResult(Future[Result]):
    """A pending result; `began` is the value of `time.monotonic` when a thread started computing it, or None before
    that."""

    began: float | None = None


class TooSlowError(Exception):
    """The computation of a result took longer than allowed."""


def wait_for(result: PendingResult[Result], seconds: float | None = None) -> Result:
    """Wait for a result in short intervals and return it. Raises TooSlowError if it takes longer than `seconds` after
    its start.

    Python handles signals between two instructions. A signal that arrives between the last instruction and the start of
    a wait does not interrupt the wait, so an unlimited wait could ignore it.
    """
    while not result.done():
        step = _SIGNAL_CHECK_SECONDS
        if seconds is not None:
            left = seconds if result.began is None else result.began + seconds - time.monotonic()
            if left <= 0:
                raise TooSlowError
            step = min(step, left)
        wait([result], timeout=step)
    return result.result()


class _Thread(threading.Thread):
    """A thread of a pool."""


def is_any_alive() -> bool:
    """Return True if a thread of any pool is still running. If so, the process must not exit through Python's
    finalization, because a thread that returns from C++ to a finalized interpreter aborts the process."""
    return any(isinstance(thread, _Thread) for thread in threading.enumerate())


class DaemonPool:
    """Runs functions in `count` threads. A pool must be closed.

    A thread that reads from a stalled file system may never return. Unlike a thread of concurrent.futures, it delays
    neither Ctrl-C nor the exit of the program.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._name = name
        for _ in range(count):
            self._add_thread()

    def submit(self, function: Callable[[], Result]) -> PendingResult[Result]:
        """Schedule a call of `function` in a thread; return the pending result."""
        result: PendingResult[Result] = PendingResult()
        self._tasks.put((result, function))
        return result

    def replace_thread(self) -> None:
        """Start a thread to replace one that does not return. If the replaced thread returns after all, the pool has
        one more thread."""
        self._count += 1
        self._add_thread()

    def close(self) -> None:
        """Cancel pending work, and let the threads exit once they are idle. Returns immediately."""
        try:
            while (task := self._tasks.get_nowait()) is not None:
                task[0].cancel()
        except queue.Empty:
            pass
        for _ in range(self._count):
            self._tasks.put(None)

    def _add_thread(self) -> None:
        _Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            result, function = task
            if not result.set_running_or_notify_cancel():
                continue
            result.began = time.monotonic()
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)
            del task, result, function  # release the objects while this thread waits
