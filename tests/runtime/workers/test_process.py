"""A worker in a separate process."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
from trninfer.models.files import load_model
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron.backend import open_neuron_backend
from trninfer.runtime.session import OverflowedError, Session
from trninfer.runtime.simulated import open_for_worker, open_simulated_backend
from trninfer.runtime.workers.process import WorkerEnded, WorkerProcess
from trninfer.runtime.workers.worker import Reply, Setup, Worker, WorkerFault

SIMULATOR = functools.partial(open_for_worker, "trn2")


def test_worker_answers_like_a_session_and_pads_batches(feature_model: Path) -> None:
    model = load_model(feature_model)
    process = WorkerProcess(Worker)
    try:
        hello = process.ask(Setup(model, SIMULATOR, "float32", sizes=(2, 5)))
        assert hello.process == process._process.pid and hello.info.target == "trn2"
        session = Session(model, open_simulated_backend("trn2"))
        rows = np.random.default_rng(0).standard_normal((9, 6), np.float32)
        for count, filled in ((1, 2), (2, 2), (3, 5), (5, 5), (9, 9)):
            answer = process.ask(rows[:count])
            expected = session.run(rows[:count])
            assert answer.size == count and np.array_equal(answer.classes, expected.classes)
            assert np.allclose(answer.probabilities, expected.probabilities, atol=1e-6)
            padded = session.run(np.repeat(rows[:1], filled, axis=0))
            assert sum(time.latency_us for time in answer.times) == pytest.approx(padded.total_us)
        with pytest.raises(OverflowedError, match="not finite"):
            process.ask(np.full((1, 6), np.inf, np.float32))
        assert process.ask(rows[:1]).size == 1  # an error of one input does not affect the process
    finally:
        process.close()


def test_an_end_is_reported_whenever_it_comes(feature_model: Path) -> None:
    process = WorkerProcess(Worker)
    process.kill()
    with pytest.raises(WorkerEnded, match="was ended by signal 9"):
        process.ask(Setup(load_model(feature_model), SIMULATOR, "float32"))
    with pytest.raises(WorkerEnded):
        process.ask(None)
    process.close()
    with pytest.raises(WorkerEnded):
        process.ask(None)


def test_a_message_that_the_process_cannot_read_is_an_error_there(monkeypatch: pytest.MonkeyPatch) -> None:
    here = types.ModuleType("a_module_of_this_process_alone")
    exec("class Message: pass", here.__dict__)
    monkeypatch.setitem(sys.modules, here.__name__, here)
    process = WorkerProcess(Worker)
    guard = threading.Timer(30, process.kill)  # it used to wait forever
    guard.start()
    try:
        with pytest.raises(WorkerFault, match="No module named 'a_module_of_this_process_alone'"):
            process.ask(here.Message())
        with pytest.raises(WorkerEnded):
            process.ask(None)
    finally:
        guard.cancel()
        process.close()


class Parent:
    """A worker that starts a child process, which inherits its open files, and replies with the child's ID."""

    def begin(self, setup: object) -> Reply:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        return Reply(child.pid, None, (), ())

    answer = begin


def test_a_message_to_a_killed_process_ends_although_its_children_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    process = WorkerProcess(importlib.import_module("test_process").Parent)
    child = process.ask(None)
    process.kill()
    guard = threading.Timer(30, os.kill, (child, signal.SIGKILL))  # the pipe was neither read nor closed
    guard.start()
    try:
        with pytest.raises(WorkerEnded, match="signal 9"):
            process.ask(bytes(1 << 20))
        os.kill(child, signal.SIGKILL)  # raises an error if the guard had to end it
    finally:
        guard.cancel()
        process.close()


def test_a_process_that_cannot_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(WorkerEnded, match=r"^a worker process could not be started: Resource temporarily unavailable$"):
        WorkerProcess(Worker)


def test_a_backend_that_is_not_there_is_reported(feature_model: Path) -> None:
    process = WorkerProcess(Worker, {"TRNINFER_CACHE": ""})
    try:
        with pytest.raises(BackendUnavailable, match="backend 'neuron' is not available"):
            process.ask(Setup(load_model(feature_model), open_neuron_backend, "float32"))
    finally:
        process.close()


def test_worker_ends_with_its_parent_and_imports_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    program = """
import os
from trninfer.runtime.workers.process import WorkerProcess
from trninfer.runtime.workers.worker import Worker
os.chdir({folder!r})
import sys
sys.path.insert(0, "")
process = WorkerProcess(Worker)
process.ask(None)
"""
    done = subprocess.run([sys.executable, "-c", program.format(folder=str(tmp_path))], capture_output=True, text=True)
    assert "WorkerFault" in done.stderr  # None is not a valid setup; the process used to continue after reporting it
    assert not (tmp_path / "ran").exists()


def test_worker_starts_in_a_removed_folder(
    feature_model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    monkeypatch.syspath_prepend("")
    (tmp_path / "gone").rmdir()
    process = WorkerProcess(Worker)
    try:
        assert process.ask(Setup(load_model(feature_model), SIMULATOR, "float32", sizes=())).info.target == "trn2"
    finally:
        process.close()


def test_faults_that_were_worked_around_are_not_written_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    from worker_backends import LoggingWorker

    process = WorkerProcess(LoggingWorker)
    assert process.ask(None) == "logged"
    process.close()
    assert capfd.readouterr().err == ""
