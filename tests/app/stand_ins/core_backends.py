"""Backends that the processes of `--cores` open in tests in place of the chip's.

STAND_IN_CORE makes them fail: "kill" ends the process at its first kernel, "lose" finds no core.
"""

from __future__ import annotations

import os
import signal

from trninfer.runtime.backend import BackendUnavailable
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.backend import NeuronBackend


class CoreBackend(NeuronBackend):
    """The Neuron backend on the stand-ins for AWS's packages."""

    def launch(self, kernel, *arrays, **parameters):
        if os.environ.get("STAND_IN_CORE") == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().launch(kernel, *arrays, **parameters)


def open_core(target=None, *, warmup=5, iterations=20, progress, warn):
    """What `open_neuron_backend` is, for a process that sees one core."""
    core = os.environ["NEURON_RT_VISIBLE_CORES"]
    if os.environ.get("STAND_IN_CORE") == "lose":
        raise BackendUnavailable(f"core {core} is taken")
    progress(f"warm-up {warmup}, iterations {iterations}")
    environment.neuron_devices = lambda: ("/dev/neuron0",)
    return CoreBackend(target or "trn2", warmup=1, iterations=1, warn=warn)
