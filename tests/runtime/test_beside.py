"""The simulator in a process of its own."""

import signal

import numpy as np
import pytest
from trninfer import kernels
from trninfer.runtime.backend import ArraySpec, BackendInfo, BackendUnavailable, KernelError
from trninfer.runtime.beside import LazyCounter, SimulatorBeside, SimulatorDied


def no_kernel() -> None:
    """A function that is no kernel of trninfer.kernels."""


def test_kernels_run_and_are_timed_there() -> None:
    a = np.arange(15, dtype=np.float32).reshape(5, 3)
    with SimulatorBeside("trn1") as simulator:
        assert simulator.info == BackendInfo("sim", "trn1", "predicted", "predicted", tells_layers=True)
        launch = simulator.launch(kernels.transpose, a)
        timed = simulator.time(kernels.transpose, ArraySpec(a.shape, a.dtype))
        with pytest.raises(KernelError, match="no_kernel is not a kernel"):
            simulator.launch(no_kernel, a)
        with pytest.raises(KernelError, match="matmul_tiled on trn1"):
            simulator.launch(kernels.matmul_tiled, a, np.zeros((4, 4), np.float32))
        process = simulator._process
    np.testing.assert_array_equal(launch.outputs[0], a.T)
    assert timed.time == launch.time and timed.outputs == () and launch.timeline is None
    assert process.wait(10) == 0  # it ends with its parent's end of the socket


def test_a_process_that_ended_is_told() -> None:
    with SimulatorBeside("trn2") as simulator:
        simulator._process.send_signal(signal.SIGKILL)
        simulator._process.wait(10)
        with pytest.raises(SimulatorDied, match="the simulator's process was killed by SIGKILL") as caught:
            simulator.time(kernels.transpose, ArraySpec((2, 2), np.float32))
    assert isinstance(caught.value, BackendUnavailable)


def test_a_counter_starts_its_simulator_when_it_is_asked() -> None:
    started = []

    def start() -> SimulatorBeside:
        started.append(SimulatorBeside("trn2"))
        return started[-1]

    counter = LazyCounter(start)
    assert started == []
    for _ in range(2):
        assert counter(kernels.transpose, ArraySpec((30, 40), np.float32)).hbm_bytes == 2 * 30 * 40 * 4
    counter.close()
    assert len(started) == 1 and started[0]._process.poll() == 0
