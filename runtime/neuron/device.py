"""A NeuronCore behind a process of its own: tensors that stay on it, models loaded once (see `device_worker`)."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import BackendUnavailable
from .environment import NRTPY_VARIABLE
from .errors import DeviceLost, ExecutionError, runtime_error, useful_line
from .system import ASYNCHRONOUS, LIBRARY_FOLDER

WORKER = Path(__file__).with_name("device_worker.py")


class DeviceFaultError(RuntimeError):
    """What the Neuron runtime raised in the process on the NeuronCore: its type and text."""


class DeviceArray:
    """An array that lies on the device: shape and dtype are here, `np.asarray` brings the values."""

    def __init__(self, tensor: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, owner: Any) -> None:
        self.tensor = tensor
        self.shape = shape
        self.dtype = dtype
        self._device = device
        self._owner = owner  # what lets go of the memory when the last view of it is gone

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same bytes in another shape; ValueError where the sizes differ."""
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"{self.shape} cannot be reshaped to {shape}")
        return DeviceArray(self.tensor, shape, self.dtype, self._device, self._owner)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        try:
            data = self._device.read(self.tensor)
        except DeviceFaultError as error:
            raise runtime_error("a result was read and no kernel", error) from error
        expected = math.prod(self.shape) * self.dtype.itemsize
        if len(data) != expected:
            raise ExecutionError(f"a result came back as {len(data)} bytes where {self.dtype} has {expected}")
        values = np.frombuffer(data, self.dtype).reshape(self.shape)
        return values if dtype is None else values.astype(dtype)


