"""Crews on a Ray that is made up, whose workers end as told. Crews on Ray itself: test_shared_session.py."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from trninfer.runtime.cluster.crew import QUEUE, Crew, Task, WorkerDied, _reason
from trninfer.runtime.cluster.worker import Setup
from trninfer.runtime.launch_options import LaunchOptions


class Ended(Exception):  # noqa: N818 (as Ray's errors are called here)
    """What Ray raises for a worker that is gone."""


@dataclass(eq=False)
class Call:
    """A call of an actor's method that is not done yet."""

    number: int
    method: Any
    argument: Any


class MadeUpRay:
    """Runs actors' methods in this process when they are waited for; `ends` has calls, by number, that end an actor."""

    def __init__(self, ends: dict[int, str]) -> None:
        self.exceptions = SimpleNamespace(RayError=Ended)
        self.ends = ends
        self.calls = 0
        self.killed: list[Any] = []
        self.resources: dict[str, Any] = {}

    def put(self, value: Any) -> Any:
        return value

    def remote(self, kind: type) -> Any:
        def options(**given: Any) -> Any:
            self.resources = given
            return SimpleNamespace(remote=lambda: self._actor(kind()))

        return SimpleNamespace(options=options)

    def _actor(self, worker: Any) -> Any:
        def method(name: str) -> Any:
            return SimpleNamespace(remote=lambda argument: self._reference(getattr(worker, name), argument))

        return SimpleNamespace(begin=method("begin"), answer=method("answer"))

    def _reference(self, method: Any, argument: Any) -> Any:
        self.calls += 1
        return Call(self.calls, method, argument)

    def wait(self, references: list[Any], num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return references[:1], references[1:]

    def get(self, reference: Any) -> Any:
        if reference.number in self.ends:
            raise Ended(self.ends[reference.number])
        return reference.method(reference.argument)

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


def rows(count: int) -> np.ndarray:
    return np.ones((count, 6), np.float32)


@pytest.fixture
def crew(model):
    import worker_backends

    def make(ends: dict[int, str], size: int = 2, neuron: bool = False) -> tuple[Crew, MadeUpRay, list[str]]:
        ray, warnings = MadeUpRay(ends), []
        setup = Setup(model, worker_backends.open_plain, "float32", launches=LaunchOptions("layer"))
        return Crew(ray, setup, size, neuron, lambda text: None, warnings.append), ray, warnings

    return make


def test_only_what_was_at_work_counts_a_death(crew) -> None:
    ends = {2: "\tclass_name: Worker\nTask was killed due to the node running low on memory."}
    workers, ray, warnings = crew(ends, size=1)
    workers.first_hello()
    first, second = Task(0, rows(2)), Task(1, rows(2))
    for task in (first, second):
        workers.send(workers.free(task), task)
    third = Task(2, rows(2))
    assert workers.free(third) is None and QUEUE == 2  # it has what it does and what comes next
    assert workers.wait() == [first, second]
    assert (first.deaths, second.deaths) == (1, 0)
    assert len(ray.killed) == 1 and "running low on memory" in warnings[0]
    workers.ensure(2)
    assert workers.wait() == []  # another one is ready
    workers.send(workers.free(first), first)
    assert workers.free(second) is None and workers.free(third) is None  # whose end the next one is, is beyond doubt
    hand, task, reply = workers.wait()
    assert task is first and hand.number == 1 and reply.value.size == 2
    workers.send(workers.free(third), third)
    assert workers.free(second) is None  # it was with what ended a worker, and goes alone too
    workers.wait()
    assert workers.free(second) is hand


def test_three_ends_in_a_row_before_the_first_beginning(crew) -> None:
    workers, _, _ = crew({1: "The actor died", 2: "The actor died", 3: "The actor died of Error"})
    with pytest.raises(WorkerDied, match="3 workers in a row ended before they were ready: The actor died of Error"):
        workers.first_hello()


def test_two_ends_before_a_beginning_are_forgiven(crew) -> None:
    workers, ray, _ = crew({1: "The actor died", 2: "The actor died"})
    assert workers.first_hello().info.name == "sim" and len(workers.processes()) == 1 and len(ray.killed) == 2


@pytest.mark.parametrize(("neuron", "resources"), [(False, {}), (True, {"neuron_cores": 1})])
def test_a_worker_takes_a_cpu_or_a_core_as_well(crew, neuron, resources) -> None:
    _, ray, _ = crew({}, neuron=neuron)
    assert ray.resources["num_cpus"] == 1 and ray.resources["resources"] == resources
    assert ray.resources["max_restarts"] == 0


def test_never_more_workers_than_tasks_or_than_the_crew_has(crew) -> None:
    workers, ray, _ = crew({}, size=3)
    for tasks, started in ((1, 1), (1, 1), (2, 2), (9, 3)):
        workers.ensure(tasks)
        assert ray.calls == started
    workers.close()
    assert len(ray.killed) == 3


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Task was killed due to the node running low on memory.\nMemory on the node was 7 GB", "Task was killed due"),
        ("\n  The actor died unexpectedly before finishing this task.\n\tclass_name: Worker", "The actor died unexp"),
        ("\tclass_name: Worker\n\tactor_id: 1", "class_name: Worker"),
        ("", "ValueError"),
    ],
)
def test_the_line_that_tells_most(text, reason) -> None:
    assert _reason(ValueError(text)).startswith(reason)


DIED = "The actor died because of an error raised in its creation task, "
BEGUN_BADLY = f"""{DIED}\x1b[36mray::Worker.__init__()\x1b[39m (pid=3326, actor_id=37bd, repr=<x object at 0x7f22>)
RuntimeError: The actor with name Worker failed to import on the worker. Libraries may be missing:

Traceback (most recent call last):
  File "trninfer/__init__.py", line 1, in <module>
ModuleNotFoundError: No module named 'trninfer'"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (BEGUN_BADLY, "ModuleNotFoundError: No module named 'trninfer'"),
        (
            BEGUN_BADLY.partition("\n")[0],
            "The actor died because of an error raised in its creation task, ray::Worker.__init__()",
        ),
        ("x" * 50_000, "x" * 200),
    ],
)
def test_no_colours_and_no_addresses_of_objects_are_told(said, told) -> None:
    assert _reason(Ended(said)) == told
