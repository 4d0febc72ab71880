"""Runs programs of several cores in a thread each: code common to pairs and groups."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stopped(BaseException):
    """Another core has failed, so this one ends too."""


def run_in_threads(count: int, on: Callable[[int], None]) -> None:
    """Run `on(rank)` in a thread for each rank and wait until all have ended."""
    threads = [threading.Thread(target=on, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
