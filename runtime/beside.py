"""The simulator beside the chip: in a process of its own, since a process has one `nki`. POSIX only.

The child gets requests (operation, kernel, operands, parameters) over a socket and answers (True, LaunchResult) or
(False, exception). It ends with its parent, whose end of the socket is then closed.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from .backend import ArraySpec, Backend, BackendInfo, BackendUnavailable, KernelError, LaunchResult, LaunchTime
from .child_python import python_command
from .neuron.kernel_source import find_source

_GRACE_SECONDS = 5.0  # for the process to end by itself


class SimulatorDied(BackendUnavailable):
    """The simulator's process ended before it answered; the message is one line for the user."""


class SimulatorFault(RuntimeError):  # noqa: N818 (a fault of ours, not of a user)
    """A fault of the program in the simulator's process, with its traceback."""


class SimulatorBeside:
    """The simulator for a target as a backend, for kernels of trninfer.kernels. To be closed, or used in a `with`."""

    def __init__(self, target: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                python_command(__name__, "serve", str(theirs.fileno()), target),
                stdin=subprocess.DEVNULL,
                stdout=2,  # what libraries print must not come between the lines of a report
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent, which then ends this process
            )
        self._connection = Connection(ours.detach())
        try:
            self.info: BackendInfo = self._receive()
        except BaseException:
            self.close()
            raise

    def launch(self, kernel: Any, *arrays: np.ndarray, **parameters: Any) -> LaunchResult:
        """Run a kernel there."""
        return self._call("launch", kernel, arrays, parameters)

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel there."""
        return self._call("time", kernel, specs, parameters)

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> SimulatorBeside:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _call(self, operation: str, kernel: Any, operands: tuple[Any, ...], parameters: dict[str, Any]) -> LaunchResult:
        try:
            self._connection.send((operation, find_source(kernel).name, operands, parameters))
        except OSError:
            raise self._died() from None
        result: LaunchResult = self._receive()
        return result

    def _receive(self) -> Any:
        try:
            answered, value = self._connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if not answered:
            raise value
        return value

    def _died(self) -> SimulatorDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        status = self._process.returncode
        if status is None:
            return SimulatorDied("the simulator's process closed its connection")
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return SimulatorDied(f"the simulator's process {how}")


class LazyCounter:
    """Counts flops and HBM bytes of kernels with a simulator, which is started when it is first asked. To be closed."""

    def __init__(self, open_backend: Callable[[], SimulatorBeside]) -> None:
        self._open_backend = open_backend
        self._backend: SimulatorBeside | None = None

    def __call__(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchTime:
        """The time as the simulator walks the kernel by shapes; its flops and bytes are those of its program."""
        if self._backend is None:
            self._backend = self._open_backend()
        return self._backend.time(kernel, *specs, **parameters).time

    def close(self) -> None:
        """End the simulator's process, if it runs."""
        if self._backend is not None:
            self._backend.close()
            self._backend = None


def serve(descriptor: str, target: str) -> None:
    """What the child does: answer requests at a socket until the parent closes its end."""
    from .simulated import open_simulated_backend

    backend = open_simulated_backend(target)
    with Connection(int(descriptor)) as connection:
        connection.send((True, backend.info))
        while True:
            try:
                request = connection.recv()
            except (EOFError, OSError):
                return
            answer: tuple[bool, Any]
            try:
                answer = (True, replace(_run(backend, *request), timeline=None))
            except KernelError as error:
                answer = (False, error)
            except Exception:
                answer = (False, SimulatorFault(traceback.format_exc()))
            try:
                connection.send(answer)
            except OSError:
                return


def _run(
    backend: Backend, operation: str, kernel: str, operands: tuple[Any, ...], parameters: dict[str, Any]
) -> LaunchResult:
    from .. import kernels  # not before the backend is open: loading a kernel settles which `nki` it gets

    if kernel not in kernels.__all__:
        raise KernelError(f"{kernel} is not a kernel of trninfer.kernels; no other can run in a process of its own")
    run = backend.launch if operation == "launch" else backend.time
    return run(kernels.kernel(kernel), *operands, **parameters)
