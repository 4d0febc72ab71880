"""Threads that nobody waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

Result = TypeVar("Result")

_Task = tuple["Future[Any]", Callable[[], Any]]

_SIGNAL_CHECK_SECONDS = 1.0


def wait_for(result: Future[Result]) -> Result:
    """Return a result, waiting for it in steps.

    Python handles a signal between two of its instructions. One that arrives after the last of them and before the
    thread sleeps does not wake it, so a wait without an end would ignore it.
    """
    while not result.done():
        wait([result], timeout=_SIGNAL_CHECK_SECONDS)
    return result.result()


class DaemonPool:
    """Runs functions in `count` threads. To be closed.

    A thread that reads from a file system that stalls may never come back. It holds up neither Ctrl-C nor the end of
    the program, as the threads of concurrent.futures do.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        for number in range(count):
            threading.Thread(target=self._work, name=f"{name}_{number}", daemon=True).start()

    def submit(self, function: Callable[[], Result]) -> Future[Result]:
        """Have a thread call `function`, and return its result to be."""
        result: Future[Result] = Future()
        self._tasks.put((result, function))
        return result

    def close(self) -> None:
        """Cancel what has not begun, and have the threads end when they are done; returns at once."""
        try:
            while (task := self._tasks.get_nowait()) is not None:
                task[0].cancel()
        except queue.Empty:
            pass
        for _ in range(self._count):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            result, function = task
            if not result.set_running_or_notify_cancel():
                continue
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)
            del task, result, function  # what they hold is not kept while this thread waits
