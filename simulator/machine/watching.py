"""Watchers of the values that instructions read and write, for checks that ask for them (numeric.py).

`watchers` is empty but for that: the memory of tensors asks it before each write, and engines where they read integers.
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
        """`values`, not yet rounded, are about to be stored in `tensor`, which holds what it held before."""

    def read_as_float(self, tensor: Any, values: Array) -> None:
        """An engine reads the integers of `tensor` as float32."""

    def based(self, tensor: Any, offset: int | None) -> None:
        """`tensor.ap(offset=...)`, `tensor` being a view that begins at an offset of its own."""


watchers: list[Watcher] = []
_lock = threading.Lock()


@contextmanager
def watching(watcher: Watcher | None) -> Iterator[None]:
    """Show values to `watcher`, and to all others that watch, until the end of the block."""
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
