"""A worker in a process of its own."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trninfer.models.files import load_model
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron.backend import open_neuron_backend
from trninfer.runtime.session import OverflowedError, Session
from trninfer.runtime.simulated import open_for_worker, open_simulated_backend
from trninfer.runtime.workers.process import WorkerEnded, WorkerProcess
from trninfer.runtime.workers.worker import Setup, Worker

SIMULATOR = functools.partial(open_for_worker, "trn2")


def test_it_answers_as_a_session_does_and_fills_batches_up(feature_model: Path) -> None:
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
        assert process.ask(rows[:1]).size == 1  # an error of an input is none of the process
    finally:
        process.close()


def test_an_end_is_told_whenever_it_comes(feature_model: Path) -> None:
    process = WorkerProcess(Worker)
    process.kill()
    with pytest.raises(WorkerEnded, match="was ended by signal 9"):
        process.ask(Setup(load_model(feature_model), SIMULATOR, "float32"))
    with pytest.raises(WorkerEnded):
        process.ask(None)
    process.close()
    with pytest.raises(WorkerEnded):
        process.ask(None)


def test_a_backend_that_is_not_there_is_told(feature_model: Path) -> None:
    process = WorkerProcess(Worker, {"TRNINFER_CACHE": ""})
    try:
        with pytest.raises(BackendUnavailable, match="backend 'neuron' is not available"):
            process.ask(Setup(load_model(feature_model), open_neuron_backend, "float32"))
    finally:
        process.close()


def test_it_ends_with_the_process_that_asks_and_imports_nothing_from_its_folder(tmp_path: Path) -> None:
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
    assert "WorkerFault" in done.stderr  # None is no setup, which it said and lived on
    assert not (tmp_path / "ran").exists()


def test_it_starts_where_the_current_folder_was_removed(
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