class _Lease:
    """Keeps a tensor's memory taken until the last array on it is gone."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        weakref.finalize(self, give_back)


class LoadedNeff:
    """A NEFF that is loaded. `inputs` and `outputs` are sizes in bytes by name, outputs in the kernel's order; `dtypes`
    are those of outputs that are told."""

    def __init__(
        self, device: Device, number: int, inputs: dict[str, int], outputs: dict[str, int], dtypes: dict[str, str]
    ) -> None:
        self.number = number
        self.inputs = inputs
        self.outputs = dict(sorted(outputs.items(), key=lambda item: _ending(item[0])))
        self.dtypes = dtypes
        self._device = device
        self._spare: list[tuple[int, ...]] = []

    def run(
        self,
        tensors: Sequence[int],
        names: Sequence[str],
        results: Sequence[tuple[tuple[int, ...], np.dtype[Any]]],
        times: int = 1,
    ) -> tuple[tuple[DeviceArray, ...], list[float]]:
        """Execute on tensors, one for each name of an input, into outputs of these shapes and dtypes.

        The outputs, whose memory is taken again when nobody holds them, and the microseconds of each execution.
        """
        sets = self._spare.pop() if self._spare else tuple(self._device.blank(*result) for result in results)
        answer = self._device.ask("run", **self._operands(tensors, names, sets), times=times)
        lease = _Lease(lambda: self._spare.append(sets))
        outputs = tuple(
            DeviceArray(tensor, shape, dtype, self._device, lease) for tensor, (shape, dtype) in zip(sets, results)
        )
        return outputs, answer["us"]

    def benchmark(
        self, tensors: Sequence[int], names: Sequence[str], outputs: Sequence[DeviceArray], warmup: int, iterations: int
    ) -> list[float]:
        """Microseconds of each of `iterations` executions on the NeuronCore alone, after `warmup` others."""
        operands = self._operands(tensors, names, [output.tensor for output in outputs])
        durations = self._device.ask("benchmark", **operands, warmup=warmup, iterations=iterations)["us"]
        return list(durations)

    def _operands(self, tensors: Sequence[int], names: Sequence[str], outputs: Sequence[int]) -> dict[str, Any]:
        return {
            "model": self.number,
            "inputs": dict(zip(names, tensors, strict=True)),
            "outputs": dict(zip(self.outputs, outputs, strict=True)),
        }


class Device:
    """The process that holds a NeuronCore; started when it is first needed, and ended with this one."""

    def __init__(self, python: Path | None = None) -> None:
        self._python = python or Path(sys.executable)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._unwanted: list[int] = []

    def hello(self) -> dict[str, Any]:
        """Which nrtpy answers there: `library` and `python`."""
        return self.ask("hello")

    def load(self, neff: Path) -> LoadedNeff:
        """Load a NEFF."""
        answer = self.ask("load", path=str(neff))
        return LoadedNeff(self, answer["model"], answer["inputs"], answer["outputs"], answer["dtypes"])

    def put(self, array: np.ndarray) -> int:
        """A tensor on the device with an array's values."""
        return int(self.ask("put", np.ascontiguousarray(array), **_form(array))["tensor"])

    def blank(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
        """A tensor of zeros."""
        return self.put(np.zeros(shape, dtype))

    def write(self, tensor: int, array: np.ndarray) -> None:
        """New values for a tensor of the same size."""
        self.ask("write", np.ascontiguousarray(array), tensor=tensor, **_form(array))

    def read(self, tensor: int) -> bytes:
        """A tensor's bytes."""
        answer: bytes = self.ask("read", tensor=tensor)["data"]
        return answer

    def free(self, tensor: int) -> None:
        """Let go of a tensor, with the next message: this may be called in the middle of one, by a finalizer."""
        self._unwanted.append(tensor)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            with self._lock:
                self._process.stdin.close()
                self._process.wait()
            self._process = None

    def ask(self, operation: str, array: np.ndarray | None = None, **fields: Any) -> dict[str, Any]:
        """What the process answers. DeviceLost where it has ended, DeviceFaultError for what the runtime raised there,
        BackendUnavailable where nrtpy cannot be used."""
        with self._lock:
            while self._unwanted:
                self._exchange("free", b"", {"tensor": self._unwanted.pop()})
            answer = self._exchange(operation, b"" if array is None else array.tobytes(), fields)
        if answer["ok"]:
            return answer
        if answer["type"] in ("ImportError", "ModuleNotFoundError"):
            raise BackendUnavailable(f"nrtpy cannot be used by {self._python}: {useful_line(answer['error'])}")
        raise DeviceFaultError(f"{answer['type']}: {answer['error']}")

    def _exchange(self, operation: str, data: bytes, fields: dict[str, Any]) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"op": operation, "bytes": len(data), **fields}).encode() + b"\n" + data)
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:  # the pipe is broken
            line = b""
        if not line:
            status = process.wait()
            self._process = None
            raise DeviceLost(f"the process on the NeuronCore ended during {operation} (exit status {status})")
        answer: dict[str, Any] = json.loads(line)
        return {**answer, "data": process.stdout.read(answer["bytes"])}

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            variables = dict(os.environ)
            libraries = [str(LIBRARY_FOLDER), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
            variables["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)  # nrtpy-troubleshooting.rst
            variables.pop(ASYNCHRONOUS, None)
            command = [str(self._python), "-c", _START, str(WORKER)]
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, start_new_session=True
                )
            except OSError as error:
                raise BackendUnavailable(f"{self._python} cannot be run: {error.strerror}") from error
            weakref.finalize(self, _end, self._process)
        return self._process


# Not `python WORKER`: that would search the worker's folder, whose modules have common names.
_START = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"


def named_python(place: str | None = None) -> Path | None:
    """The Python of the environment with nrtpy that `place`, else TRNINFER_NRTPY, names: a folder, or the Python.

    None where none is named; BackendUnavailable where an environment is named that is none.
    """
    named = place or os.environ.get(NRTPY_VARIABLE)
    if not named:
        return None
    path = Path(named).expanduser()
    python = path / "bin" / "python" if path.is_dir() else path
    if not (python.is_file() and os.access(python, os.X_OK)):
        raise BackendUnavailable(f"no environment with nrtpy at {path}: {python} is not a Python to be run")
    return python


def _form(array: np.ndarray) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": array.dtype.name}


def _ending(name: str) -> tuple[int, str]:
    """Outputs are named with a number at the end (output_0 in tutorial-debug-neff-nrtpy.rst), and come unordered."""
    digits = name[len(name.rstrip("0123456789")) :]
    return (int(digits) if digits else 0, name)


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    if process.poll() is None:
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
