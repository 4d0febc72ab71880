"""Run work in parallel in forked processes.

They inherit the objects of this process, because kernels cannot be pickled.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_work: list[Callable[[int], object]] = []  # the current work, which forked processes inherit


def each(count: int, work: Callable[[int], _T], lost: Callable[[int], _T], processes: int | None = None) -> list[_T]:
    """Return [work(0), ..., work(count - 1)], computed in `processes` processes (default: one per processor core).

    `lost` returns the result for an index whose process was killed. If fork is unavailable, the work runs sequentially.
    """
    import multiprocessing  # imported here because few launches need it
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    workers = min(processes or cores(), count)
    if workers <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(index) for index in range(count)]
    _work.append(work)
    try:
        with warnings.catch_warnings():
            # ignore warnings about forking a process with threads, since all threads are idle
            warnings.simplefilter("ignore", DeprecationWarning)
            with ProcessPoolExecutor(workers, multiprocessing.get_context("fork")) as pool:
                running = [pool.submit(_do, index) for index in range(count)]
                results: list[_T] = []
                for index, future in enumerate(running):
                    try:
                        results.append(future.result())  # type: ignore[arg-type]
                    except BrokenProcessPool:
                        results.append(lost(index))
                return results
    finally:
        _work.pop()


def cores() -> int:
    """Return the number of processor cores available to this process."""
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def _do(index: int) -> object:
    return _work[-1](index)
