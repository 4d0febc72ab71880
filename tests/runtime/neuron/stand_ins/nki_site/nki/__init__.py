"""Stands in for AWS's nki: a kernel called with NumPy arrays is compiled and executed, by the NeuronCore simulator.

Sources (aws-neuron-sdk): nki/api/nki/__init__.py for `jit`; neuron-runtime/nrtpy/nrtpy-troubleshooting.rst for
NKI_ARTIFACTS_DIR, read at import, and kernel.neff. The NEFF is a line of JSON that nrtpy's stand-in reads.
STAND_IN_NKI makes it fail: "compile" (no NEFF), "execute" (after the NEFF), "two" (NEFFs).
"""

import inspect
import json
import os
from pathlib import Path

import numpy as np
from trninfer.simulator import jit as _simulated
from trninfer.simulator.core import is_active as _is_active

_ARTIFACTS = os.environ.get("NKI_ARTIFACTS_DIR")
_FAULT = os.environ.get("STAND_IN_NKI", "")


class Kernel:
    def __init__(self, function) -> None:
        self._kernel = _simulated(function)
        self.__name__ = function.__name__
        self._function = function

    def __call__(self, *arguments, **parameters):
        if _is_active():  # called by another kernel
            return self._kernel(*arguments, **parameters)
        assert arguments and all(isinstance(array, np.ndarray) for array in arguments)
        if _FAULT == "compile":
            raise RuntimeError("[NCC_EBVF030] The number of instructions generated exceeds the limit.")
        returned = self._kernel(*arguments, **parameters)
        results = returned if isinstance(returned, tuple) else (returned,)
        names = list(inspect.signature(self._function).parameters)
        neff = {
            "module": self._function.__module__,
            "file": inspect.getfile(self._function),
            "kernel": self.__name__,
            "parameters": repr(parameters),
            "inputs": [[name, list(a.shape), a.dtype.name] for name, a in zip(names, arguments)],
            "outputs": [[f"output_{i}", list(a.shape), a.dtype.name] for i, a in enumerate(results)],
        }
        if _ARTIFACTS:
            Path(_ARTIFACTS).mkdir(exist_ok=True)
            Path(_ARTIFACTS, "kernel.neff").write_text(json.dumps(neff))
            if _FAULT == "two":
                Path(_ARTIFACTS, "kernel.neff").rename(Path(_ARTIFACTS, "a.neff"))
                Path(_ARTIFACTS, "b.neff").write_text(json.dumps(neff))
        print("Compiler status PASS")
        if _FAULT == "execute":
            raise RuntimeError("NRT Error NRT_LOAD_NOT_ENOUGH_NC(9): no core is free")
        return returned


def jit(fn=None, **kwargs):
    assert not kwargs, "none is documented by name"
    return Kernel if fn is None else Kernel(fn)
