"""Watchers of the values that instructions read and write, for optional checks (numeric.py).

`watchers` is empty otherwise: tensors' memory asks it before each write, and engines when they read integers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from .dtypes import Array


class Watcher(Protocol):
    """Observer of values."""

    def written(self, tensor: Any, values: Array) -> None:
        """Called when `values`, not yet rounded, are about to be stored in `tensor`, which still holds the old ones."""

    def read_as_float(self, tensor: Any, values: Array) -> None:
        """Called when an engine reads the integers of `tensor` as float32."""

    def based(self, tensor: Any, offset: int | None) -> None:
        """Called for `tensor.ap(offset=...)` if `tensor` is a view with an offset of its own."""


watchers: list[Watcher] = []
_lock = threading.Lock()


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Show values to `watcher`, in addition to other watchers, until the end of the block."""
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
