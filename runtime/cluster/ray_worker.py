"""A worker as a Ray actor."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...version import __version__
from ..backend import BackendUnavailable
from ..session import BatchAnswer
from ..workers.process import WorkerEnded
from ..workers.worker import Hello, Reply, Worker

NEURON_CORES = "neuron_cores"  # Ray's name for NeuronCores, which it assigns to actors through NEURON_RT_VISIBLE_CORES
_LOOK_SECONDS = 0.5  # seconds between checks of whether the worker was ended

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt): ")  # the last line of a traceback
_LONGEST_REASON = 200


def actor_class(ray: Any, neuron: bool) -> Any:
    """Return the actor class. Each actor uses one CPU and, if `neuron`, one NeuronCore."""
    return ray.remote(Worker).options(
        num_cpus=1, resources={NEURON_CORES: 1} if neuron else {}, max_restarts=0, scheduling_strategy="SPREAD"
    )


class RayWorker:
    """A pool's worker on any machine of the cluster.

    `actors` is a result of `actor_class`, and `setup` is a reference to a `Setup` in Ray's object store. When the
    worker is ready, `greeted` is called with its description.
    """

    def __init__(self, number: int, greeted: Callable[[Hello], None], ray: Any, actors: Any, setup: Any) -> None:
        self._number = number
        self._ray = ray
        self._actor = actors.remote()
        self._setup = setup
        self._greeted = greeted
        self._said: list[tuple[str, str]] = []
        self._host: str | None = None
        self._is_ended = False

    def begin(self) -> str:
        """Wait until the worker is ready, and return a line for the log.

        Raises BackendUnavailable if the worker has another version of trninfer.
        """
        hello: Hello = self._value(self._actor.begin.remote(self._setup))
        if hello.version != __version__:
            raise BackendUnavailable(f"{hello.host} has trninfer {hello.version}, but this machine has {__version__}")
        self._host = hello.host
        self._greeted(hello)
        return f"{hello.process} on {hello.host}"

    def answer(self, sources: list[Any]) -> list[BatchAnswer]:
        """Return the result for the single source, which is a batch."""
        (batch,) = sources
        answer: BatchAnswer = self._value(self._actor.answer.remote(batch))
        return [replace(answer, worker=self._number)]

    def notes(self) -> list[tuple[str, str]]:
        """Return the lines that the worker logged since the last call, as (level, line)."""
        lines, self._said = self._said, []
        return lines

    def kill(self) -> None:
        """End the worker at once."""
        self._is_ended = True
        self._ray.kill(self._actor)

    def close(self) -> None:
        """Do nothing, because Ray ends the process."""

    def _value(self, reference: Any) -> Any:
        """Wait for a reply and return its value. Raises the error in the reply, or WorkerEnded."""
        while True:
            try:
                reply: Reply = self._ray.get(reference, timeout=_LOOK_SECONDS)
                break
            except self._ray.exceptions.GetTimeoutError:
                if self._is_ended:
                    raise WorkerEnded("a worker was stopped") from None
            except (self._ray.exceptions.RayError, OSError) as error:
                where = f" on {self._host}" if self._host else ""
                raise WorkerEnded(f"a worker's process{where} ended: {_reason(error)}") from None
        self._said += reply.notes
        if reply.error is not None:
            raise reply.error
        return reply.value


def _reason(error: Exception) -> str:
    """Return Ray's explanation of why a worker ended, in one line: the reported error or, if there is none, how the
    worker ended.

    Ray's messages contain colour codes and the addresses of objects.
    """
    lines = [line.strip() for line in _COLOUR.sub("", str(error)).splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    reported = [line for line in lines if "memory" in line.lower() or "died" in line.lower() or "Error" in line]
    reason = (raised[-1:] or reported or lines or [type(error).__name__])[0]
    return re.sub(r",? \(pid=.*$| \S* object at 0x\w+", "", reason)[:_LONGEST_REASON]
