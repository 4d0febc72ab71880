"""A NeuronCore that a separate process uses. Tensors stay on the device, and kernels are loaded once.

The process is `torch_worker` (TorchNeuron) or `nrt_worker` (NEFF and nki.runtime). It receives messages, each a line of
JSON followed by as many raw bytes as its field `bytes` specifies, and replies to each with one message of the same
form. Tensors and kernels are stored in the process and are identified by numbers. As the Neuron runtime belongs to that
process, a lost NeuronCore, or a compiler that crashes or hangs, ends that process and not this one.
"""

from __future__ import annotations

import json
import math
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...child_python import python_command
from ..backend import BackendUnavailable
from .errors import CoreInUse, DeviceLost, ExecutionError, raised_line, runtime_error, useful_line
from .messages import FOLDER_PREFIX
from .processes import NOTE_SECONDS, Waiting, end_group
from .system import ASYNCHRONOUS, LIBRARY_FOLDER
from .taken import is_taken, taken_line

# Time limit for an execution. The runtime's own limit is NEURON_RT_EXEC_TIMEOUT, 30 s by default
# (neuron-runtime/guides/configuration-guide).
EXECUTION_SECONDS = 600.0


class DeviceFaultError(RuntimeError):
    """An exception raised in the device's process: its type (`kind`), its text, and its traceback."""

    def __init__(self, kind: str, text: str, traceback: str = "") -> None:
        super().__init__(raised_line(traceback) if traceback and not text else f"{kind}: {text}")
        self.kind = kind
        self.text = text
        self.traceback = traceback


class DeviceTimeoutError(RuntimeError):
    """Raised if the device's process did not reply in time and was terminated."""


class DeviceArray:
    """An array on the device. Its shape and dtype are known on the host; `np.asarray` copies the values to the host."""

    def __init__(self, tensor: int, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, owner: Any) -> None:
        self.tensor = tensor
        self.shape = shape
        self.dtype = dtype
        self._device = device
        self._start = device.starts
        self._owner = owner  # frees the memory when the last view is gone

    def __len__(self) -> int:
        return self.shape[0]

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """Return a view with another shape. Raise ValueError if the sizes differ."""
        if math.prod(shape) != math.prod(self.shape):
            raise ValueError(f"{self.shape} cannot be reshaped to {shape}")
        return DeviceArray(self.tensor, shape, self.dtype, self._device, self._owner)

    @property
    def is_there(self) -> bool:
        """True if the process that holds the array is still running."""
        return self._device.holds(self._start)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self.is_there:
            raise DeviceLost("a result was on a NeuronCore whose process has ended")
        try:
            data = self._device.read(self.tensor)
        except DeviceFaultError as error:
            raise runtime_error("a result was read before a kernel computed it", error) from error
        expected = math.prod(self.shape) * self.dtype.itemsize
        if len(data) != expected:
            raise ExecutionError(f"a result has {len(data)} bytes; expected {expected} for {self.dtype}")
        values = np.frombuffer(data, self.dtype).reshape(self.shape)
        return values if dtype is None else values.astype(dtype)


