"""Inputs of many requests as batches, shared out over worker processes.

while it runs, a loop for each worker:
    take what waits, up to a batch; where less waits, until the oldest input has waited long enough
    have the worker answer the batch, and hand each input its result
    where the batch cannot be answered, go through its inputs one by one
    where the worker ended, start another; its inputs are sent again, each alone, and given up the second time
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from ...runtime.backend import BackendUnavailable, KernelError
from ...runtime.cluster.worker import WorkerFault
from ...runtime.session import OverflowedError
from ...runtime.worker_process import WorkerEnded

MAX_DEATHS = 2  # of workers over one input
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between attempts to start a worker

Result = Any  # of one input; an Exception where it has none


class PoolWorker(Protocol):
    """A process that answers batches. All but `kill` wait."""

    def begin(self) -> str:
        """Wait until it is ready; a line for the log."""

    def answer(self, sources: list[Any]) -> list[Result]:
        """A result for each source, in their order."""

    def notes(self) -> list[tuple[str, str]]:
        """Return the worker's lines since the last call: (level, line)."""

    def kill(self) -> None:
        """End it at once."""

    def close(self) -> None:
        """End it, and wait until it has ended."""


@dataclass(frozen=True)
class PoolRules:
    """The number of workers, and how inputs become batches for them; times in seconds."""

    workers: int
    max_batch: int
    max_delay: float
    timeout: float


class Observer(Protocol):
    """Observer of a pool, for metrics and logs."""

    def batch_answered(self, size: int, waited: Sequence[float], seconds: float) -> None:
        """A batch was answered: how long its inputs waited, and how long the worker took."""

    def worker_ended(self, number: int, reason: str) -> None:
        """A worker ended that was ready."""

    def note(self, level: str, event: str, **fields: Any) -> None:
        """Something for the log."""


@dataclass(eq=False)
class _Job:
    """An input that waits for its result."""

    source: Any
    result: asyncio.Future[Result]
    arrived: float
    deaths: int = 0


