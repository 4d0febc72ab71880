"""A pool of workers, with stand-ins for the processes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from trninfer.models.errors import InputError
from trninfer.runtime.backend import BackendUnavailable, KernelError
from trninfer.runtime.workers.pool import PoolRules, WorkerPool
from trninfer.runtime.workers.process import WorkerEnded

RULES = PoolRules(workers=1, max_batch=4, max_delay=0.05, timeout=60.0)


class Echo:
    """Answers with its input, unless the input is a command."""

    def __init__(self, seen: list[list[Any]], hold: threading.Event | None = None) -> None:
        self._seen = seen
        self._hold = hold
        self._killed = threading.Event()

    def begin(self) -> str:
        return "1"

    def answer(self, sources: list[Any]) -> list[Any]:
        if self._hold is not None:
            self._hold.wait(60)
        self._seen.append(sources)
        if "deadly" in sources:
            raise WorkerEnded("it ended")
        if "refused" in sources:
            raise KernelError("a kernel refuses it")
        if "slow" in sources and self._killed.wait(120):
            raise WorkerEnded("killed")
        return [InputError("no picture") if source == "bad" else source for source in sources]

    def notes(self) -> list[tuple[str, str]]:
        return []

    def kill(self) -> None:
        self._killed.set()

    def close(self) -> None:
        pass


class Notes:
    """An observer that records everything."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.ended: list[str] = []

    def batch_answered(self, size: int, waited: Sequence[float], seconds: float) -> None:
        assert len(waited) == size and min(waited) >= 0 and seconds >= 0
        self.sizes.append(size)

    def worker_ended(self, number: int, reason: str) -> None:
        self.ended.append(reason)

    def worker_said(self, number: int, level: str, line: str) -> None:
        pass

    def note(self, level: str, event: str, **fields: Any) -> None:
        pass


def run(
    work: Callable[[WorkerPool], Awaitable[Any]],
    rules: PoolRules = RULES,
    start: Callable[[int], Any] | None = None,
) -> tuple[Any, list[list[Any]], Notes, list[Exception]]:
    """Return the result of `work` with a running pool, the batches its workers received, the notes, and the
    failures."""
    seen: list[list[Any]] = []
    notes, failures = Notes(), []

    async def main() -> Any:
        pool = WorkerPool(start or (lambda number: Echo(seen)), rules, notes, failures.append)
        pool.start()
        while not (pool.is_ready or failures):
            await asyncio.sleep(0.001)
        try:
            return await work(pool)
        finally:
            await pool.stop(5)

    return asyncio.run(main()), seen, notes, failures


def gathered(pool: WorkerPool, *sources: Any) -> Awaitable[list[Any]]:
    return asyncio.gather(*(pool.submit(source) for source in sources), return_exceptions=True)


def test_simultaneous_requests_form_one_batch() -> None:
    results, seen, notes, _ = run(lambda pool: gathered(pool, *range(10)))
    assert results == list(range(10))
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and notes.sizes == [4, 4, 2]


def test_one_input_waits_for_others_only_so_long() -> None:
    async def work(pool: WorkerPool) -> float:
        began = time.monotonic()
        await pool.submit("alone")
        return time.monotonic() - began

    waited, seen, _, _ = run(work)
    assert seen == [["alone"]] and RULES.max_delay <= waited
    _, seen, _, _ = run(lambda pool: gathered(pool, 1, 2), PoolRules(1, 1, 30.0, 60.0))
    assert seen == [[1], [2]]  # a full batch does not wait


def test_unusable_input_has_an_error_and_others_have_results() -> None:
    results, *_ = run(lambda pool: gathered(pool, 1, "bad", 3))
    assert results[0] == 1 and results[2] == 3 and isinstance(results[1], InputError)


def test_a_batch_that_is_refused_is_gone_through_one_by_one() -> None:
    results, seen, notes, _ = run(lambda pool: gathered(pool, 1, "refused", 3))
    assert results[0] == 1 and results[2] == 3 and isinstance(results[1], KernelError)
    assert seen == [[1, "refused", 3], [1], ["refused"], [3]] and not notes.ended


