"""Workers as Ray actors: started when there is work for them, and replaced when they end."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...version import __version__
from ..backend import BackendUnavailable
from .own_ray import NEURON_CORES
from .worker import Hello, Reply, Setup, Worker

MAX_FAILED_STARTS = 3  # in a row
START_SECONDS = 300.0  # for a worker to be ready where no other one is at work: a cluster may have to grow
QUEUE = 2  # tasks sent to a worker: the one at work, and the next, so that it does not wait

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt): ")  # the last line of a traceback
_LONGEST_REASON = 200

Note = Callable[[str], None]


class WorkerDied(BackendUnavailable):
    """Workers end before they have begun; the message is one line for the user."""


@dataclass
class Task:
    """Inputs on their way to a worker: those of a batch, or one of them where the batch is gone through one by one."""

    batch: int
    inputs: Any
    position: int | None = None
    deaths: int = 0  # of workers while they had this at work
    alone: bool = False  # a worker that had it ended: nothing else goes to the next one, or it might be blamed for it


@dataclass
class Hand:
    """An actor and what was sent to it, the oldest first. Before it is ready, that is its beginning alone."""

    number: int
    actor: Any
    beginning: Any
    sent: deque[tuple[Task, Any]] = field(default_factory=deque)
    hello: Hello | None = None

    @property
    def reference(self) -> Any:
        """The call it is working on."""
        return self.sent[0][1] if self.hello is not None else self.beginning


class Crew:
    """At most `size` workers. Their messages go to `progress` and `warn`, with the worker's number."""

    def __init__(self, ray: Any, setup: Setup, size: int, neuron: bool, progress: Note, warn: Note) -> None:
        self._ray = ray
        self._setup = ray.put(setup)
        self._size = size
        self._progress = progress
        self._warn = warn
        self._actor_class = ray.remote(Worker).options(
            num_cpus=1, resources={NEURON_CORES: 1} if neuron else {}, max_restarts=0, scheduling_strategy="SPREAD"
        )
        self._hands: dict[int, Hand] = {}
        self._started = 0
        self._failed_starts = 0
        self._idle_since = time.monotonic()

    def ensure(self, tasks: int) -> None:
        """Start workers while there are fewer than tasks and than the crew may have."""
        while len(self._hands) < min(self._size, tasks):
            actor = self._actor_class.remote()
            hand = Hand(self._started, actor, actor.begin.remote(self._setup))
            self._hands[hand.number] = hand
            self._started += 1

    def free(self, task: Task) -> Hand | None:
        """The ready worker with the fewest tasks, if one can take the task."""
        ready = [
            hand
            for hand in self._hands.values()
            if hand.hello is not None
            and len(hand.sent) < (1 if task.alone else QUEUE)
            and not any(sent.alone for sent, _ in hand.sent)
        ]
        return min(ready, key=lambda hand: (len(hand.sent), hand.number), default=None)

    def send(self, hand: Hand, task: Task) -> None:
        """Give a worker a task."""
        hand.sent.append((task, hand.actor.answer.remote(task.inputs)))

    def first_hello(self) -> Hello:
        """Start one worker and wait until it is ready."""
        self.ensure(1)
        while True:
            for hand in self._hands.values():
                if hand.hello is not None:
                    return hand.hello
            self.wait()
            self.ensure(1)

    def wait(self) -> tuple[Hand, Task, Reply] | list[Task]:
        """Wait for a worker's reply.

        That is a task's reply; or, where a worker ended, the tasks that it had, the first with a death more, each to be
        sent alone, since the reply to the first may be lost with the worker; or nothing, where a worker is ready.
        Raises what a worker could not begin for.
        """
        working = {hand.reference: hand for hand in self._hands.values() if hand.hello is None or hand.sent}
        done, _ = self._ray.wait(list(working), num_returns=1, timeout=1.0)
        if any(hand.hello is not None for hand in self._hands.values()) or not self._hands:
            self._idle_since = time.monotonic()
        if not done:
            if time.monotonic() - self._idle_since > START_SECONDS:
                raise WorkerDied(f"no worker could be started within {START_SECONDS:.0f} s: Ray has no room for one")
            return []
        hand = working[done[0]]
        try:
            reply: Reply = self._ray.get(done[0])
        except (self._ray.exceptions.RayError, OSError) as error:
            return self._lost(hand, error)
        for line in reply.progress:
            self._progress(f"worker {hand.number}: {line}")
        for line in reply.warnings:
            self._warn(f"worker {hand.number}: {line}")
        if reply.error is not None:
            raise reply.error
        if hand.hello is None:
            self._welcome(hand, reply.value)
            return []
        task, _ = hand.sent.popleft()
        return hand, task, reply

    def processes(self) -> tuple[int, ...]:
        """The processes of the workers that are ready."""
        return tuple(hand.hello.process for hand in self._hands.values() if hand.hello is not None)

    def drop_busy(self) -> None:
        """End the workers that have tasks, whose answers nobody waits for any more."""
        for hand in [hand for hand in self._hands.values() if hand.sent]:
            self._ray.kill(hand.actor)
            del self._hands[hand.number]

    def close(self) -> None:
        """End all workers."""
        for hand in self._hands.values():
            self._ray.kill(hand.actor)
        self._hands.clear()

    def _welcome(self, hand: Hand, hello: Hello) -> None:
        if hello.version != __version__:
            raise BackendUnavailable(f"{hello.host} has trninfer {hello.version}, not {__version__} as this machine")
        hand.hello = hello
        self._failed_starts = 0

    def _lost(self, hand: Hand, error: Exception) -> list[Task]:
        """Take a worker that ended out of the crew."""
        del self._hands[hand.number]
        self._ray.kill(hand.actor)  # where it only cannot be reached
        reason = _reason(error)
        if hand.hello is None:
            self._failed_starts += 1
            if self._failed_starts >= MAX_FAILED_STARTS:
                raise WorkerDied(f"{self._failed_starts} workers in a row ended before they were ready: {reason}")
            return []
        tasks = [task for task, _ in hand.sent]
        tasks[0].deaths += 1
        for task in tasks:
            task.alone = True
        self._warn(f"worker {hand.number} on {hand.hello.host} ended, its inputs are given to another: {reason}")
        return tasks


def _reason(error: Exception) -> str:
    """Return Ray's account of a worker's end in one line: an error that it reports, else how the worker ended.

    Ray colours its texts, and shows objects by their addresses.
    """
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    told = [line for line in lines if "memory" in line.lower() or "died" in line.lower() or "Error" in line]
    reason = (raised[-1:] or told or lines or [type(error).__name__])[0]
    return re.sub(r",? \(pid=.*$| \S* object at 0x\w+", "", reason)[:_LONGEST_REASON]
