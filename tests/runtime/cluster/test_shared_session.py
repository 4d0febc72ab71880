"""Batches over Ray's actors on two nodes: what they answer, and what happens when workers, nodes or inputs fail."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from trninfer.runtime.backend import BackendInfo, BackendUnavailable, KernelError
from trninfer.runtime.cluster.crew import WorkerDied
from trninfer.runtime.cluster.shared_session import WINDOW, share_out
from trninfer.runtime.cluster.worker import WorkerFault
from trninfer.runtime.launch_options import LaunchOptions
from trninfer.runtime.session import Session, split_batches
from trninfer.runtime.timing import LayerTiming, Totals

pytestmark = pytest.mark.slow

KILL, REFUSE, LOSE, FAULT, SLOW, KILL_ONCE = -1.0, -2.0, -3.0, -4.0, -5.0, -6.0  # see stand_ins/worker_backends.py
FILL, FILL_ONCE = -7.0, -8.0


class Run(NamedTuple):
    classes: np.ndarray
    probabilities: np.ndarray
    layers: tuple[LayerTiming, ...]
    worker_us: dict[int, float]
    failures: dict[int, str]


def collect(session, batches, progress=None) -> Run:
    """All answers of a session; failures by the number of the input."""
    totals = Totals(session.rows)
    classes, probabilities = [np.empty(0, np.int32)], [np.empty((0, 4), np.float32)]
    failures: dict[int, str] = {}
    first = 0
    for answer in session.stream(batches, progress):
        if answer.size:
            totals.add(answer.size, answer.times, answer.worker)
        classes.append(answer.classes)
        probabilities.append(answer.probabilities)
        failures.update({first + position: reason for position, reason in answer.failures.items()})
        first += len(answer.classes) + len(answer.failures)
    return Run(np.concatenate(classes), np.concatenate(probabilities), totals.layers(), totals.worker_us, failures)


def inputs(count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.1, 1.0, (count, 6)).astype(np.float32)


def parent(process: int) -> int:
    """The process that started one."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def opener(tmp_path):
    import worker_backends

    return functools.partial(worker_backends.open_plain, tmp_path)


@pytest.fixture
def alone(model):
    """What one session in this process gives."""
    import worker_backends

    return lambda x, size: collect(
        Session(model, worker_backends.PlainBackend(None), launches=LaunchOptions("layer")), split_batches(x, size)
    )


@pytest.fixture
def shared(cluster, model, opener):
    return functools.partial(share_out, model, "float32", opener=opener, launches=LaunchOptions("layer"))


def assert_same(one: Run, other: Run) -> None:
    assert one.classes.tobytes() == other.classes.tobytes() and one.classes.dtype == np.int32
    assert one.probabilities.tobytes() == other.probabilities.tobytes()
    assert one.layers == other.layers and one.failures == other.failures


def test_answers_are_those_of_one_process_in_their_order(shared, alone) -> None:
    x = inputs(50)
    x[0, 0] = SLOW  # the first batch is answered last
    told: list[float] = []
    with shared(2) as session:
        assert session.info == BackendInfo("sim", "trn2", "predicted", "predicted, by nobody")
        run = collect(session, split_batches(x, 8), told.append)
        again = collect(session, split_batches(inputs(9), 4))
        nothing = collect(session, [])
    assert_same(run, alone(x, 8))
    assert_same(again, alone(inputs(9), 4))
    assert nothing.layers == () and len(nothing.classes) == 0
    assert told == sorted(told) and told[-1] == 50
    assert sum(run.worker_us.values()) == pytest.approx(7 * 4 * 2.0)


def test_no_more_workers_than_batches_and_no_more_batches_than_the_window(shared, opener) -> None:
    taken, given = [], []
    most = 0

    def batches():
        nonlocal most
        for number in range(30):
            taken.append(number)
            most = max(most, len(taken) - len(given))
            yield inputs(2)

    with shared(2) as session:
        assert session._crew._started == 1
        for answer in session.stream(batches()):
            given.append(answer)
        assert session._crew._started == 2
    assert len(given) == 30 and most <= WINDOW * 2
    with shared(4) as session:
        assert len(list(session.stream([inputs(3)]))) == 1
        assert session._crew._started == 1


def test_what_a_killed_worker_had_is_answered_by_another(shared, alone) -> None:
    x = inputs(40)
    x[19, 0] = KILL_ONCE
    warnings: list[str] = []
    with shared(2, warn=warnings.append) as session:
        run = collect(session, split_batches(x, 4))
    assert_same(run, alone(x, 4))
    assert len(warnings) == 1 and "its inputs are given to another" in warnings[0] and "\n" not in warnings[0]


def test_what_a_worker_had_that_is_out_of_memory_is_answered_by_another(shared, alone) -> None:
    x = inputs(40)
    x[19, 0] = FILL_ONCE
    warnings: list[str] = []
    with shared(2, warn=warnings.append) as session:
        run = collect(session, split_batches(x, 4))
    assert_same(run, alone(x, 4))
    (warning,) = warnings
    assert "its inputs are given to another" in warning and "memory" in warning.lower() and "\n" not in warning


