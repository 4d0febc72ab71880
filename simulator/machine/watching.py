"""Watchers that observe the values that instructions read and write, for optional checks (numeric.py).

Tensors call the watchers before each write, and engines call them when they read integers. `watchers` is empty if no
check is enabled.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from .dtypes import Array


class Watcher(Protocol):
    """Observer of the values that are read and written."""

    def written(self, tensor: Any, values: Array) -> None:
        """Called before `values`, not yet rounded, are stored in `tensor`, which still contains the old values."""

    def read_as_float(self, tensor: Any, values: Array) -> None:
        """Called when an engine reads the integers of `tensor` as float32."""

    def based(self, tensor: Any, offset: int | None) -> None:
        """Called for `tensor.ap(offset=...)` if `tensor` is itself a view with an offset."""


watchers: list[Watcher] = []
_lock = threading.Lock()


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Register `watcher`, in addition to any other watchers, until the end of the block."""
    if watcher is None:
        yield
        return
    with _lock:
        watchers.append(watcher)
    try:
        yield
    finally:
        with _lock:
            watchers.remove(watcher)
