"""A process that keeps tensors: its messages, its end, and the arrays on it afterwards."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from device_process import tensor_device
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import device as module
from trninfer.runtime.neuron.device import (
    Device,
    DeviceArray,
    DeviceFaultError,
    DeviceTimeoutError,
    nrt_device,
    torch_device,
)
from trninfer.runtime.neuron.errors import DeviceLost, ExecutionError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def shared() -> Iterator[Device]:
    """Share a process among tests that leave it unchanged."""
    opened = tensor_device(STAND_IN="here")
    yield opened
    opened.close()


@pytest.fixture
def device() -> Iterator[Device]:
    opened = tensor_device()
    yield opened
    opened.end()


def on(device: Device, tensor: int, shape: tuple[int, ...] = (2, 3), dtype: type = np.float32) -> DeviceArray:
    return DeviceArray(tensor, shape, np.dtype(dtype), device, None)


@pytest.mark.parametrize("array", [X, X.T, X.astype(ml_dtypes.bfloat16), np.zeros((0, 3)), np.array(7)])
def test_arrays_are_copied_to_and_from_the_device_unchanged(shared: Device, array: np.ndarray) -> None:
    tensor = shared.put(array)
    back = np.asarray(on(shared, tensor, array.shape, array.dtype))
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_new_values_zeros_and_other_shapes(shared: Device) -> None:
    tensor = shared.blank((2, 3), np.dtype(np.float32))
    held = on(shared, tensor)
    assert not np.asarray(held).any() and len(held) == 2
    shared.write(tensor, X)
    np.testing.assert_array_equal(np.asarray(held.reshape((3, 2))), X.reshape(3, 2))
    np.testing.assert_array_equal(np.asarray(held, np.int32), X)
    with pytest.raises(ValueError, match=r"\(2, 3\) cannot be reshaped to \(4,\)"):
        held.reshape((4,))


def test_bytes_of_another_number_are_an_error(shared: Device) -> None:
    with pytest.raises(ExecutionError, match="a result has 24 bytes; expected 28 for float32"):
        np.asarray(on(shared, shared.put(X), (7,)))


def test_exception_in_the_device_process_keeps_its_type(shared: Device) -> None:
    with pytest.raises(DeviceFaultError, match=r"^ValueError: too large$") as caught:
        shared.ask("raise", type="ValueError", error="too large")
    assert (caught.value.kind, caught.value.text) == ("ValueError", "too large")
    for kind in ("ImportError", "ModuleNotFoundError"):
        with pytest.raises(
            BackendUnavailable, match=r"^a library cannot be used by .*: No module named 'nki.runtime'$"
        ):
            shared.ask("raise", type=kind, error="No module named 'nki.runtime'")


def test_the_environment_of_the_process(shared: Device, monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    assert shared.ask("seen")["environment"]["STAND_IN"] == "here"
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    monkeypatch.setenv("NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "8")
    environment = device.ask("seen")["environment"]
    assert environment["LD_LIBRARY_PATH"] == "/opt/aws/neuron/lib:/mine"
    assert "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS" not in environment  # calls would return too early


def test_deleted_tensor_is_freed_with_the_next_message(device: Device) -> None:
    tensors = [device.put(X), device.put(X)]
    lease = device.lease(tensors[0])
    assert device.ask("seen")["held"] == tensors
    del lease
    gc.collect()
    answer = device.ask("seen")
    assert answer["held"] == tensors[1:] and answer["seen"][-1] == "free"


def test_tensors_of_an_ended_process_are_lost(device: Device) -> None:
    first = device.start()
    held = on(device, device.put(X))
    device.free(held.tensor, first)
    with pytest.raises(DeviceLost, match=r"^the process on the NeuronCore ended during die \(exit status 7\)$"):
        device.ask("die", status=7)
    assert not held.is_there and not device.holds(first)
    with pytest.raises(DeviceLost, match="a result was on a NeuronCore whose process has ended"):
        np.asarray(held)
    assert device.start() == first + 1  # a new process, which frees only its own tensors
    device.put(X)
    device.free(held.tensor, first)
    assert device.ask("seen")["seen"] == ["put"] and not held.is_there


def test_no_answer_in_time_ends_the_process(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOTE_SECONDS", 0.1)
    device.start()
    seconds: list[float] = []
    with pytest.raises(DeviceTimeoutError, match=r"^no answer to hang within 0 s$"):
        device.ask("hang", limit=0.45, note=seconds.append)
    assert seconds == sorted(seconds) and 1 <= len(seconds) <= 5
    assert device.ask("seen", limit=60.0)["seen"] == [] and device.starts == 2


def test_ending_and_closing_twice(device: Device) -> None:
    device.close()  # before it was started
    start = device.start()
    device.end()
    device.end()
    assert not device.holds(start)
    device.start()
    device.close()
    device.close()


def test_a_command_that_cannot_be_run() -> None:
    with pytest.raises(BackendUnavailable, match=r"^/nowhere/python cannot be run: No such file or directory$"):
        Device(["/nowhere/python"], "a library").hello()


def test_the_commands_of_both_ways() -> None:
    torch = torch_device({"A": "b"})
    assert torch.library == "TorchNeuron" and "torch_worker" in torch._command[2] and torch._variables == {"A": "b"}
    runtime = nrt_device()
    assert runtime.library == "nki.runtime" and "nrt_worker" in runtime._command[2]
    assert runtime._command[0] == torch._command[0] == sys.executable


def test_compilers_run_in_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intermediate files of neuronx-cc are not written to the current folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    device = Device([sys.executable, "-c", "import os; open('left', 'w'); os._exit(3)"], "a library")
    assert not list(tmp_path.iterdir())  # created when the process starts
    with pytest.raises(DeviceLost):
        device.hello()
    (folder,) = tmp_path.iterdir()
    assert not Path("left").exists() and (folder / "left").exists()
    del device
    gc.collect()
    assert not folder.exists()


OWNER = """
import os, signal, sys
from trninfer.runtime.neuron.device import Device
core = "type('C', (), {'hello': lambda self: {'folder': __import__('os').getcwd()}})"
device = Device([sys.executable, "-c", f"from trninfer.runtime.neuron.messages import *; serve_pipe({core})"], "a")
print(device.hello()["folder"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_device_process_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=variables, timeout=300)
    assert done.returncode == -signal.SIGKILL and Path(done.stdout.strip()).parent == tmp_path
    deadline = time.monotonic() + 60
    while any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not list(tmp_path.iterdir())


def test_an_exception_without_a_text_has_its_place() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/x/nki/trace.py", line 7, in emit\n    assert ok\nAssertionError\n'
    )
    assert str(DeviceFaultError("AssertionError", "", trace)) == "AssertionError (trace.py:7, emit: assert ok)"
    assert str(DeviceFaultError("ValueError", "no", trace)) == "ValueError: no"
