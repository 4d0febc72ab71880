"""Batches on local processes: results, and failures of workers and inputs."""

from __future__ import annotations

import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from processes import wait_for_ends
from shared_runs import (
    FAULT,
    FILL,
    FILL_ONCE,
    KILL,
    KILL_ONCE,
    LOSE,
    REFUSE,
    SLOW,
    STAND_INS,
    assert_same,
    collect,
    inputs,
    run_alone,
    small_model,
)
from trninfer.runtime.backend import BackendInfo, BackendUnavailable, KernelError
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import split_batches
from trninfer.runtime.workers.pool import WorkerDied
from trninfer.runtime.workers.shared_session import WINDOW, share_out
from trninfer.runtime.workers.worker import WorkerFault


@pytest.fixture
def shared(tmp_path):
    import worker_backends

    opener = functools.partial(worker_backends.open_plain, tmp_path)
    return functools.partial(share_out, small_model(), "float32", opener=opener, launches=LaunchOptions("layer"))


def test_answers_are_those_of_one_process_in_their_order(shared) -> None:
    x = inputs(50)
    x[0, 0] = SLOW  # the first batch is answered last
    told: list[float] = []
    with shared(2) as session:
        assert session.info == BackendInfo("sim", "trn2", "predicted", "predicted, by nobody")
        run = collect(session, split_batches(x, 8), told.append)
        again = collect(session, split_batches(inputs(9), 4))
        nothing = collect(session, [])
    assert_same(run, run_alone(x, 8))
    assert_same(again, run_alone(inputs(9), 4))
    assert nothing.layers == () and len(nothing.classes) == 0
    assert told == sorted(told) and told[-1] == 50
    assert sum(run.worker_us.values()) == pytest.approx(7 * 4 * 2.0)


@pytest.mark.slow
def test_no_more_workers_than_batches_and_no_more_batches_than_the_window(shared) -> None:
    taken, given = [], []
    most = 0

    def batches():
        nonlocal most
        for number in range(30):
            taken.append(number)
            most = max(most, len(taken) - len(given))
            x = inputs(2)
            x[0, 0] = SLOW if number < 8 else 1.0  # until the second worker is ready
            yield x

    with shared(2) as session:
        assert len(session.processes()) == 1
        for answer in session.stream(batches()):
            given.append(answer)
        assert len(session.processes()) == 2
    assert len(given) == 30 and most <= WINDOW * 2
    with shared(4) as session:
        assert len(list(session.stream([inputs(3)]))) == 1
        assert len(session.processes()) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("row", "said"), [(KILL_ONCE, "was ended by signal 9"), (FILL_ONCE, "ran out of memory")])
def test_batch_of_an_ended_worker_is_answered_by_another(shared, row, said, capfd) -> None:
    x = inputs(40)
    x[19, 0] = row
    warnings: list[str] = []
    with shared(2, warn=warnings.append) as session:
        run = collect(session, split_batches(x, 4))
    assert_same(run, run_alone(x, 4))
    (warning,) = warnings
    assert "its inputs go to another" in warning and said in warning and "\n" not in warning
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_every_worker_may_be_killed_by_others(shared) -> None:
    x = inputs(24)
    x[::4, 0] = SLOW
    with shared(2) as session:

        def batches():
            for number, batch in enumerate(split_batches(x, 4)):
                if number in (3, 5):
                    for process in session.processes():
                        os.kill(process, signal.SIGKILL)
                yield batch

        run = collect(session, batches())
    assert_same(run, run_alone(x, 4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "size"),
    [(KILL, 4), pytest.param(KILL, 1, marks=pytest.mark.slow), pytest.param(FILL, 4, marks=pytest.mark.slow)],
)
def test_a_picture_that_ends_its_worker_is_its_own_error(shared, row, size) -> None:
    x = inputs(12)
    x[5, 0] = row
    with shared(2) as session:
        run = collect(session, split_batches(x, size))
    others = np.delete(np.arange(12), 5)
    expected = run_alone(x[others], 1)
    assert list(run.failures) == [5] and "2 workers ended" in run.failures[5]
    np.testing.assert_array_equal(run.classes, expected.classes)
    np.testing.assert_allclose(run.probabilities, expected.probabilities, rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        (REFUSE, KernelError, "a kernel refused"),
        (LOSE, BackendUnavailable, "the device disappeared"),
        (FAULT, WorkerFault, "ZeroDivisionError: a internal error"),
    ],
)
def test_errors_in_a_worker_are_raised_in_the_session(shared, row, kind, message) -> None:
    x = inputs(16)
    x[8, 0] = row
    with shared(1) as session, pytest.raises(kind, match=message):
        collect(session, split_batches(x, 8))


