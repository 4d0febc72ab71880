"""Several NeuronCores: batches shared out over them, one process a core, answers in the order of the inputs.

Each process sees one core, by NEURON_RT_VISIBLE_CORES (aws-neuron-sdk, neuron-runtime/guides/configuration-guide.rst).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import wait

import numpy as np

from ...models.files import Model
from ..backend import BackendUnavailable
from ..neuron.system import NUMBER_OF_CORES, VISIBLE_CORES, visible_cores
from ..plan import DTYPES, plan_network
from ..session import BatchAnswer, Progress
from .remote import RemoteWorker, WorkerDied
from .worker import BackendOpener, Note


def pick_cores(count: int) -> tuple[int, ...]:
    """The first `count` NeuronCores that may be used; BackendUnavailable where there are fewer.

    Where nothing here tells how many there are, those from 0 on, which the runtime then refuses or not.
    """
    there = visible_cores()
    if there is None:
        return tuple(range(count))
    if count > len(there):
        raise BackendUnavailable(f"{count} NeuronCores asked for; {len(there)} are visible ({_ranges(there)})")
    return there[:count]


class CoresSession:
    """Runs a model's network on several cores; takes the place of a `Session`. To be closed, or used in a `with`.

    `opener` opens the backend in each core's process.
    """

    def __init__(
        self,
        model: Model,
        opener: BackendOpener,
        cores: Sequence[int],
        dtype: str = "float32",
        progress: Note = lambda message: None,
        warn: Note = lambda message: None,
    ) -> None:
        self.model = model
        self.dtype = dtype
        self.rows = tuple(step.row for step in plan_network(model, DTYPES[dtype]))
        self._workers: list[RemoteWorker] = []
        try:
            for core in cores:
                name = f"NeuronCore {core}"
                variables = {VISIBLE_CORES: str(core), NUMBER_OF_CORES: None}
                self._workers.append(RemoteWorker(name, variables, _prefixed(progress, name), _prefixed(warn, name)))
            for worker in self._workers:
                worker.send("open", opener)
            opened = [worker.receive() for worker in self._workers]
            self.info = opened[0]
            for worker in self._workers:
                worker.send("prepare", model, dtype)
            for worker in self._workers:
                worker.receive()
        except BaseException:
            self.close(at_once=True)
            raise

    def stream(self, batches: Iterable[np.ndarray], progress: Progress | None = None) -> Iterator[BatchAnswer]:
        """Answer batches in their order, each run on the next core that is free; see `Session.stream`.

        No more batches are held than there are cores, and answers until those before them are there. `progress` gets
        the inputs answered so far, in any order. Raises KernelError, OverflowedError and BackendUnavailable as a
        `Session` does, and WorkerDied where a process ended, with the core and the inputs that it had. The session is
        of no use after that.
        """
        try:
            waiting: dict[int, BatchAnswer] = {}
            following = 0
            for number, answer in self._answers(iter(batches), progress or (lambda done: None)):
                waiting[number] = answer
                while following in waiting:
                    yield waiting.pop(following)
                    following += 1
        except BaseException:
            self.close(at_once=True)
            raise

    def _answers(self, batches: Iterator[np.ndarray], progress: Progress) -> Iterator[tuple[int, BatchAnswer]]:
        """The number of each batch and its answer, as they come."""
        sizes: list[int] = []
        idle = list(range(len(self._workers)))
        busy: dict[int, int] = {}  # worker: the number of its batch
        done = 0
        more = True
        while more or busy:
            while more and idle:
                batch = next(batches, None)
                if batch is None:
                    more = False
                    break
                position = idle.pop(0)
                busy[position] = len(sizes)
                sizes.append(len(batch))
                with _telling_inputs(sizes, busy[position]):
                    self._workers[position].send("run", batch)
            if not busy:
                break
            ready = wait([self._workers[position].connection for position in busy])
            for position in [p for p in busy if self._workers[p].connection in ready]:
                with _telling_inputs(sizes, busy[position]):
                    answered, answer = self._workers[position].read_message()
                if answered:
                    number = busy.pop(position)
                    done += sizes[number]
                    idle.append(position)
                    progress(done)
                    yield number, replace(answer, worker=position)

    def close(self, at_once: bool = False) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close(at_once)
        self._workers = []

    def __enter__(self) -> CoresSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextmanager
def _telling_inputs(sizes: list[int], number: int) -> Iterator[None]:
    """Adds to a WorkerDied which inputs its process had."""
    try:
        yield
    except WorkerDied as error:
        first = sum(sizes[:number])
        last = first + sizes[number] - 1
        raise WorkerDied(f"{error} with inputs {first} to {last} (counted from 0) unanswered") from None


def _prefixed(note: Note, name: str) -> Note:
    return lambda message: note(f"{name}: {message}")


def _ranges(cores: Sequence[int]) -> str:
    if len(cores) > 1 and list(cores) == list(range(cores[0], cores[-1] + 1)):
        return f"{cores[0]}-{cores[-1]}"
    return ",".join(map(str, cores)) or "none"
