"""Monitoring a server under attack: the CPU time that it uses while it answers health checks, and its memory."""

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
    """Health checks, and the CPU time of the server's own process during the busiest one, in seconds."""

    asked: int = 0
    busiest: float = 0.0


@contextmanager
def watched_health(server: RunningServer) -> Iterator[Health]:
    """Repeat health checks until the block ends.

    If the server reads a body in the process that answers requests, a health check waits for all of it. The CPU time of
    that process shows this on a busy machine too, where any check may take long.
    """
    health, ended = Health(), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            began = cpu_seconds(server.process.pid)
            assert server.ask("/v2/health/live").status == 200
            health.busiest = max(health.busiest, cpu_seconds(server.process.pid) - began)
            health.asked += 1
            ended.wait(PAUSE)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield health
    finally:
        ended.set()
        thread.join()


def cpu_seconds(*processes: int) -> float:
    """Return the CPU time that processes have used, without that of their children."""
    return sum(time.clock_gettime(~process << 3 | CPUCLOCK_SCHED) for process in processes)


CPUCLOCK_SCHED = 2  # with the complement of a process: the clock that clock_getcpuclockid(3) returns


def peak_bytes(process: int) -> int:
    """Return the peak resident memory of a process."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return 1024 * int(peak)
