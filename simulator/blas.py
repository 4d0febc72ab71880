"""One BLAS thread while kernels are computed, whatever the caller has set, which holds again afterwards.

The tiles of a kernel are too small for more threads, and threads that wait for a busy core stall for milliseconds.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np  # noqa: F401  the BLAS that is to be found has to be loaded
from threadpoolctl import ThreadpoolController

_limited = threading.Lock()  # held by the launch that has set the number of threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one BLAS thread until the end of the block; of launches at once, the first sees to it."""
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
    """The BLAS libraries of this process, looked for once: it takes milliseconds."""
    return ThreadpoolController()