@pytest.mark.slow
def test_faults_that_workers_work_around_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    import worker_backends

    options = LaunchOptions("layer")
    with share_out(small_model(), workers=2, opener=worker_backends.open_after_a_fault, launches=options) as session:
        assert len(collect(session, split_batches(inputs(9), 1)).classes) == 9
    (record,) = caplog.records
    assert re.fullmatch(r"worker [01]: no plan for 7 images", record.getMessage())
    assert record.exc_info is not None and "ZeroDivisionError: no plan" in str(record.exc_info[1])
    caplog.clear()  # otherwise the test fails (conftest.py)


def test_workers_that_do_not_open() -> None:
    import worker_backends

    with (
        pytest.raises(BackendUnavailable, match="no device for this worker"),
        share_out(small_model(), workers=2, opener=worker_backends.open_nothing),
    ):
        pass
    with (
        pytest.raises(WorkerDied, match=r"3 workers in a row ended before they were ready: .* signal 9"),
        share_out(small_model(), workers=2, opener=worker_backends.open_and_die),
    ):
        pass


def test_stream_stops_when_the_consumer_stops(shared) -> None:
    warnings: list[str] = []
    with shared(2, warn=warnings.append) as session:
        x = inputs(4000)
        x[4:, 0] = SLOW
        for _ in session.stream(split_batches(x, 2)):
            break
        began = time.monotonic()
        assert_same(collect(session, split_batches(inputs(9), 4)), run_alone(inputs(9), 4))
    assert time.monotonic() - began < 150 and warnings == []  # 1,990 batches of 0.3 s on two workers were abandoned


def test_workers_prepare_what_they_are_sent(shared) -> None:
    import worker_backends

    x = inputs(6)
    sources = [[x[0], "torn", x[1]], ["torn", "empty"], [x[2], x[3]]]
    with shared(2, prepare=worker_backends.double_or_refuse) as session:
        run = collect(session, sources)
    assert run.failures == {1: "torn", 3: "torn", 4: "empty"}
    np.testing.assert_array_equal(run.probabilities, run_alone(2 * x[:4], 2).probabilities)


@pytest.mark.slow
def test_on_a_chip_each_worker_sees_a_core_of_its_own(shared, monkeypatch) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    said: list[str] = []
    with shared(2, backend="neuron", progress=said.append) as session:
        x = inputs(40)
        x[:, 0] = SLOW
        run = collect(session, split_batches(x, 4))
    assert sorted(run.worker_us) == [0, 1] and sum(run.worker_us.values()) == pytest.approx(10 * 4 * 2.0)
    assert sorted(said) == ["worker 0: sees core 4", "worker 1: sees core 5"]


def test_no_thread_and_no_process_is_left(shared) -> None:
    before = threading.active_count()
    with shared(2) as session:
        collect(session, split_batches(inputs(20), 2))
        processes = session.processes()
    assert threading.active_count() <= before + 2  # the pool's own idle threads
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


PROGRAM = """
import functools, os, sys, time
sys.path[:0] = {folders!r}
import worker_backends
from shared_runs import SLOW, inputs, small_model
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.workers.shared_session import share_out
x = inputs(4)
x[:, 0] = SLOW
opener = functools.partial(worker_backends.open_plain, None)
with share_out(small_model(), workers=2, opener=opener, launches=LaunchOptions("layer")) as session:
    print(*session.processes(), flush=True)
    for _ in session.stream(x for _ in range(10_000)):
        pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_worker_outlives_its_run(number) -> None:
    """A script without `if __name__ == "__main__"`: workers do not run it again."""
    folders = [str(STAND_INS), str(STAND_INS.parents[2] / "support")]
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + PROGRAM.format(
        folders=folders
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    workers = [int(word) for word in process.stdout.readline().split()]
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(120) in (-number, 1) and len(workers) == 1
    wait_for_ends(workers)
