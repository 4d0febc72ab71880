"""Other processes that run kernels: a worker, and a backend in a worker.

A process can have one NeuronCore choice and one `nki`, so each NeuronCore gets a process (`cores`), and the simulator
gets one where it stands beside the chip (`compare`). Processes are started with their environment variables set, as AWS
documents for NEURON_RT_VISIBLE_CORES (aws-neuron-sdk, neuron-runtime/guides/configuration-guide.rst). POSIX only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ..backend import ArraySpec, Backend, BackendInfo, BackendUnavailable, LaunchResult, LaunchTime
from ..neuron.kernel_source import find_source
from .worker import BackendOpener, Note

_GRACE_SECONDS = 5.0  # for a worker to end by itself


class WorkerDied(BackendUnavailable):
    """A worker process ended before it answered; the message is one line for the user."""


class RemoteWorker:
    """A worker process. `name` tells it apart in messages; `variables` are set (None: unset) in its environment."""

    def __init__(
        self,
        name: str,
        variables: Mapping[str, str | None],
        progress: Note = lambda message: None,
        warn: Note = lambda message: None,
    ) -> None:
        self.name = name
        self._progress = progress
        self._warn = warn
        environment = {key: value for key, value in os.environ.items() if key not in variables}
        environment.update({key: value for key, value in variables.items() if value is not None})
        package = __package__
        # The search path goes over as it is, so that the worker finds what this process finds.
        program = f"import sys; sys.path[:] = {sys.path!r}; from {package}.worker import main; main(int(sys.argv[1]))"
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=2,  # what libraries print must not come between the lines of a report
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent, which then ends this process and its own
            )
        self.connection = Connection(ours.detach())

    def send(self, operation: str, *arguments: Any) -> None:
        """Ask for an operation of `worker.Worker`; `receive` gets the answer. WorkerDied where nobody is there."""
        try:
            self.connection.send((operation, arguments))
        except OSError:
            raise self._died() from None

    def receive(self) -> Any:
        """The answer to what was sent last. Raises what the operation raised, WorkerDied where the process ended."""
        while True:
            answered, value = self.read_message()
            if answered:
                return value

    def call(self, operation: str, *arguments: Any) -> Any:
        """Send and receive."""
        self.send(operation, *arguments)
        return self.receive()

    def read_message(self) -> tuple[bool, Any]:
        """Wait for one message: (True, the answer), or (False, None) where it was only a note. Raises as `receive`."""
        try:
            kind, value = self.connection.recv()
        except (EOFError, OSError):
            raise self._died() from None
        if kind == "error":
            raise value
        if kind == "result":
            return True, value
        (self._progress if kind == "progress" else self._warn)(value)
        return False, None

    def close(self, at_once: bool = False) -> None:
        """End the process: by closing the connection, or `at_once` by a signal, which also one that is busy obeys."""
        self.connection.close()
        if at_once:
            self._signal(signal.SIGTERM)
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        """To the process and those that it started, such as a compiler. Not after it was waited for."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _died(self) -> WorkerDied:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        status = self._process.returncode
        if status is None:
            how = "closed its connection"
        elif status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        return WorkerDied(f"the process on {self.name} {how}")


class RemoteBackend:
    """A backend in a process of its own, for kernels of trninfer.kernels. To be closed."""

    def __init__(self, worker: RemoteWorker, opener: BackendOpener) -> None:
        self._worker = worker
        try:
            self.info: BackendInfo = worker.call("open", opener)
        except BaseException:
            worker.close(at_once=True)
            raise

    def launch(self, kernel: Any, *arrays: np.ndarray, **parameters: Any) -> LaunchResult:
        """Run a kernel there."""
        launch: LaunchResult = self._worker.call("launch", find_source(kernel).name, arrays, parameters)
        return launch

    def time(self, kernel: Any, *specs: ArraySpec, **parameters: Any) -> LaunchResult:
        """Time a kernel there."""
        launch: LaunchResult = self._worker.call("time", find_source(kernel).name, specs, parameters)
        return launch

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def open_simulator(target: str, *, progress: Note, warn: Note) -> Backend:
    """Opens the simulator for a target, in a worker."""
    from ..simulated import open_simulated_backend

    return open_simulated_backend(target)


def simulator_beside(target: str) -> RemoteBackend:
    """The simulator for a target, in a process of its own, where this process has the real `nki`. To be closed."""
    worker = RemoteWorker("the simulator", {"TRNINFER_BACKEND": "sim"})
    return RemoteBackend(worker, functools.partial(open_simulator, target))


class LazyCounter:
    """Counts flops and HBM bytes of kernels with the simulator, started when it is first asked. To be closed."""

    def __init__(self, open_backend: Callable[[], RemoteBackend]) -> None:
        self._open_backend = open_backend
        self._backend: RemoteBackend | None = None

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