class WorkerPool:
    """Answers inputs by workers. To be started and stopped in a running event loop.

    `start_worker` starts the process with a number; `failed` is called with the error where a worker cannot begin and
    none ever could.
    """

    def __init__(
        self,
        start_worker: Callable[[int], PoolWorker],
        rules: PoolRules,
        observer: Observer,
        failed: Callable[[Exception], None],
    ) -> None:
        self._start_worker = start_worker
        self._rules = rules
        self._observer = observer
        self._failed = failed
        self._queue: deque[_Job] = deque()
        self._alone: deque[_Job] = deque()  # inputs whose worker ended
        self._started: set[PoolWorker] = set()
        self._ready: set[int] = set()
        self._was_ready = False
        self._at_work = 0
        self._stopping = False
        self._loops: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(rules.workers, "worker")
        self.rate = 0.0  # inputs a second of one worker, of late

    @property
    def is_ready(self) -> bool:
        """True while inputs are taken and a worker is there for them."""
        return bool(self._ready) and not self._stopping

    @property
    def waiting(self) -> int:
        """The number of inputs that wait for a worker."""
        return len(self._queue) + len(self._alone)

    @property
    def workers_ready(self) -> int:
        """The number of workers that are ready."""
        return len(self._ready)

    def start(self) -> None:
        """Start the workers, which takes a while; `is_ready` says when the first one is ready."""
        self._changed = asyncio.Event()
        self._taking = asyncio.Lock()
        self._loops = [asyncio.ensure_future(self._keep_worker(number)) for number in range(self._rules.workers)]
        for loop in self._loops:
            loop.add_done_callback(self._look_at_end)

    async def stop(self, grace: float) -> None:
        """Answer what waits within `grace` seconds, and end the workers. What is left raises WorkerEnded."""
        self._stopping = True
        self._changed.set()
        if self._ready:
            await asyncio.wait(self._loops, timeout=grace)
        for job in (*self._queue, *self._alone):
            _fail(job, WorkerEnded("the server stopped"))
        self.kill()
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._threads.shutdown(wait=False)

    def kill(self) -> None:
        """End the workers at once; also when the event loop has ended."""
        for worker in list(self._started):
            worker.kill()

    def submit(self, source: Any) -> asyncio.Future[Result]:
        """Put an input into the queue: its result, when it is there.

        The future raises what the worker has in place of a result, KernelError or OverflowedError where it cannot
        answer, WorkerFault for a fault of the program, and WorkerEnded where workers ended over it. Where it is
        cancelled before a worker has the input, the input loses its place.
        """
        job = _Job(source, asyncio.get_running_loop().create_future(), time.monotonic())
        self._queue.append(job)
        self._changed.set()
        return job.result

    async def _keep_worker(self, number: int) -> None:
        """Have a worker with this number answer batches, and another where it ends."""
        pause = FIRST_PAUSE
        while not self._stopping:
            worker: PoolWorker = await self._in_thread(self._start_worker, number)
            self._started.add(worker)
            try:
                if await self._begin(number, worker):
                    pause = FIRST_PAUSE
                    await self._serve(number, worker)
                    continue
            except WorkerEnded as error:
                self._observer.worker_ended(number, str(error))
                continue
            finally:
                self._ready.discard(number)
                self._started.discard(worker)
                worker.kill()
                with contextlib.suppress(RuntimeError):  # the threads are shut down
                    await asyncio.shield(self._in_thread(worker.close))
            if not self._stopping:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _begin(self, number: int, worker: PoolWorker) -> bool:
        """Wait until a worker is ready; False where it cannot be, which is final where none ever was."""
        try:
            told = await self._in_thread(worker.begin)
        except (WorkerEnded, BackendUnavailable, KernelError, OverflowedError, WorkerFault) as error:
            self._observer.note("error", "worker did not start", worker=number, reason=str(error))
            if not self._was_ready:
                self._stopping = True
                self._failed(error)
            return False
        finally:
            self._pass_on_notes(number, worker)
        self._ready.add(number)
        self._was_ready = True
        self._observer.note("info", "worker ready", worker=number, process=told)
        return True

    async def _serve(self, number: int, worker: PoolWorker) -> None:
        """Answer batches until the pool stops; WorkerEnded where the worker does."""
        while jobs := await self._take():
            self._at_work += len(jobs)
            try:
                await self._answer(worker, jobs)
            except WorkerEnded as error:
                self._send_again(jobs, error)
                raise
            except asyncio.CancelledError:
                for job in jobs:
                    _fail(job, WorkerEnded("the server stopped"))
                raise
            finally:
                self._at_work -= len(jobs)
                del jobs  # with what they hold, while this waits for others
                self._changed.set()
                self._pass_on_notes(number, worker)

    async def _take(self) -> list[_Job]:
        """The inputs of the next batch; none where the pool is stopping and nothing waits."""
        async with self._taking:
            while True:
                _forget_cancelled(self._queue)
                _forget_cancelled(self._alone)
                if self._alone:
                    return [self._alone.popleft()]
                wait: float | None = None
                if self._queue:
                    wait = self._queue[0].arrived + self._rules.max_delay - time.monotonic()
                    if len(self._queue) >= self._rules.max_batch or wait <= 0 or self._stopping:
                        count = min(len(self._queue), self._rules.max_batch)
                        return [self._queue.popleft() for _ in range(count)]
                elif self._stopping and not self._at_work:
                    return []
                self._changed.clear()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), wait)

    async def _answer(self, worker: PoolWorker, jobs: list[_Job]) -> None:
        """Hand each input its result. WorkerEnded where the worker ended, or took longer than anybody waits."""
        began = time.monotonic()
        answering = self._in_thread(worker.answer, [job.source for job in jobs])
        try:
            results = await asyncio.wait_for(asyncio.shield(answering), self._rules.timeout)
        except asyncio.TimeoutError:
            worker.kill()
            with contextlib.suppress(WorkerEnded):
                await answering
            raise WorkerEnded(f"a batch took longer than {self._rules.timeout:g} s, so its worker was ended") from None
        except (KernelError, OverflowedError, WorkerFault) as error:
            if len(jobs) > 1:
                for job in jobs:
                    await self._answer(worker, [job])
                return
            _fail(jobs[0], error)
            if isinstance(error, WorkerFault):
                self._observer.note("error", "fault of the program", reason=str(error))
            return
        seconds = time.monotonic() - began
        recent = len(jobs) / max(seconds, 1e-6)
        self.rate = recent if not self.rate else 0.8 * self.rate + 0.2 * recent
        self._observer.batch_answered(len(jobs), [began - job.arrived for job in jobs], seconds)
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Exception):
                _fail(job, result)
            elif not job.result.done():
                job.result.set_result(result)

    def _send_again(self, jobs: list[_Job], error: WorkerEnded) -> None:
        for job in jobs:
            job.deaths += 1
            if job.deaths < MAX_DEATHS and not self._stopping:
                self._alone.append(job)
            else:
                _fail(job, error)

    def _look_at_end(self, loop: asyncio.Task[None]) -> None:
        """A loop ends with an error where the program has a fault."""
        error = None if loop.cancelled() else loop.exception()
        if isinstance(error, Exception):
            self._failed(error)

    def _pass_on_notes(self, number: int, worker: PoolWorker) -> None:
        for level, line in worker.notes():
            self._observer.note(level, line, worker=number)

    def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


def _fail(job: _Job, error: Exception) -> None:
    if not job.result.done():
        job.result.set_exception(error)


def _forget_cancelled(queue: deque[_Job]) -> None:
    """Take out the inputs whose result nobody waits for any more."""
    if any(job.result.done() for job in queue):
        left = [job for job in queue if not job.result.done()]
        queue.clear()
        queue.extend(left)