class Lease:
    """Ownership of memory on the device, which is released when the last array that uses it is deleted."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        weakref.finalize(self, give_back)


class Device:
    """A process that owns a NeuronCore.

    It is started on first use, restarted if it has ended, and terminated when this process ends. `command` starts it,
    `variables` are added to its environment, and `library` is the package that it needs.
    """

    def __init__(self, command: Sequence[str], library: str, variables: Mapping[str, str] | None = None) -> None:
        self.library = library
        self.starts = 0  # number of processes started so far; tensors of earlier processes no longer exist
        self._command = list(command)
        self._variables = dict(variables or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._unwanted: list[tuple[int, int]] = []  # tensors to free, each with the number of the process that holds it

    def start(self) -> int:
        """Start the process if it is not running, and return its number.

        Tensors and kernels are numbered separately in each process.
        """
        with self._lock:
            self._running()
        return self.starts

    def holds(self, start: int) -> bool:
        """Return True if the process with that number is still running."""
        process = self._process
        return process is not None and start == self.starts and process.poll() is None

    def hello(self) -> dict[str, Any]:
        """Return the `library` and `python` that the process uses."""
        return self.ask("hello")

    def put(self, array: np.ndarray) -> int:
        """Copy an array to a new tensor on the device, and return the number of the tensor."""
        return int(self.ask("put", np.ascontiguousarray(array), **_form(array))["tensor"])

    def blank(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
        """Create a tensor of zeros, and return its number."""
        return self.put(np.zeros(shape, dtype))

    def write(self, tensor: int, array: np.ndarray) -> None:
        """Replace the values of a tensor of the same size."""
        self.ask("write", np.ascontiguousarray(array), tensor=tensor, **_form(array))

    def read(self, tensor: int) -> bytes:
        """Return a tensor's bytes."""
        answer: bytes = self.ask("read", tensor=tensor)["data"]
        return answer

    def free(self, tensor: int, start: int) -> None:
        """Free a tensor of the process with the number `start`. The tensor is freed when the next message is sent,
        since a finalizer may call this method while a message is being sent."""
        self._unwanted.append((tensor, start))

    def lease(self, tensor: int) -> Lease:
        """Return a lease that frees a tensor when it is deleted."""
        start = self.starts
        return Lease(lambda: self.free(tensor, start))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            assert self._process.stdin is not None
            with self._lock:
                self._process.stdin.close()
                self._process.wait()
            self._process = None

    def end(self) -> None:
        """Kill the process, which may be hanging, and its children."""
        with self._lock:
            if self._process is not None:
                end_group(self._process)
                self._process = None

    def ask(
        self,
        operation: str,
        array: np.ndarray | None = None,
        *,
        limit: float | None = None,
        note: Waiting = lambda seconds: None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Send a message to the process and return its reply.

        Raises DeviceLost if the process has ended, DeviceFaultError for an exception in the process, BackendUnavailable
        if its library cannot be used or another process uses the core, and DeviceTimeoutError after more than `limit`
        seconds. `note` is called every NOTE_SECONDS.
        """
        with self._lock:
            while self._unwanted:
                tensor, start = self._unwanted.pop()
                if start == self.starts:
                    self._exchange("free", b"", {"tensor": tensor})
            answer = self._exchange(operation, b"" if array is None else array.tobytes(), fields, limit, note)
        if answer["ok"]:
            return answer
        if answer["type"] in ("ImportError", "ModuleNotFoundError"):
            reason = useful_line(answer["error"])
            raise BackendUnavailable(f"{self.library} cannot be used by {self._command[0]}: {reason}")
        if is_taken(answer["error"]):
            raise CoreInUse(taken_line(answer["error"]))
        raise DeviceFaultError(answer["type"], answer["error"], answer.get("traceback", ""))

    def _exchange(
        self,
        operation: str,
        data: bytes,
        fields: dict[str, Any],
        limit: float | None = None,
        note: Waiting = lambda seconds: None,
    ) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps({"op": operation, "bytes": len(data), **fields}).encode() + b"\n" + data)
            process.stdin.flush()
            if limit is not None:
                self._wait(process, operation, limit, note)
            line = process.stdout.readline()
        except OSError:  # the pipe is broken
            line = b""
        if not line:
            status = process.wait()
            self._process = None
            raise DeviceLost(f"the process on the NeuronCore ended during {operation} (exit status {status})")
        answer: dict[str, Any] = json.loads(line)
        return {**answer, "data": process.stdout.read(answer["bytes"])}

    def _wait(self, process: subprocess.Popen[bytes], operation: str, limit: float, note: Waiting) -> None:
        """Wait for a reply. On a timeout, terminate the process and raise DeviceTimeoutError."""
        start = time.perf_counter()
        while True:
            elapsed = time.perf_counter() - start
            assert process.stdout is not None
            if select.select([process.stdout], [], [], max(0.0, min(NOTE_SECONDS, limit - elapsed)))[0]:
                return
            elapsed = time.perf_counter() - start
            if elapsed >= limit:
                end_group(process)
                self._process = None
                raise DeviceTimeoutError(f"no answer to {operation} within {limit:.0f} s")
            note(elapsed)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            variables = {**os.environ, **self._variables}
            libraries = [str(LIBRARY_FOLDER), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
            variables["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)  # nrtpy-troubleshooting.rst
            variables.pop(ASYNCHRONOUS, None)
            folder = tempfile.mkdtemp(prefix=FOLDER_PREFIX)  # compilers leave files in their working directory
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=variables,
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise BackendUnavailable(f"{self._command[0]} cannot be run: {error.strerror}") from error
            self.starts += 1
            weakref.finalize(self, _end, self._process)
        return self._process


def torch_device(variables: Mapping[str, str]) -> Device:
    """Return the process for TorchNeuron, without starting it."""
    return Device(python_command(f"{__package__}.torch_worker", "main"), "TorchNeuron", variables)


def nrt_device() -> Device:
    """Return the process in which `nki.runtime` executes NEFFs, without starting it."""
    return Device(python_command(f"{__package__}.nrt_worker", "main"), "nki.runtime")


def _form(array: np.ndarray) -> dict[str, Any]:
    return {"shape": list(array.shape), "dtype": array.dtype.name}


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
