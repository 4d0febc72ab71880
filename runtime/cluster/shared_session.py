"""A session whose batches are shared out over workers; it takes the place of a `Session`.

    while there are batches or answers to wait for:
        take batches while there is room; send the oldest tasks to workers that are free
        wait for one worker: an answer is put in its place; the tasks of one that ended are sent again
        give the answers whose turn it is

A batch is sent whole again when its worker ended. When that happened twice, its inputs are sent one by one; one whose
worker then ends twice again is at fault itself, and the batch is answered without it.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ...kernels.nki_source import simulator_is_preferred
from ...models.files import Model
from ..backend import check_cores, resolve_target
from ..choose import decide
from ..launch_options import DEFAULT_LAUNCHES, LaunchOptions
from ..neuron.backend import open_neuron_backend
from ..neuron.system import pick_cores
from ..session import BatchAnswer, Progress, no_answers
from ..simulated import open_for_worker
from ..timing import add_times
from .crew import Crew, Hand, Task
from .own_ray import NEURON_CORES
from .ray_start import ray_for
from .worker import BackendOpener, Prepare, Reply, Setup

MAX_DEATHS = 2  # of workers over a batch, then over each input of it
WINDOW = 4  # batches taken and not given yet, for each worker

Note = Callable[[str], None]


@dataclass
class _Batch:
    """A batch until its answer is given. `parts` has what is answered, by position where it is gone through."""

    count: int
    parts: dict[int, BatchAnswer] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    answer: BatchAnswer | None = None


class SharedSession:
    """Runs a model's network on workers; see `share_out`, which makes one."""

    def __init__(self, model: Model, crew: Crew, workers: int) -> None:
        self.model = model
        self.workers = workers
        hello = crew.first_hello()
        self.info = hello.info
        self.rows = hello.rows
        self._crew = crew

    def stream(self, batches: Iterable[Any], progress: Progress | None = None) -> Iterator[BatchAnswer]:
        """Answer batches in their order; see `Session.stream`.

        A batch is an array [B, *network.input.shape], or a sequence of B sources where workers prepare them. At most
        WINDOW batches a worker are held. `progress` gets the inputs answered so far, in any order. Raises KernelError,
        OverflowedError and BackendUnavailable as a `Session` does, and WorkerDied where no worker can be started.
        """
        try:
            yield from self._stream(iter(batches), progress or (lambda done: None))
        finally:
            self._crew.drop_busy()

    def processes(self) -> tuple[int, ...]:
        """The processes of the workers that are ready, by their ids on the machines that they are on."""
        return self._crew.processes()

    def _stream(self, coming: Iterator[Any], progress: Progress) -> Iterator[BatchAnswer]:
        held: dict[int, _Batch] = {}
        tasks: deque[Task] = deque()
        taken = given = done = 0
        more = True
        while True:
            while more and len(held) < WINDOW * self.workers and len(tasks) < self.workers:
                inputs = next(coming, None)
                if inputs is None:
                    more = False
                    break
                held[taken] = _Batch(len(inputs))
                tasks.append(Task(taken, inputs))
                taken += 1
            if not held:
                return
            self._crew.ensure(sum(batch.answer is None for batch in held.values()))
            while tasks and (hand := self._crew.free(tasks[0])) is not None:
                self._crew.send(hand, tasks.popleft())
            told = self._crew.wait()
            if isinstance(told, tuple):
                done += self._note(held, *told)
            else:
                tasks.extendleft(reversed([again for task in told for again in self._again(held, task)]))
            progress(done)
            while given in held and (answer := held[given].answer) is not None:
                del held[given]
                given += 1
                yield answer

    def _note(self, held: dict[int, _Batch], hand: Hand, task: Task, reply: Reply) -> int:
        """Put an answer in its place; how many inputs it answers."""
        batch = held[task.batch]
        answer = replace(reply.value, worker=hand.number)
        if task.position is None:
            batch.answer = answer
            return batch.count
        batch.parts[task.position] = answer
        if answer.failures:  # of one input there is one reason
            batch.failures[task.position] = answer.failures[0]
        self._finish(batch)
        return 1

    def _again(self, held: dict[int, _Batch], task: Task) -> list[Task]:
        """Return the tasks to send in place of one whose worker ended."""
        if task.deaths < MAX_DEATHS:
            return [task]
        batch = held[task.batch]
        if task.position is None and batch.count > 1:
            return [Task(task.batch, task.inputs[i : i + 1], i, alone=True) for i in range(batch.count)]
        position = task.position or 0
        batch.failures[position] = f"{task.deaths} workers ended while they had it at work"
        batch.parts[position] = no_answers(self.rows, self.model.network.row_size, {})
        self._finish(batch)
        return []

    def _finish(self, batch: _Batch) -> None:
        """Make one answer of a batch that was gone through one by one, when the last input is answered."""
        if len(batch.parts) < batch.count:
            return
        parts = [batch.parts[position] for position in range(batch.count)]
        timed = [part for part in parts if part.size]
        batch.answer = BatchAnswer(
            size=len(timed),
            classes=np.concatenate([part.classes for part in parts]),
            probabilities=np.concatenate([part.probabilities for part in parts]),
            times=add_times([part.times for part in timed]),
            timelines=(None,) * len(self.rows),
            failures=batch.failures,
            worker=timed[-1].worker if timed else 0,
        )


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
    """A session over `workers` workers, which end with the block: on this machine, or on the Ray cluster at `address`.

    On a cluster None for `workers` means as many as it has room for. `backend` and `target` are as for
    `choose_backend`, but that a cluster's resources decide what "auto" means there; on a chip each worker has a logical
    core of its own, of `lnc` NeuronCores. `opener` opens the workers' backends otherwise. `prepare` makes inputs of
    what is sent in their place. BackendUnavailable where Ray is not there, or where no backend can be opened.
    """
    resolved = resolve_target(target)  # a wrong one is reported here, not by each worker
    check_cores(resolved, lnc)
    cores: tuple[int, ...] = ()
    if address is None and opener is None and decide(backend).backend == "neuron":
        cores = pick_cores(workers or 1, lnc)
    shared_bytes = 2 * sum(tensor.nbytes for tensor in model.tensors.values())
    with ray_for(address, workers or 1, cores, shared_bytes) as ray:
        room = ray.cluster_resources()
        neuron = bool(cores) or backend == "neuron"
        if address is not None and backend == "auto" and not simulator_is_preferred():
            neuron = NEURON_CORES in room
        if opener is None and neuron:
            opener = functools.partial(open_neuron_backend, target, lnc=lnc, **neuron_options)
        elif opener is None:
            opener = functools.partial(open_for_worker, resolved, lnc)
        count = workers or max(1, int(room.get(NEURON_CORES if neuron else "CPU", 1)))
        crew = Crew(ray, Setup(model, opener, dtype, prepare, launches), count, neuron, progress, warn)
        try:
            yield SharedSession(model, crew, count)
        finally:
            crew.close()
