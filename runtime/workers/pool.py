"""A pool of workers, which groups inputs into batches, distributes them, and replaces workers that end.

A server submits single inputs, which the pool groups into batches. A run over files submits whole batches as its
"inputs"; each of its workers takes one batch at a time.

while the pool runs, a loop for each worker:
    take the waiting inputs, at most one batch; take a smaller batch if its oldest input has waited long enough
    pass the batch to the worker, and set the result of each input
    if the batch is rejected, send its inputs individually
    if the worker ended, start another and resend each input individually; drop an input after it ended two workers
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from ..backend import BackendUnavailable, KernelError
from ..session import OverflowedError
from .process import WorkerEnded
from .worker import WorkerFault

MAX_DEATHS = 2  # number of workers that may end because of one input
MAX_FAILED_STARTS = 3  # consecutive failures to start a worker of a run while no worker is ready
END_SECONDS = 10.0  # seconds to wait for killed workers to end
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between attempts to start a worker

Result = Any  # result of one input, or an Exception


class PoolStopped(WorkerEnded):
    """The pool stopped before an input was processed."""


class WorkerDied(BackendUnavailable):
    """Workers of a run ended before they were ready. The message is one line for the user."""


class PoolWorker(Protocol):
    """A worker that processes batches. All methods except `kill` and `notes` block."""

    def begin(self) -> str:
        """Wait until the worker is ready, and return a line for the log."""

    def answer(self, sources: list[Any]) -> list[Result]:
        """Return a result for each source, in the same order."""

    def notes(self) -> list[tuple[str, str]]:
        """Return the lines that the worker logged since the last call, as (level, line)."""

    def kill(self) -> None:
        """End the worker at once."""

    def close(self) -> None:
        """End the worker, and wait until it has ended."""


@dataclass(frozen=True)
class PoolRules:
    """The number of workers, and the rules for grouping inputs into batches. Times are in seconds.

    A pool for a run over files (`for_run`) starts a worker when there is an input for it. It fails if several workers
    in a row end before they are ready while no other worker is ready, or at once if a worker reports that it cannot
    work. A server's pool starts all workers at once, and keeps trying after at least one of them has been ready.
    """

    workers: int
    max_batch: int
    max_delay: float
    timeout: float | None  # seconds that a worker may take for a batch
    for_run: bool = False


class Observer(Protocol):
    """Observer of a pool, for metrics and logs."""

    def batch_answered(self, size: int, waited: Sequence[float], seconds: float) -> None:
        """Record that a batch was processed, how long its inputs waited, and how long the worker took."""

    def worker_ended(self, number: int, reason: str) -> None:
        """Record that a worker ended after it had been ready."""

    def worker_said(self, number: int, level: str, line: str) -> None:
        """Report a line that a worker wrote for the user."""

    def note(self, level: str, event: str, **fields: Any) -> None:
        """Write a line to the log."""


class _NobodyWaits(Exception):  # noqa: N818 (the condition)
    """A worker was ended because all of its inputs were cancelled."""


@dataclass(eq=False)
class _Job:
    """An input that waits for its result."""

    source: Any
    result: asyncio.Future[Result]
    arrived: float
    deaths: int = 0


class WorkerPool:
    """Distributes inputs to workers. The pool must be started and stopped in a running event loop.

    `start_worker` starts the worker with a given number. `failed` is called with the error if a worker cannot start and
    the pool gives up (see `PoolRules`).
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
        self._busy: dict[PoolWorker, list[_Job]] = {}
        self._dropped: set[PoolWorker] = set()  # workers ended by `drop`
        self._ready: set[int] = set()
        self._was_ready = False
        self._failed_starts = 0  # consecutive
        self._at_work = 0
        self._stopping = False
        self._loops: list[asyncio.Task[None]] = []
        self._threads = ThreadPoolExecutor(rules.workers, "worker")
        self.rate = 0.0  # recent throughput of one worker, inputs per second

    @property
    def is_ready(self) -> bool:
        """True while the pool accepts inputs and at least one worker is ready."""
        return bool(self._ready) and not self._stopping

    @property
    def waiting(self) -> int:
        """The number of inputs waiting for a worker."""
        return len(self._queue) + len(self._alone)

    @property
    def workers_ready(self) -> int:
        """The number of workers that are ready."""
        return len(self._ready)

    def start(self) -> None:
        """Begin to start the workers, which takes a while. `is_ready` is True once the first worker is ready."""
        self._changed = asyncio.Event()
        self._taking = asyncio.Lock()
        self._loops = [asyncio.ensure_future(self._keep_worker(number)) for number in range(self._rules.workers)]
        for loop in self._loops:
            loop.add_done_callback(self._look_at_end)

    async def stop(self, grace: float) -> None:
        """Process waiting inputs for up to `grace` seconds, then end the workers.

        The futures of the remaining inputs raise PoolStopped.
        """
        self._stopping = True
        self._changed.set()
        if self._ready:
            await asyncio.wait(self._loops, timeout=grace)
        for job in (*self._queue, *self._alone):
            _fail(job, PoolStopped("the server stopped"))
        self.kill()
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        with contextlib.suppress(asyncio.TimeoutError):  # the threads that end the workers may hang
            await asyncio.wait_for(asyncio.to_thread(self._threads.shutdown), END_SECONDS)

    def kill(self) -> None:
        """End the workers immediately, even if the event loop has ended."""
        for worker in list(self._started):
            worker.kill()

    def submit(self, source: Any) -> asyncio.Future[Result]:
        """Queue an input, and return a future for its result.

        The future raises the worker's error: KernelError or OverflowedError if the input cannot be processed,
        WorkerFault for a bug in the program, and WorkerEnded if workers ended because of the input. If the future is
        cancelled before a worker has received the input, the input is removed from the queue.
        """
        job = _Job(source, asyncio.get_running_loop().create_future(), time.monotonic())
        self._queue.append(job)
        self._changed.set()
        return job.result

    def drop(self) -> None:
        """Cancel all inputs, and end the workers that are processing them."""
        for job in chain(self._queue, self._alone, *self._busy.values()):
            job.result.cancel()
        for worker in list(self._busy):
            self._dropped.add(worker)
            worker.kill()

    async def _keep_worker(self, number: int) -> None:
        """Run the worker with this number, and start a new one whenever it ends."""
        pause = FIRST_PAUSE
        while await self._is_needed(number):
            if await self._run_worker(number):
                pause = FIRST_PAUSE
            elif not self._stopping and (self._ready or not self._rules.for_run):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _run_worker(self, number: int) -> bool:
        """Start a worker and run it until it ends or the pool stops. Return False if it did not start."""
        try:
            worker: PoolWorker = await self._in_thread(self._start_worker, number)
        except WorkerEnded as error:
            self._note_failed_start(number, error)
            return False
        self._started.add(worker)
        try:
            if not await self._begin(number, worker):
                return False
            await self._serve(number, worker)
        except WorkerEnded as error:
            self._observer.worker_ended(number, str(error))
        except _NobodyWaits:
            pass
        finally:
            self._ready.discard(number)
            self._started.discard(worker)
            self._dropped.discard(worker)
            worker.kill()
            with contextlib.suppress(RuntimeError):  # the thread pool has been shut down
                await asyncio.shield(self._in_thread(worker.close))
        return True

    async def _is_needed(self, number: int) -> bool:
        """Wait until there is work for the worker with this number. Return False if the pool stops."""
        while not self._stopping:
            if not self._rules.for_run or number == 0 or self.waiting + self._at_work > number:
                return True
            self._changed.clear()
            await self._changed.wait()
        return False

    async def _begin(self, number: int, worker: PoolWorker) -> bool:
        """Wait until a worker is ready. Return False if it cannot start, in which case the pool may give up."""
        try:
            description = await self._in_thread(worker.begin)
        except (WorkerEnded, BackendUnavailable, KernelError, OverflowedError, WorkerFault) as error:
            self._note_failed_start(number, error)
            return False
        finally:
            self._pass_on_notes(number, worker)
        self._ready.add(number)
        self._failed_starts = 0
        self._was_ready = True
        self._observer.note("info", "worker ready", worker=number, process=description)
        return True

    def _note_failed_start(self, number: int, error: Exception) -> None:
        """Log that a worker could not start, and give up if the error is final."""
        self._observer.note("error", "the worker did not start", worker=number, reason=str(error))
        self._failed_starts = 0 if self._ready else self._failed_starts + 1
        if (final := self._final(error)) is not None and not self._stopping:
            self._stopping = True
            self._failed(final)

    def _final(self, error: Exception) -> Exception | None:
        """Return the error to raise after a worker could not start, or None to try again."""
        if not self._rules.for_run:
            return None if self._was_ready else error
        if not isinstance(error, WorkerEnded):
            return error
        if self._failed_starts < MAX_FAILED_STARTS:
            return None
        return WorkerDied(f"{self._failed_starts} workers in a row ended before they were ready: {error}")

    async def _serve(self, number: int, worker: PoolWorker) -> None:
        """Process batches until the pool stops. Raise WorkerEnded if the worker ends."""
        while jobs := await self._take():
            self._at_work += len(jobs)
            self._busy[worker] = jobs
            try:
                await self._answer(worker, jobs)
                if worker in self._dropped:  # it had just completed the batch
                    raise _NobodyWaits
            except WorkerEnded as error:
                if all(job.result.cancelled() for job in jobs):
                    raise _NobodyWaits from None
                self._send_again(jobs, error)
                raise
            except asyncio.CancelledError:
                for job in jobs:
                    _fail(job, PoolStopped("the server stopped"))
                raise
            finally:
                self._at_work -= len(jobs)
                del self._busy[worker]
                del jobs  # release the inputs while waiting for the next ones
                self._changed.set()
                self._pass_on_notes(number, worker)

    async def _take(self) -> list[_Job]:
        """Return the inputs of the next batch. The list is empty if the pool is stopping and no input is waiting."""
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
        """Set the result of each input. Raises WorkerEnded if the worker ended or exceeded the time limit."""
        began = time.monotonic()
        answering = self._in_thread(worker.answer, [job.source for job in jobs])
        try:
            results = await asyncio.wait_for(asyncio.shield(answering), self._rules.timeout)
        except asyncio.TimeoutError:
            worker.kill()
            with contextlib.suppress(WorkerEnded):
                await answering
            raise WorkerEnded(
                f"a batch took longer than {self._rules.timeout:g} s, so its worker was stopped"
            ) from None
        except (KernelError, OverflowedError, WorkerFault) as error:
            await self._answer_singly(worker, jobs, error)
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

    async def _answer_singly(self, worker: PoolWorker, jobs: list[_Job], error: Exception) -> None:
        """Process the inputs of a failed batch one by one. If a batch of one input fails, its error is assigned to the
        input."""
        if len(jobs) > 1:
            for job in jobs:
                await self._answer(worker, [job])
            return
        _fail(jobs[0], error)
        if isinstance(error, WorkerFault):
            self._observer.note("error", "internal error", reason=str(error))

    def _send_again(self, jobs: list[_Job], error: WorkerEnded) -> None:
        for job in jobs:
            job.deaths += 1
            if job.deaths < MAX_DEATHS and not self._stopping:
                self._alone.append(job)
            else:
                _fail(job, error)

    def _look_at_end(self, loop: asyncio.Task[None]) -> None:
        """Handle the end of a worker's loop, which raises an error only if the program has a bug."""
        error = None if loop.cancelled() else loop.exception()
        if isinstance(error, Exception):
            self._failed(error)

    def _pass_on_notes(self, number: int, worker: PoolWorker) -> None:
        for level, line in worker.notes():
            self._observer.worker_said(number, level, line)

    def _in_thread(self, call: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)


def _fail(job: _Job, error: Exception) -> None:
    if not job.result.done():
        job.result.set_exception(error)


def _forget_cancelled(queue: deque[_Job]) -> None:
    """Remove cancelled inputs from the queue."""
    if any(job.result.done() for job in queue):
        left = [job for job in queue if not job.result.done()]
        queue.clear()
        queue.extend(left)
