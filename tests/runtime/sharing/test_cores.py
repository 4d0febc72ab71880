"""Several NeuronCores: batches over worker processes, whose backends compute on the simulator."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from trninfer.models import Dense, FeatureInput, Model, Network, Softmax
from trninfer.models.golden import run_network
from trninfer.runtime.backend import BackendInfo, BackendUnavailable, KernelError
from trninfer.runtime.session import split_batches
from trninfer.runtime.sharing.cores import CoresSession, pick_cores
from trninfer.runtime.sharing.remote import RemoteBackend, RemoteWorker, WorkerDied, open_simulator
from trninfer.runtime.sharing.worker import WorkerError
from trninfer.runtime.timing import LayerTiming, Totals

STAND_INS = Path(__file__).parent / "stand_ins"
NEURON_STAND_INS = Path(__file__).parents[1] / "neuron" / "stand_ins"
KILL, REFUSE, LOSE, FAULT, SLOW, HANG = -1.0, -2.0, -3.0, -4.0, -5.0, -6.0  # see stand_ins/worker_backends.py


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.syspath_prepend(str(NEURON_STAND_INS))
    monkeypatch.syspath_prepend(str(STAND_INS))
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "1")
    yield
    sys.modules.pop("worker_backends", None)


@pytest.fixture
def opener():
    import worker_backends

    return worker_backends.open_plain


@pytest.fixture(scope="module")
def model() -> Model:
    random = np.random.default_rng(0)
    network = Network("small", FeatureInput(6), (Dense("dense", 6, 4), Softmax("softmax")), tuple("abcd"))
    tensors = {n: random.standard_normal(s).astype(np.float32) for n, s in network.tensor_shapes().items()}
    return Model(network, tensors, {})


class Run(NamedTuple):
    classes: np.ndarray
    probabilities: np.ndarray
    layers: tuple[LayerTiming, ...]
    total_us: float
    worker_us: dict[int, float]


def run(session: CoresSession, x: np.ndarray, batch_size: int, progress=None) -> Run:
    totals = Totals(session.rows)
    classes, probabilities = [np.empty(0, np.int32)], [np.empty((0, 4), np.float32)]
    for answer in session.stream(split_batches(x, batch_size), progress):
        totals.add(answer.size, answer.times, answer.worker)
        classes.append(answer.classes)
        probabilities.append(answer.probabilities)
    return Run(
        np.concatenate(classes), np.concatenate(probabilities), totals.layers(), totals.total_us, totals.worker_us
    )


def inputs(count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(0.1, 1.0, (count, 6)).astype(np.float32)


def test_answers_come_in_the_order_of_the_inputs(model, opener) -> None:
    x = inputs(50)
    x[0, 0] = SLOW  # the first batch is answered last
    counts: list[int] = []
    with CoresSession(model, opener, (0, 1, 2)) as session:
        result = run(session, x, 8, counts.append)
    golden = run_network(model.network, model.tensors, x)
    np.testing.assert_allclose(result.probabilities, golden.probabilities, atol=1e-5)
    np.testing.assert_array_equal(result.classes, golden.probabilities.argmax(axis=1))
    assert result.classes.dtype == np.int32
    assert sorted(counts) == counts and counts[-1] == 50 and len(counts) == 7 and counts[0] != counts[1]


def test_times_add_up_over_the_cores(model, opener) -> None:
    with CoresSession(model, opener, (0, 1)) as session:
        result = run(session, inputs(24), 8)
        assert session.info == BackendInfo("sim", "trn2", "predicted", "predicted")
    launches = 3 * 4  # three batches of transpose, matmul, bias_activation, argmax
    assert result.total_us == pytest.approx(2.0 * launches) == pytest.approx(sum(result.worker_us.values()))
    assert [layer.kernel for layer in result.layers] == [
        "transpose",
        "matmul_fully_optimized",
        "bias_activation",
        "argmax",
    ]
    assert all(layer.latency_us == pytest.approx(6.0) and layer.flops == 30 for layer in result.layers)
    assert result.layers[0].input_shape == (24, 6)


def test_each_process_sees_its_core(model, opener, capfd) -> None:
    said: list[str] = []
    with CoresSession(model, opener, (5, 7), progress=said.append):
        pass
    assert sorted(said) == ["NeuronCore 5: sees 5, number None", "NeuronCore 7: sees 7, number None"]
    assert capfd.readouterr().out == ""  # what the library printed went to standard error


def test_no_inputs(model, opener) -> None:
    with CoresSession(model, opener, (0,)) as session:
        result = run(session, inputs(0), 8)
    assert result.classes.shape == (0,) and result.probabilities.shape == (0, 4) and result.layers == ()


def test_a_session_runs_again(model, opener) -> None:
    with CoresSession(model, opener, (0, 1)) as session:
        first, second = run(session, inputs(10), 4), run(session, inputs(10), 4)
    np.testing.assert_array_equal(first.classes, second.classes)


def test_no_more_batches_are_held_than_there_are_cores(model, opener) -> None:
    taken: list[int] = []
    answered = [0]

    def batches():
        for number in range(12):
            taken.append(number)
            assert len(taken) - answered[0] <= 2
            yield inputs(4)

    with CoresSession(model, opener, (0, 1)) as session:
        for _ in session.stream(batches(), lambda count: answered.__setitem__(0, count // 4)):
            pass
    assert len(taken) == 12


def test_a_worker_that_dies_is_told_with_its_inputs(model, opener) -> None:
    x = inputs(40)
    x[16, 0] = KILL
    session = CoresSession(model, opener, (0, 1))
    processes = [worker._process for worker in session._workers]
    with pytest.raises(WorkerDied, match=r"the process on NeuronCore [01] was killed by SIGKILL") as caught:
        run(session, x, 8)
    assert "inputs 16 to 23 (counted from 0) unanswered" in str(caught.value)
    assert isinstance(caught.value, BackendUnavailable)
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize(
    ("row", "kind", "message"),
    [
        (REFUSE, KernelError, "a kernel refused"),
        (LOSE, BackendUnavailable, "the device disappeared"),
        (FAULT, WorkerError, "ZeroDivisionError: a fault of the program"),
    ],
)
def test_errors_in_a_worker_come_over(model, opener, row, kind, message) -> None:
    x = inputs(16)
    x[8, 0] = row
    session = CoresSession(model, opener, (0, 1))
    processes = [worker._process for worker in session._workers]
    with pytest.raises(kind, match=message):
        run(session, x, 8)
    assert all(process.poll() is not None for process in processes)


def test_a_core_that_does_not_open(model, opener) -> None:
    import worker_backends

    with pytest.raises(BackendUnavailable, match="no device for this core"):
        CoresSession(model, worker_backends.open_nothing, (0, 1))


def test_an_error_in_the_inputs_ends_the_processes_at_once(model, opener) -> None:
    hanging = inputs(4)
    hanging[0, 0] = HANG

    def batches():
        yield hanging
        raise KeyboardInterrupt

    session = CoresSession(model, opener, (0, 1))
    processes = [worker._process for worker in session._workers]
    with pytest.raises(KeyboardInterrupt):
        list(session.stream(batches()))
    assert processes[0].poll() == -signal.SIGTERM and processes[1].poll() is not None


def test_a_worker_ends_with_its_parent(opener) -> None:
    worker = RemoteWorker("a core", {})
    worker.call("open", opener)
    worker.connection.close()
    assert worker._process.wait(30) == 0


def test_a_worker_that_was_ended_from_outside_is_told(opener) -> None:
    worker = RemoteWorker("a core", {})
    worker.call("open", opener)
    threading.Timer(0.2, worker._process.terminate).start()
    worker._process.wait(30)
    with pytest.raises(WorkerDied, match="the process on a core was killed by SIGTERM"):
        worker.call("time", "transpose", (), {})
    worker.close()


def test_the_neuron_backend_on_two_cores(model) -> None:
    import worker_backends

    x = inputs(30)
    with CoresSession(model, functools.partial(worker_backends.open_neuron, None), (0, 1)) as session:
        result = run(session, x, 4)
        assert session.info.latency_label == "measured, host round trip"
    golden = run_network(model.network, model.tensors, x)
    np.testing.assert_allclose(result.probabilities, golden.probabilities, atol=1e-5)
    assert all(layer.latency_us_p99 is not None for layer in result.layers)


def test_two_cores_compile_each_kernel_once(model, tmp_path, monkeypatch) -> None:
    import worker_backends

    monkeypatch.setenv("STAND_IN_COMPILE_LOG", str(tmp_path / "compilations"))
    monkeypatch.setenv("STAND_IN_COMPILE_SECONDS", "0.2")
    opener = functools.partial(worker_backends.open_neuron, tmp_path / "cache")
    with CoresSession(model, opener, (0, 1)) as session:
        run(session, inputs(16), 4)
    assert len((tmp_path / "compilations").read_text().splitlines()) == 4  # the kernels of the network's steps


def test_which_cores(monkeypatch) -> None:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-7")
    assert pick_cores(2) == (4, 5)
    with pytest.raises(BackendUnavailable, match=r"5 NeuronCores asked for; 4 are visible \(4-7\)"):
        pick_cores(5)
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES")
    monkeypatch.setenv("PATH", "")
    assert pick_cores(3) == (0, 1, 2)
    monkeypatch.setenv("PATH", f"{STAND_INS / 'tools'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert pick_cores(16) == tuple(range(16))


def test_the_simulator_in_a_process_of_its_own(model) -> None:
    worker = RemoteWorker("the simulator", {"TRNINFER_BACKEND": "sim"})
    backend = RemoteBackend(worker, functools.partial(open_simulator, "trn1"))
    from trninfer import kernels

    a = inputs(5)
    launch = backend.launch(kernels.transpose, a)
    np.testing.assert_array_equal(launch.outputs[0], a.T)
    with pytest.raises(KernelError, match="test_which_cores is not a kernel"):
        backend.launch(test_which_cores, a)
    assert backend.info.target == "trn1" and launch.time.latency_us > 0 and launch.timeline is None
    backend.close()
