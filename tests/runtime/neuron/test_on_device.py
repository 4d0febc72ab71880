"""Operands on a NeuronCore: read-only ones are uploaded once, and are lost with the process that held them."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from device_process import tensor_device
from trninfer import kernels
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compiled import CompiledKernel, Executable, KernelEstimate, RunOptions
from trninfer.runtime.neuron.device import DeviceArray, DeviceFaultError, DeviceTimeoutError
from trninfer.runtime.neuron.device_time import DeviceTime
from trninfer.runtime.neuron.errors import DeviceLost, ExecutionError
from trninfer.runtime.neuron.jobs import Job
from trninfer.runtime.neuron.on_device import OnDevice
from trninfer.runtime.simulated import SimulatedBackend


class Way(OnDevice):
    """Computes on the simulator; a process keeps the operands and results."""

    way = "test"
    error: Exception | None = None
    compiled = 0

    def _compile(self, job: Job, walked: KernelEstimate, workdir: Path, log: Path) -> CompiledKernel:
        self.compiled += 1
        return CompiledKernel(lambda folder: None, lambda: None, 0.0)

    def _load(self, job: Job, walked: KernelEstimate, folder: Path) -> Any:
        raise AssertionError("nothing is cached")

    def _execute(
        self, executable: Executable, tensors: Mapping[str, tuple[int, Any]]
    ) -> tuple[tuple[DeviceArray, ...], float]:
        if self.error is not None:
            raise self.error
        arrays = {}
        for name, (tensor, array) in tensors.items():
            arrays[name] = np.frombuffer(self._device.read(tensor), array.dtype).reshape(array.shape)
        made = SimulatedBackend("trn2").launch(executable.job.kernel, **arrays, **executable.job.parameters).outputs
        results = []
        for result in map(np.asarray, made):
            tensor = self._device.put(result)
            results.append(DeviceArray(tensor, result.shape, result.dtype, self._device, self._device.lease(tensor)))
        return tuple(results), 1.0

    def _device_time(self, executable: Executable, operands: Any) -> DeviceTime:
        raise AssertionError("not asked for")


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    monkeypatch.setattr(environment, "neuron_devices", lambda: ("/dev/neuron0",))
    opened = Way("trn2", tensor_device(), RunOptions(warmup=0, iterations=1))
    yield opened
    opened.close()


def seen(way: Way) -> list[str]:
    """Return the messages since the last call."""
    found = way._device.ask("seen")["seen"]
    last = max((place for place, operation in enumerate(found) if operation == "seen"), default=-1)
    return [operation for operation in found[last + 1 :] if operation != "free"]


def matrix(*shape: int, fixed: bool = False) -> np.ndarray:
    made = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    made.setflags(write=not fixed)
    return made


def test_read_only_operand_is_uploaded_once_and_others_reuse_a_tensor(way: Way) -> None:
    bias, run = matrix(1, 6, fixed=True), ["read", "read", "put"]
    for number, expected in enumerate((["put", "put", *run, "write", *run], ["write", *run], ["write", *run])):
        x = matrix(4, 6) + number
        (out,) = way.launch(kernels.bias_activation, x, bias, activation="relu").outputs
        assert seen(way) == expected  # the first launch is also timed
        np.testing.assert_array_equal(np.asarray(out), np.maximum(x + bias, 0))
        seen(way)
    assert way.compiled == 1
    identity = id(bias)
    del bias
    gc.collect()
    assert identity not in way._resident


def test_the_same_array_in_two_places_has_two_tensors(way: Way) -> None:
    x = matrix(1, 6)
    (out,) = way.launch(kernels.bias_activation, x, x, activation="identity").outputs
    np.testing.assert_array_equal(np.asarray(out), x + x)
    assert len(set(way._inputs.values())) == 2


def test_results_are_operands_as_they_are(way: Way) -> None:
    first = way.launch(kernels.transpose, matrix(5, 7)).outputs[0]
    seen(way)
    again = way.launch(kernels.transpose, first.reshape((5, 7))).outputs[0]
    assert "write" not in seen(way)
    np.testing.assert_array_equal(np.asarray(again), matrix(5, 7).T.reshape(5, 7).T)


def test_a_new_process_has_everything_again(way: Way) -> None:
    bias = matrix(1, 6, fixed=True)
    first = way.launch(kernels.bias_activation, matrix(4, 6), bias, activation="relu").outputs[0]
    way._device.end()
    second = way.launch(kernels.bias_activation, matrix(4, 6), bias, activation="relu").outputs[0]
    assert way.compiled == 2 and seen(way)[:2] == ["put", "put"]
    np.testing.assert_array_equal(np.asarray(second), np.maximum(matrix(4, 6) + bias, 0))
    with pytest.raises(DeviceLost, match=r"^an operand was on a NeuronCore whose process has ended$"):
        way.launch(kernels.transpose, first)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (DeviceTimeoutError("no answer to run"), DeviceLost, "^transpose: no answer to run; its process was stopped$"),
        (DeviceFaultError("RuntimeError", "NRT Error NRT_EXEC_OOB(1006): no"), ExecutionError, "NRT_EXEC_OOB"),
        (DeviceFaultError("RuntimeError", "NRT_EXEC_HW_ERR_NC_UE(1202): parity"), DeviceLost, "NRT_EXEC_HW_ERR_NC_UE"),
        (DeviceFaultError("NotOnNeuronCore", "a result on the CPU"), DeviceLost, "^transpose: a result on the CPU$"),
    ],
)  # fmt: skip
def test_a_fault_while_a_kernel_runs(way: Way, error: Exception, kind: type, told: str) -> None:
    way.error = error
    with pytest.raises(kind, match=told) as caught:
        way.launch(kernels.transpose, matrix(2, 3))
    assert caught.value.__cause__ is error
