"""Backends that workers in tests open instead of the chip's."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from trninfer.kernels import use_nki
from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.compiled import RunOptions
from trninfer.runtime.neuron.device import torch_device
from trninfer.runtime.neuron.system import prepare_environment
from trninfer.runtime.neuron.torch_backend import TorchBackend

SITES = Path(__file__).parents[2] / "runtime" / "neuron" / "stand_ins"


class CoreBackend(TorchBackend):
    """The Neuron backend on stand-ins for AWS's packages; with the fault "kill", the process ends at its first
    kernel."""

    fault: str | None = None

    def launch(self, kernel, *arrays, **parameters):
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().launch(kernel, *arrays, **parameters)


def open_core(target=None, *, lnc=1, fault=None, warmup=5, iterations=20, compile_seconds=60, progress, warn):
    """Replace `open_neuron_backend` in a worker that sees one core; with the fault "lose", no core is found."""
    core = os.environ["NEURON_RT_VISIBLE_CORES"]
    if fault == "lose":
        raise BackendUnavailable(f"core {core} is taken")
    progress(f"core {core}: warm-up {warmup}, iterations {iterations}")
    environment.neuron_devices = lambda: ("/dev/neuron0",)
    prepare_environment(target or "trn2", True, os.environ, lnc)
    use_nki("sim")
    sys.path[:0] = [str(SITES / site) for site in ("nki_site", "torch_site")]  # for the process that uses the core
    backend = CoreBackend(target or "trn2", torch_device({}), RunOptions(1, 1, warn=warn, lnc=lnc))
    backend.fault = fault
    return backend
