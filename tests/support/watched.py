"""Monitoring a server under attack: the response time of health checks, and its memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from serving import RunningServer

PAUSE = 0.02  # seconds between two health checks


@dataclass
class Health:
    """Health checks, and the time of the slowest one in seconds."""

    asked: int = 0
    slowest: float = 0.0


@contextmanager
def watched_health(server: RunningServer) -> Iterator[Health]:
    """Repeat health checks until the block ends."""
    health, ended = Health(), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            began = time.monotonic()
            assert server.ask("/v2/health/live").status == 200
            health.slowest = max(health.slowest, time.monotonic() - began)
            health.asked += 1
            ended.wait(PAUSE)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield health
    finally:
        ended.set()
        thread.join()


def peak_bytes(process: int) -> int:
    """Return the peak resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(peak)
