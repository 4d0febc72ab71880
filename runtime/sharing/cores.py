"""Several NeuronCores: batches shared out over them, one process a core, answers in the order of the inputs.

Each process sees one core, by NEURON_RT_VISIBLE_CORES (aws-neuron-sdk, neuron-runtime/guides/configuration-guide.rst).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from ...models.files import Model
from ..backend import BackendUnavailable
from ..neuron.system import NUMBER_OF_CORES, VISIBLE_CORES, visible_cores
from ..plan import DTYPES, plan_network
from ..session import DEFAULT_BATCH_SIZE, Result, split_batches
from ..timing import Stopwatch
from .remote import RemoteWorker, WorkerDied
from .worker import BackendOpener, Note


@dataclass(frozen=True)
class CoresResult(Result):
    """The result of several cores. Rows and `total_us` add up the time of all cores; `core_us` tells that of each.

    Cores work at the same time, so the longest of `core_us` is what passes on the chip.
    """

    core_us: tuple[float, ...] = ()


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
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: Note = lambda message: None,
        warn: Note = lambda message: None,
    ) -> None:
        self.model = model
        self.dtype = dtype
        self.batch_size = batch_size
        self._steps = plan_network(model, DTYPES[dtype])
        self._workers: list[RemoteWorker] = []
        try:
            for core in cores:
                name = f"NeuronCore {core}"
                variables = {VISIBLE_CORES: str(core), NUMBER_OF_CORES: None}
                self._workers.append(RemoteWorker(name, variables, _prefixed(progress, name), _prefixed(warn, name)))
            for worker in self._workers:
                worker.send("open", opener)
            opened = [worker.receive() for worker in self._workers]
            self.backend_name, self.target, self.latency_kind = opened[0]
            for worker in self._workers:
                worker.send("prepare", model, dtype)
            for worker in self._workers:
                worker.receive()
        except BaseException:
            self.close(at_once=True)
            raise

    def run(self, x: np.ndarray, progress: Callable[[int], None] | None = None) -> CoresResult:
        """Run inputs [N, *network.input.shape], at most `batch_size` at a time; see `run_batches`."""
        return self.run_batches(split_batches(x, self.batch_size), progress)

    def run_batches(self, batches: Iterable[np.ndarray], progress: Callable[[int], None] | None = None) -> CoresResult:
        """Run batches as they come, each on the next core that is free; `progress` gets the inputs answered so far.

        No more batches are held than there are cores. Raises KernelError, OverflowedError and BackendUnavailable as a
        `Session` does, and WorkerDied where a process ended, with the core and the inputs that it had. The session is
        of no use after that.
        """
        try:
            return self._run(iter(batches), progress)
        except BaseException:
            self.close(at_once=True)
            raise

    def _run(self, batches: Iterator[np.ndarray], progress: Callable[[int], None] | None) -> CoresResult:
        answers: dict[int, tuple[np.ndarray, np.ndarray, list[Any]]] = {}
        sizes: list[int] = []
        core_us = [0.0] * len(self._workers)
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
                    answers[number] = answer
                    core_us[position] += sum(launch.latency_us for launch in answer[2])
                    done += sizes[number]
                    idle.append(position)
                    if progress is not None:
                        progress(done)
        return self._collect(answers, sizes, tuple(core_us))

    def _collect(
        self,
        answers: dict[int, tuple[np.ndarray, np.ndarray, list[Any]]],
        sizes: list[int],
        core_us: tuple[float, ...],
    ) -> CoresResult:
        stopwatch = Stopwatch(self._steps)
        for number, size in enumerate(sizes):
            stopwatch.add_batch(size, answers[number][2])
        ordered = [answers[number] for number in range(len(sizes))]
        layers = stopwatch.rows()
        classes = [answer[0] for answer in ordered]
        probabilities = [answer[1] for answer in ordered]
        labels = len(self.model.network.labels)
        return CoresResult(
            np.concatenate(classes) if classes else np.empty(0, np.int32),
            np.concatenate(probabilities) if probabilities else np.empty((0, labels), np.float32),
            layers,
            sum(layer.latency_us for layer in layers),
            core_us=core_us,
        )

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