def test_an_input_that_ends_workers_is_given_up_and_the_others_are_answered() -> None:
    results, seen, notes, failures = run(lambda pool: gathered(pool, 1, "deadly", 3))
    assert results[0] == 1 and results[2] == 3 and isinstance(results[1], WorkerEnded)
    assert seen == [[1, "deadly", 3], [1], ["deadly"], [3]] and len(notes.ended) == 2 and not failures


def test_a_worker_that_hangs_is_replaced() -> None:
    async def work(pool: WorkerPool) -> list[Any]:
        first = await gathered(pool, "slow")
        return [*first, await pool.submit("next")]

    (first, second), _, notes, _ = run(work, PoolRules(1, 4, 0.0, 0.5))
    assert isinstance(first, WorkerEnded) and "longer than 0.5 s" in str(first) and second == "next"
    assert len(notes.ended) == 2


def test_cancelled_request_leaves_the_queue() -> None:
    hold = threading.Event()
    seen: list[list[Any]] = []

    async def work(pool: WorkerPool) -> Any:
        first = pool.submit("first")
        while pool.waiting:  # until a worker has received it
            await asyncio.sleep(0.001)
        gone, last = pool.submit("gone"), pool.submit("last")
        assert pool.waiting == 2
        gone.cancel()
        hold.set()
        return await asyncio.gather(first, last)

    results, *_ = run(work, PoolRules(1, 1, 0.0, 60.0), lambda number: Echo(seen, hold))
    assert results == ["first", "last"] and seen == [["first"], ["last"]]


def test_a_worker_that_drop_ends_receives_nothing_more() -> None:
    """Also if it completed its batch at that moment."""
    hold = threading.Event()

    class Ending(Echo):
        def answer(self, sources: list[Any]) -> list[Any]:
            if self._killed.is_set():
                raise WorkerEnded("killed")
            return super().answer(sources)

    async def work(pool: WorkerPool) -> Any:
        first = pool.submit("first")
        while pool.waiting:
            await asyncio.sleep(0.001)
        pool.drop()
        hold.set()
        return first.cancelled(), await pool.submit("next")

    results, _, notes, _ = run(work, PoolRules(1, 1, 0.0, 60.0), lambda number: Ending([], hold))
    assert results == (True, "next") and not notes.ended


def test_drop_cancels_also_what_another_worker_was_to_do_again() -> None:
    hold = threading.Event()
    starts: list[int] = []

    class Second(Echo):
        def begin(self) -> str:
            starts.append(1)
            if len(starts) > 1:
                hold.wait(30)
            return "1"

    async def work(pool: WorkerPool) -> list[bool]:
        futures = [pool.submit("deadly"), pool.submit("next")]
        while len(starts) < 2:
            await asyncio.sleep(0.001)
        pool.drop()
        hold.set()
        return [future.cancelled() for future in futures]

    cancelled, *_ = run(work, PoolRules(1, 1, 0.0, 60.0), lambda number: Second([]))
    assert cancelled == [True, True]


def test_several_workers_share_the_work() -> None:
    hold = threading.Event()
    seen: list[list[Any]] = []

    async def work(pool: WorkerPool) -> Any:
        while pool.workers_ready < 2:
            await asyncio.sleep(0.001)
        both = [pool.submit(1), pool.submit(2)]
        while pool.waiting:  # until each has been passed to a worker
            await asyncio.sleep(0.001)
        assert not seen
        hold.set()
        return await asyncio.gather(*both)

    results, *_ = run(work, PoolRules(2, 1, 0.0, 60.0), lambda number: Echo(seen, hold))
    assert results == [1, 2]


def test_waiting_requests_are_answered_before_the_pool_stops() -> None:
    async def work(pool: WorkerPool) -> list[Any]:
        waiting = gathered(pool, *range(9))
        await asyncio.sleep(0)
        await pool.stop(5)
        assert not pool.is_ready
        return await waiting

    results, *_ = run(work)
    assert results == list(range(9))


