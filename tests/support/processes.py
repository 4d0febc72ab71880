"""Checks that the processes of a test have ended."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path


def is_alive(process: int) -> bool:
    """Return True while a process runs. A zombie process counts as ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_ends(processes: Iterable[int], seconds: float = 50) -> None:
    """Wait until all processes have ended; fail if one still runs after `seconds`."""
    running = set(processes)
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(is_alive, running)):
        time.sleep(0.05)
    assert not [process for process in running if is_alive(process)]
