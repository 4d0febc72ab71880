"""The code that runs in a worker, run in this process."""

from __future__ import annotations

import functools
import os

import numpy as np
import pytest
from trninfer.runtime.backend import BackendUnavailable, KernelError
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.workers.worker import Setup, Worker, WorkerFault
from trninfer.version import __version__


@pytest.fixture
def backends():
    import worker_backends

    return worker_backends


def begun(model, opener, prepare=None) -> Worker:
    worker = Worker()
    assert worker.begin(Setup(model, opener, "float32", prepare, LaunchOptions("layer"))).error is None
    return worker


def test_a_worker_reports_its_machine_and_its_backend(model, backends) -> None:
    reply = Worker().begin(Setup(model, backends.open_plain, "float32", launches=LaunchOptions("layer")))
    assert (reply.value.process, reply.value.version) == (os.getpid(), __version__)
    assert reply.value.info.latency_label == "predicted, by nobody" and len(reply.value.rows) == 4
    assert reply.progress == ("sees core None",) and reply.warnings == ()


def test_answers_leave_timelines_behind(model, backends) -> None:
    reply = begun(model, backends.open_plain).answer(np.ones((3, 6), np.float32))
    assert reply.error is None and reply.progress == ()
    assert reply.value.size == 3 and reply.value.timelines == (None,) * 4


@pytest.mark.parametrize(("row", "kind"), [(-2.0, KernelError), (-3.0, BackendUnavailable), (-4.0, WorkerFault)])
def test_worker_returns_errors_as_values(model, backends, row, kind) -> None:
    reply = begun(model, backends.open_plain).answer(np.full((1, 6), row, np.float32))
    assert type(reply.error) is kind and reply.value is None


def test_sources_that_cannot_be_used_are_failures(model, backends) -> None:
    worker = begun(model, functools.partial(backends.open_plain), backends.double_or_refuse)
    answer = worker.answer(["torn", np.ones(6), "empty"]).value
    assert dict(answer.failures) == {0: "torn", 2: "empty"} and answer.size == len(answer.classes) == 1
    nothing = worker.answer(["torn"]).value
    assert nothing.size == 0 and nothing.probabilities.shape == (0, 4) and nothing.times == ()
