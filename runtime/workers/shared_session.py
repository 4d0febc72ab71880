"""A session that distributes batches to workers, which is used instead of a `Session`.

The workers are local processes, or actors on a Ray cluster. Their pool runs in an event loop in a separate thread. The
caller receives the results in the order of the batches.

If a worker ends, its whole batch is resent to another worker. If that worker ends too, the inputs of the batch are sent
individually. An input that ends two workers is considered the cause, and the batch is processed without it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ...kernels.nki_source import simulator_is_preferred
from ...models.files import Model
from ..backend import check_cores, resolve_target
from ..choose import decide
from ..launch_options import DEFAULT_LAUNCHES, LaunchOptions
from ..neuron.backend import open_neuron_backend
from ..neuron.system import VISIBLE_CORES, pick_cores
from ..session import BatchAnswer, Progress, join_answers, no_answers
from ..simulated import open_for_worker
from ..timing import Row
from .pool import END_SECONDS, MAX_DEATHS, PoolRules, PoolWorker, WorkerDied, WorkerPool
from .process import ProcessWorker, WorkerEnded, WorkerProcess
from .worker import BackendOpener, Hello, Prepare, Setup, Worker, WorkerFault

WINDOW = 4  # maximum number of batches per worker that were read but whose results have not been yielded
AHEAD = 2  # maximum number of batches in flight per worker
START_SECONDS = 300.0  # time limit for the first worker to be ready; a cluster may have to add nodes
_STEP_SECONDS = 1.0  # length of one wait; Python handles signals between waits

_LOG = logging.getLogger(__name__)

Note = Callable[[str], None]
Greet = Callable[[Hello], None]
StartWorker = Callable[[int, Greet], PoolWorker]


def _log_fault(text: str) -> None:
    """Log an exception that a worker worked around: a line, followed by the traceback."""
    message, _, trace = text.partition("\n")
    _LOG.error("%s", message, exc_info=(WorkerFault, WorkerFault(trace), None))


class SharedSession:
    """Runs a model's network on workers. `share_out` creates the session, which must be closed."""

    def __init__(self, model: Model, start_worker: StartWorker, workers: int, progress: Note, warn: Note) -> None:
        self.model = model
        self.workers = workers
        self._start_worker = start_worker
        self._says: dict[str, Note] = {"info": progress, "warning": warn, "error": _log_fault}
        self._faults: set[str] = set()  # exceptions of workers that have been logged
        self._said: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._hellos: dict[int, Hello] = {}
        self._greeted: concurrent.futures.Future[Hello] = concurrent.futures.Future()
        self._failure: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._pool = WorkerPool(self._start, PoolRules(workers, 1, 0.0, None, for_run=True), self, self._failed)
        running: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(running)), name="workers", daemon=True)
        self._thread.start()
        self._loop = running.result()
        try:
            self._wait_for_worker()
        except BaseException:
            self.close()
            raise
        self.info = self._greeted.result().info
        self.rows: tuple[Row, ...] = self._greeted.result().rows

    def stream(self, batches: Iterable[Any], progress: Progress | None = None) -> Iterator[BatchAnswer]:
        """Process batches in order; see `Session.stream`.

        A batch is an array [B, *network.input.shape], or a sequence of B sources if workers prepare them. At most
        WINDOW batches per worker are held. `progress` is called with the number of inputs processed so far, in any
        order. Raises KernelError, OverflowedError and BackendUnavailable as a `Session` does, and WorkerDied if no
        worker can be started.
        """
        held: deque[concurrent.futures.Future[BatchAnswer]] = deque()
        try:
            yield from self._stream(iter(batches), held, progress or (lambda done: None))
        finally:
            if held:  # the results are no longer needed
                for answer in held:
                    answer.cancel()
                self._loop.call_soon_threadsafe(self._pool.drop)

    def processes(self) -> tuple[int, ...]:
        """Return the process IDs of the workers that are ready. Each ID is valid on the machine of its worker."""
        return tuple(hello.process for hello in list(self._hellos.values()))

    def close(self) -> None:
        """End the workers."""
        self._pool.kill()
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(2 * END_SECONDS)

    def _stream(
        self, batches: Iterator[Any], held: deque[concurrent.futures.Future[BatchAnswer]], progress: Progress
    ) -> Iterator[BatchAnswer]:
        answered = 0
        waiting: dict[concurrent.futures.Future[BatchAnswer], int] = {}  # sizes of unfinished batches
        more = True
        while True:
            while more and len(held) < WINDOW * self.workers and len(waiting) < AHEAD * self.workers:
                inputs = next(batches, None)
                if inputs is None:
                    more = False
                    break
                answer = asyncio.run_coroutine_threadsafe(self._answer(inputs), self._loop)
                held.append(answer)
                waiting[answer] = len(inputs)
            if not held:
                return
            for done in self._wait(waiting):
                answered += waiting.pop(done)
                done.result()  # raise its error even if earlier batches are not processed yet
            progress(answered)
            while held and held[0].done():
                yield held.popleft().result()

    def _wait(self, futures: Iterable[concurrent.futures.Future[Any]]) -> set[concurrent.futures.Future[Any]]:
        """Wait a limited time for finished batches and return them.

        If the pool gave up, raise the error that caused it.
        """
        done, _ = concurrent.futures.wait([*futures, self._failure], _STEP_SECONDS, concurrent.futures.FIRST_COMPLETED)
        self._pass_on_lines()
        if self._failure in done:
            self._failure.result()
        return done

    def _wait_for_worker(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._wait([self._greeted]):
            if time.monotonic() > deadline:
                raise WorkerDied(f"no worker was ready within {START_SECONDS:.0f} s: the cluster has no free resources")

    def _pass_on_lines(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                level, line = self._said.get_nowait()
                self._says[level](line)

    # The methods below run in the event-loop thread or in a pool thread.

    async def _run(self, running: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        """Keep the pool running until the session is closed."""
        self._end = asyncio.Event()
        self._pool.start()
        running.set_result(asyncio.get_running_loop())
        await self._end.wait()
        await self._pool.stop(0.0)

    async def _answer(self, inputs: Any) -> BatchAnswer:
        """Process a batch; if it causes workers to end, process its inputs one by one."""
        try:
            answer: BatchAnswer = await self._pool.submit(inputs)
            return answer
        except WorkerEnded:
            if len(inputs) == 1:
                return self._give_up()
        return join_answers(
            await asyncio.gather(*(self._answer(inputs[i : i + 1]) for i in range(len(inputs)))), self.rows
        )

    def _give_up(self) -> BatchAnswer:
        reason = f"{MAX_DEATHS} workers ended while processing it"
        return no_answers(self.rows, self.model.network.row_size, {0: reason})

    def _start(self, number: int) -> PoolWorker:
        def greet(hello: Hello) -> None:
            self._hellos[number] = hello
            with contextlib.suppress(concurrent.futures.InvalidStateError):  # another thread has already set it
                self._greeted.set_result(hello)

        return self._start_worker(number, greet)

    def _failed(self, error: Exception) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # another worker failed first
            self._failure.set_exception(error)

    def batch_answered(self, size: int, waited: Any, seconds: float) -> None:
        """Do nothing, because the results contain the times."""

    def worker_ended(self, number: int, reason: str) -> None:
        """Report that a worker ended after it had been ready."""
        self._hellos.pop(number, None)
        self._said.put(("warning", f"worker {number} ended; its inputs go to another worker: {reason}"))

    def worker_said(self, number: int, level: str, line: str) -> None:
        """Report a worker's line to the user, but the exceptions that all workers have in common only once."""
        if level == "error" and line in self._faults:
            return
        if level == "error":
            self._faults.add(line)
        self._said.put((level, f"worker {number}: {line}"))

    def note(self, level: str, event: str, **fields: Any) -> None:
        """Warn the user of a worker that did not start while others run. Other lines are for the log of a server."""
        if level == "error" and "worker" in fields and self._hellos:
            self._said.put(("warning", f"worker {fields['worker']} did not start: {fields['reason']}"))


class LocalWorker(ProcessWorker):
    """A pool's worker in a local process, whose sources are batches."""

    def __init__(self, number: int, greeted: Greet, setup: Setup, variables: Mapping[str, str]) -> None:
        super().__init__(WorkerProcess(Worker, variables))
        self._number = number
        self._greeted = greeted
        self._setup = setup

    def begin(self) -> str:
        """Wait until the worker is ready and return a line for the log."""
        hello: Hello = self._process.ask(self._setup)
        self._greeted(hello)
        return str(hello.process)

    def answer(self, sources: list[Any]) -> list[BatchAnswer]:
        """Return the result for the single source, which is a batch."""
        (batch,) = sources
        answer: BatchAnswer = self._process.ask(batch)
        return [replace(answer, worker=self._number)]


@contextlib.contextmanager
def share_out(
    model: Model,
    dtype: str = "float32",
    workers: int | None = None,
    *,
    backend: str = "auto",
    target: str | None = None,
    lnc: int = 1,
    neuron_options: Mapping[str, Any] = MappingProxyType({}),
    address: str | None = None,
    prepare: Prepare | None = None,
    opener: BackendOpener | None = None,
    launches: LaunchOptions = DEFAULT_LAUNCHES,
    progress: Note = lambda message: None,
    warn: Note = lambda message: None,
) -> Iterator[SharedSession]:
    """Yield a session that uses `workers` workers on this machine, or on the Ray cluster at `address`.

    The workers end with the block. On a cluster, `workers` may be None, which starts as many as its resources allow.
    `backend` and `target` are as for `choose_backend`, except that on a cluster its resources determine the meaning of
    "auto". On a chip, each worker has a separate logical core of `lnc` NeuronCores. `opener`, if given, opens the
    workers' backends instead. `prepare` converts the sources sent to workers to inputs. Raises BackendUnavailable if no
    backend can be opened, or if there is no cluster at the address.
    """
    resolved = resolve_target(target)  # report an invalid target here instead of in each worker
    check_cores(resolved, lnc)

    def setup(neuron: bool) -> Setup:
        chosen = opener or functools.partial(open_for_worker, resolved, lnc)
        if opener is None and neuron:
            chosen = functools.partial(open_neuron_backend, target, lnc=lnc, **neuron_options)
        return Setup(model, chosen, dtype, prepare, launches)

    with contextlib.ExitStack() as stack:
        if address is None:
            neuron = (backend if opener is not None else decide(backend).backend) == "neuron"
            count, start = _workers_here(setup(neuron), workers or 1, lnc if neuron else None)
        else:
            from ..cluster.connection import connected

            ray = stack.enter_context(connected(address))
            count, start = _workers_of_cluster(ray, setup, workers, backend)
        session = SharedSession(model, start, count, progress, warn)
        stack.callback(session.close)
        yield session


def _workers_here(setup: Setup, count: int, lnc: int | None) -> tuple[int, StartWorker]:
    """Return the number of workers, and a function that starts one in a local process.

    If `lnc` is a number, each worker runs on a logical core of that many NeuronCores.
    """
    cores = [None] * count if lnc is None else pick_cores(count, lnc)
    variables = [{} if core is None else {VISIBLE_CORES: str(core)} for core in cores]
    return count, lambda number, greeted: LocalWorker(number, greeted, setup, variables[number])


def _workers_of_cluster(
    ray: Any, setup: Callable[[bool], Setup], count: int | None, backend: str
) -> tuple[int, StartWorker]:
    """Return the number of workers (by default as many as fit) and a function that starts one on a cluster."""
    from ..cluster.ray_worker import NEURON_CORES, RayWorker, actor_class

    resources = ray.cluster_resources()
    neuron = backend == "neuron" or (backend == "auto" and not simulator_is_preferred() and NEURON_CORES in resources)
    actors, stored = actor_class(ray, neuron), ray.put(setup(neuron))
    most = max(1, int(resources.get(NEURON_CORES if neuron else "CPU", 1)))
    return count or most, lambda number, greeted: RayWorker(number, greeted, ray, actors, stored)
