"""Settings of the host process while kernels run: a single BLAS thread and no garbage collection."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from functools import cache

import numpy as np  # noqa: F401  loads the BLAS library, so that threadpoolctl finds it
from threadpoolctl import ThreadpoolController

_limited = threading.Lock()  # held by the launch that set the number of threads


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the end of the block. If launches overlap, only the first sets the limit.

    The tiles of a kernel are too small for several threads, and threads that wait for a busy core stall for
    milliseconds.
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
    """Return a controller of the BLAS libraries of this process, cached because the search takes milliseconds."""
    return ThreadpoolController()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's cyclic garbage collector for a block, since a program has many small objects but no cycles."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
