"""Backends that workers open in tests in place of the chip's."""

from __future__ import annotations

import os
import signal

from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.pytorch_backend import PyTorchBackend


class CoreBackend(PyTorchBackend):
    """The Neuron backend on the stand-ins for AWS's packages; with the fault "kill" it ends at its first kernel."""

    fault: str | None = None

    def launch(self, kernel, *arrays, **parameters):
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().launch(kernel, *arrays, **parameters)


def open_core(target=None, *, fault=None, warmup=5, iterations=20, progress, warn):
    """What `open_neuron_backend` is, for a worker that sees one core; with the fault "lose" it has none."""
    core = os.environ["NEURON_RT_VISIBLE_CORES"]
    if fault == "lose":
        raise BackendUnavailable(f"core {core} is taken")
    progress(f"core {core}: warm-up {warmup}, iterations {iterations}")
    environment.neuron_devices = lambda: ("/dev/neuron0",)
    backend = CoreBackend(target or "trn2", warmup=1, iterations=1, warn=warn)
    backend.fault = fault
    return backend
