"""Backends that worker processes open in tests: the simulator computes, times are made up."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
from trninfer.runtime.backend import BackendInfo, BackendUnavailable, KernelError, LaunchResult, LaunchTime
from trninfer.runtime.neuron import environment
from trninfer.runtime.neuron.backend import NeuronBackend
from trninfer.runtime.neuron.compile_cache import CompileCache


class PlainBackend:
    """Computes; every launch takes 2 us. Input rows whose first number is special make something happen."""

    info = BackendInfo("sim", "trn2", "predicted", "predicted")

    def __init__(self, progress) -> None:
        self._progress = progress

    def launch(self, kernel, *arrays, **parameters):
        first = float(arrays[0].flat[0])
        if first == -1.0:
            os.kill(os.getpid(), signal.SIGKILL)
        if first == -2.0:
            raise KernelError("a kernel refused")
        if first == -3.0:
            raise BackendUnavailable("the device disappeared")
        if first == -4.0:
            raise ZeroDivisionError("a fault of the program")
        if first == -5.0:
            time.sleep(0.5)
        if first == -6.0:
            time.sleep(60)
        outputs = kernel(*arrays, **parameters)
        return LaunchResult((np.asarray(outputs),), LaunchTime(2.0, 3.0, None, None, 10, 100), object())

    def time(self, kernel, *specs, **parameters):
        return LaunchResult((), LaunchTime(2.0, 3.0, None, None, 10, 100))


def open_plain(*, progress, warn):
    core = os.environ.get("NEURON_RT_VISIBLE_CORES")
    progress(f"sees {core}, number {os.environ.get('NEURON_RT_NUM_CORES')}")
    print("what a library prints on standard output")
    sys.stdout.flush()
    return PlainBackend(progress)


def open_nothing(*, progress, warn):
    raise BackendUnavailable("no device for this core")


def open_neuron(folder, *, progress, warn):
    """The Neuron backend, with the stand-ins for `torch` and `torch_neuronx`, and compiled kernels in another."""
    environment.neuron_devices = lambda: ("/dev/neuron0",)
    return NeuronBackend("trn2", iterations=1, cache=CompileCache(folder, warn), progress=progress, warn=warn)
