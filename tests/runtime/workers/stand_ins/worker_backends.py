"""Backends for workers in tests: the simulator computes, and times are prescribed. They are in a separate module that
the workers' processes import."""

from __future__ import annotations

import logging
import os
import resource
import signal
import time
from pathlib import Path

import numpy as np
from trninfer.runtime.backend import BackendInfo, BackendUnavailable, KernelError, LaunchResult, LaunchTime
from trninfer.runtime.workers.worker import Reply

# The effects of the first number of a batch; see PlainBackend.
KILL, REFUSE, LOSE, FAULT, SLOW, KILL_ONCE = -1.0, -2.0, -3.0, -4.0, -5.0, -6.0
FILL, FILL_ONCE = -7.0, -8.0


class PlainBackend:
    """Computes on the simulator; every launch takes 2 us. A special first number in a row triggers an effect."""

    info = BackendInfo("sim", "trn2", "predicted", "predicted, by nobody")

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def launch(self, kernel, *arrays, **parameters):
        first = set(arrays[0].reshape(len(arrays[0]), -1)[:, 0].tolist()) if arrays[0].ndim == 2 else set()
        if KILL in first:
            os.kill(os.getpid(), signal.SIGKILL)
        if KILL_ONCE in first and self._is_first("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if FILL in first or (FILL_ONCE in first and self._is_first("filled")):
            fill_memory()
        if REFUSE in first:
            raise KernelError("a kernel refused")
        if LOSE in first:
            raise BackendUnavailable("the device disappeared")
        if FAULT in first:
            raise ZeroDivisionError("a internal error")
        if SLOW in first:
            time.sleep(0.3)
        outputs = kernel(*arrays, **parameters)
        return LaunchResult((np.asarray(outputs),), LaunchTime(2.0, 3.0, None, None, 10, 100), object())

    def time(self, kernel, *specs, **parameters):
        return LaunchResult((), LaunchTime(2.0, 3.0, None, None, 10, 100))

    def _is_first(self, mark: str) -> bool:
        """Return True for the first call in any process that uses the folder."""
        try:
            if self._folder is not None:
                (self._folder / mark).mkdir()
        except FileExistsError:
            return False
        return self._folder is not None


def fill_memory() -> None:
    """Allocate memory until none is left, after limiting this process to 256 MiB more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    kept = []
    while True:
        kept.append(np.ones(1 << 21))


def open_plain(folder=None, *, progress, warn):
    progress(f"sees core {os.environ.get('NEURON_RT_VISIBLE_CORES')}")
    return PlainBackend(folder)


def open_after_a_fault(*, progress, warn):
    """Work around a fault, as planning does."""
    try:
        raise ZeroDivisionError("no plan")
    except ZeroDivisionError:
        logging.getLogger("trninfer.lowering").exception("no plan for 7 images")
    return PlainBackend(None)


def open_nothing(*, progress, warn):
    raise BackendUnavailable("no device for this worker")


def open_and_die(*, progress, warn):
    os.kill(os.getpid(), signal.SIGKILL)


def double_or_refuse(sources):
    """Prepare inputs by doubling rows; reject strings."""
    rows = [2 * source for source in sources if not isinstance(source, str)]
    failures = {position: source for position, source in enumerate(sources) if isinstance(source, str)}
    return np.array(rows, np.float32).reshape(-1, 6), failures


class LoggingWorker:
    """Logs a fault, as planning does."""

    def begin(self, message):
        logging.getLogger("trninfer.lowering").error("no plan")
        return Reply("logged", None, (), ())

    answer = begin