@pytest.mark.parametrize(("row", "size"), [(KILL, 4), (KILL, 1), (FILL, 4)])
def test_a_picture_that_ends_its_worker_is_its_own_error(shared, alone, row, size) -> None:
    x = inputs(12)
    x[5, 0] = row
    with shared(2) as session:
        run = collect(session, split_batches(x, size))
    others = np.delete(np.arange(12), 5)
    expected = alone(x[others], 1)
    assert list(run.failures) == [5] and "2 workers ended" in run.failures[5]
    np.testing.assert_array_equal(run.classes, expected.classes)
    np.testing.assert_allclose(run.probabilities, expected.probabilities, rtol=1e-6)


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        (REFUSE, KernelError, "a kernel refused"),
        (LOSE, BackendUnavailable, "the device disappeared"),
        (FAULT, WorkerFault, "ZeroDivisionError: a fault of the program"),
    ],
)
def test_errors_in_a_worker_come_over(shared, row, kind, message) -> None:
    x = inputs(16)
    x[8, 0] = row
    with shared(1) as session, pytest.raises(kind, match=message):
        collect(session, split_batches(x, 8))


def test_a_lost_node_loses_no_answer(cluster, shared, alone) -> None:
    node = cluster.add_node(num_cpus=2, object_store_memory=80 << 20)
    its_process = node.all_processes["raylet"][0].process.pid
    x = inputs(800)
    x[::4, 0] = SLOW
    warnings: list[str] = []
    left = 200  # batches
    with shared(3, warn=warnings.append) as session:  # one on each node

        def busy_there() -> bool:
            hands = [hand for hand in session._crew._hands.values() if hand.hello is not None and hand.sent]
            return any(parent(hand.hello.process) == its_process for hand in hands)

        def batches():
            nonlocal left
            for batch in split_batches(x, 4):
                if left > 4 and busy_there():
                    left = 4
                    cluster.remove_node(node, allow_graceful=False)
                if not left:
                    return
                left -= 1
                taken.append(batch)
                yield batch

        taken: list[np.ndarray] = []
        run = collect(session, batches())
    assert_same(run, alone(np.concatenate(taken), 4))
    assert len(taken) < 200 and warnings and all("its inputs are given to another" in line for line in warnings)


def test_workers_that_do_not_open(cluster, model) -> None:
    import worker_backends

    with (
        pytest.raises(BackendUnavailable, match="no device for this worker"),
        share_out(model, workers=2, opener=worker_backends.open_nothing),
    ):
        pass
    with (
        pytest.raises(WorkerDied, match="3 workers in a row ended before they were ready"),
        share_out(model, workers=2, opener=worker_backends.open_and_die),
    ):
        pass


def test_another_version_on_a_worker_is_refused(shared, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.cluster.crew.__version__", "9.9")
    with pytest.raises(BackendUnavailable, match=r"has trninfer .*, not 9\.9"), shared(1):
        pass


def test_nobody_wants_more(shared, alone) -> None:
    with shared(2) as session:
        for _ in session.stream(split_batches(inputs(400), 2)):
            break
        assert_same(collect(session, split_batches(inputs(9), 4)), alone(inputs(9), 4))


def test_workers_prepare_what_they_are_sent(shared, alone) -> None:
    import worker_backends

    x = inputs(6)
    sources = [[x[0], "torn", x[1]], ["torn", "empty"], [x[2], x[3]]]
    with shared(2, prepare=worker_backends.double_or_refuse) as session:
        run = collect(session, sources)
    assert run.failures == {1: "torn", 3: "torn", 4: "empty"}
    np.testing.assert_array_equal(run.probabilities, alone(2 * x[:4], 2).probabilities)


def test_on_a_chip_each_worker_sees_a_core_of_its_own(cluster, model, opener) -> None:
    said: list[str] = []
    with share_out(
        model, workers=2, opener=opener, backend="neuron", launches=LaunchOptions("layer"), progress=said.append
    ) as session:
        x = inputs(40)
        x[::4, 0] = SLOW
        run = collect(session, split_batches(x, 4))
    assert list(run.worker_us) == [0, 1] and sum(run.worker_us.values()) == pytest.approx(10 * 4 * 2.0)
    assert sorted(line.partition(": ")[2] for line in said) == ["sees core 0", "sees core 1"]


def test_a_cluster_says_how_many_workers_it_has_room_for(cluster, model, opener) -> None:
    with share_out(model, address=cluster.address, opener=opener, backend="sim") as session:
        assert session.workers == 4


def test_a_cluster_without_room_is_told(cluster, model, opener, monkeypatch) -> None:
    monkeypatch.setattr("trninfer.runtime.cluster.crew.START_SECONDS", 1.0)
    with (
        pytest.raises(WorkerDied, match="Ray has no room for one"),
        share_out(model, workers=1, opener=opener, backend="neuron") as first,
        share_out(model, workers=1, opener=opener, backend="neuron") as second,
    ):
        assert first.info == second.info
        with share_out(model, workers=1, opener=opener, backend="neuron"):  # of the cluster's two cores none is left
            pass
