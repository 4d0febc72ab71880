"""The host process: one BLAS thread and no garbage collection while kernels run."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from functools import cache

import numpy as np  # noqa: F401  the BLAS that is to be found has to be loaded
from threadpoolctl import ThreadpoolController

_limited = threading.Lock()  # held by the launch that set the number of threads


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the end of the block; the first of simultaneous launches sets it.

    A kernel's tiles are too small for more threads, and threads waiting for a busy core stall for milliseconds.
    """
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@cache
def _controller() -> ThreadpoolController:
    """Return the BLAS libraries of this process; cached, since the search takes milliseconds."""
    return ThreadpoolController()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cycle collector for a block: a program is many small objects without cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