def test_requests_left_after_the_grace_period_are_reported() -> None:
    async def work(pool: WorkerPool) -> list[Any]:
        waiting = gathered(pool, "slow", 2)
        await asyncio.sleep(0.1)
        await pool.stop(0.1)
        return await waiting

    results, *_ = run(work, PoolRules(1, 1, 0.0, 60.0))
    assert all(isinstance(result, WorkerEnded) for result in results)


def test_a_worker_that_cannot_begin_is_reported_and_no_other_is_tried() -> None:
    tries = []

    class Lame(Echo):
        def begin(self) -> str:
            tries.append(1)
            raise BackendUnavailable("no chip here")

    async def work(pool: WorkerPool) -> None:
        await asyncio.sleep(0.1)

    _, _, _, failures = run(work, start=lambda number: Lame([]))
    assert [str(error) for error in failures] == ["no chip here"] and len(tries) == 1


def test_a_fault_in_the_loop_is_no_silence() -> None:
    class Faulty(Echo):
        def begin(self) -> str:
            raise ZeroDivisionError

    async def work(pool: WorkerPool) -> None:
        await asyncio.sleep(0.05)

    _, _, _, failures = run(work, start=lambda number: Faulty([]))
    assert [type(error) for error in failures] == [ZeroDivisionError]


def test_the_pool_waits_for_a_slow_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.runtime.workers.pool.FIRST_PAUSE", 0.01)
    started = []
    seen: list[list[Any]] = []

    class Slow(Echo):
        def begin(self) -> str:
            started.append(1)
            if len(started) in (2, 3):
                raise WorkerEnded("not yet")
            return "1"

    results, _, _, failures = run(lambda pool: gathered(pool, "deadly", 2), start=lambda number: Slow(seen))
    assert isinstance(results[0], WorkerEnded) and results[1] == 2 and len(started) >= 4 and not failures


FOR_RUN = PoolRules(workers=2, max_batch=1, max_delay=0.0, timeout=None, for_run=True)


def test_a_run_has_as_many_workers_as_inputs() -> None:
    hold = threading.Event()
    seen: list[list[Any]] = []
    started: list[int] = []

    def start(number: int) -> Echo:
        started.append(number)
        return Echo(seen, hold)

    async def work(pool: WorkerPool) -> list[Any]:
        first = pool.submit(1)
        while pool.waiting:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        assert started == [0]
        second = pool.submit(2)
        while pool.workers_ready < 2:
            await asyncio.sleep(0.001)
        while pool.waiting:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        assert started == [0, 1] and not seen
        hold.set()
        return await asyncio.gather(first, second)

    results, *_ = run(lambda pool: asyncio.wait_for(work(pool), 60), FOR_RUN, start)
    assert results == [1, 2]


class Weak(Echo):
    """Ends before it is ready."""

    def begin(self) -> str:
        raise WorkerEnded("killed")


def test_a_run_continues_with_the_remaining_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.runtime.workers.pool.FIRST_PAUSE", 0.001)
    seen: list[list[Any]] = []
    weak: list[int] = []

    def start(number: int) -> Echo:
        if number == 0:
            return Echo(seen)
        weak.append(number)
        return Weak(seen)

    async def work(pool: WorkerPool) -> list[Any]:
        results = []
        while len(weak) < 6:
            results += await asyncio.wait_for(gathered(pool, *range(4)), 60)  # the pool has stopped permanently
        return results

    results, _, _, failures = run(work, FOR_RUN, start)
    assert not failures and results == list(range(4)) * (len(results) // 4)


def test_a_run_ends_if_workers_end_before_they_are_ready_and_there_is_no_other() -> None:
    async def work(pool: WorkerPool) -> None:
        pass

    _, _, _, failures = run(work, FOR_RUN, lambda number: Weak([]))
    assert [str(error) for error in failures] == ["3 workers in a row ended before they were ready: killed"]


def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trninfer.runtime.workers.pool.FIRST_PAUSE", 0.001)
    tries = []

    def start(number: int) -> Echo:
        tries.append(number)
        if len(tries) in (2, 3):
            raise WorkerEnded("too many processes")
        return Echo([])

    results, *_, failures = run(lambda pool: gathered(pool, "deadly", 2), start=start)
    assert isinstance(results[0], WorkerEnded) and results[1] == 2 and not failures and len(tries) >= 4
