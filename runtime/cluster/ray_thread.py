"""A thread that connects to Ray, or starts it, and later disconnects.

Ray waits for minutes for a process of its own that has ended, and nothing interrupts it meanwhile. So the program waits
for a thread instead, as long as it likes. The thread lives as long as the connection: what Ray starts is killed with
the thread that started it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from ..backend import BackendUnavailable

_LOOK_SECONDS = 0.2  # between looks at what is going wrong


class RayThread:
    """Calls `ray.init(**options)`, then waits to be closed."""

    def __init__(self, ray: Any, **options: Any) -> None:
        self._ray = ray
        self._options = options
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ray", daemon=True)
        self._thread.start()

    def wait(self, seconds: float, failure: Callable[[], str | None] = lambda: None) -> None:
        """Wait until Ray is connected. Raises what Ray raises, and BackendUnavailable with what `failure` says while it
        is not, or when it takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while not self._ready.wait(_LOOK_SECONDS):
            if (reason := failure()) is not None:
                raise BackendUnavailable(reason)
            if time.monotonic() > deadline:
                raise BackendUnavailable(f"it took longer than {seconds:.0f} s")
        if self._error is not None:
            raise self._error
        _take_back_sigterm()

    def close(self, seconds: float) -> None:
        """Disconnect, and wait for that at most `seconds`; not at all where it has not connected yet."""
        self._end.set()
        if self._ready.is_set():
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._ray.init(**self._options)
        except BaseException as error:
            self._error = error
            return
        finally:
            self._ready.set()
        self._end.wait()
        with contextlib.suppress(Exception):
            self._ray.shutdown()


def _take_back_sigterm() -> None:
    """Set the handler of SIGTERM anew: Ray has put one in front of it that prints a stack of C++ functions first."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
