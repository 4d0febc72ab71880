"""Run the programs of several cores, each in its own thread. Pairs and groups of cores share this code."""

from __future__ import annotations

import threading
from collections.abc import Callable


class StopRank(BaseException):
    """Raised in a core's thread to end it because another core has failed."""


def run_in_threads(count: int, on: Callable[[int], None]) -> None:
    """Run `on(rank)` in a separate thread for each rank, and wait until all threads have ended."""
    threads = [threading.Thread(target=on, args=(rank,), daemon=True) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
