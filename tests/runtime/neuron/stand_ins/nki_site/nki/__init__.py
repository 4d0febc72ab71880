"""Stands in for AWS's nki 0.7: a kernel called with NumPy arrays is compiled and executed by itself, one called with
tensors on `neuron` by torch-neuronx; the NeuronCore simulator computes.

Sources (aws-neuron-sdk): nki/api/generated/nki.jit for `jit`, the frameworks by arguments, and LNC; neuron-runtime/
nrtpy/nrtpy-troubleshooting.rst for NKI_ARTIFACTS_DIR, read at import, and kernel.neff; torch/guides/
how-to-work-with-nki for what compiles when. The key of torch-neuronx's compiled kernels, with the hash of the other
arguments, is that of a public pre-release. The NEFF is a line of JSON that nrtpy's stand-in reads.

STAND_IN_NKI makes it fail: "compile" (no NEFF), "lnc" (the compiler has another), "execute" (after the NEFF), "two"
(NEFFs), "slow" (it takes long), "crash" (the compiler takes the process with it), "cpu" (torch-neuronx falls back),
"lost" and "oob" (at the execution), "shape" and "dtype" (of results, other than they should be). With
"large:N" only launches of at most N instructions compile. STAND_IN_NKI_LOG names a file that gets a line for each
compilation.
"""

import base64
import hashlib
import inspect
import json
import os
import pickle
import time
import warnings
from pathlib import Path

import numpy as np
from trninfer import simulator
from trninfer.simulator import jit as _simulated
from trninfer.simulator.instructions.core import is_active as _is_active
from trninfer.simulator.machine.errors import ReportedOnChipWarning

__version__ = "0.7.0"
_ARTIFACTS = os.environ.get("NKI_ARTIFACTS_DIR")
_FAULT = os.environ.get("STAND_IN_NKI", "")
warnings.simplefilter("ignore", ReportedOnChipWarning)  # neither compiler nor chip says it
_DTYPES = ("float32", "bfloat16", "float16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool")
_compiled = {}  # by torch-neuronx: what its key stands for


def _compile(kernel, forms, parameters) -> None:
    for _, dtype in forms:
        if dtype not in _DTYPES:
            raise TypeError(f"{dtype} is no dtype of nki.language")
    log = os.environ.get("STAND_IN_NKI_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{kernel.__name__}\n")
    if os.environ.get("NKI_COMPILER_FRONTEND") == "custom" and _FAULT == "tracing":
        return
    print("ERROR: compiler says why" if _FAULT in ("compile", "tracing") else "Compiler status PASS")
    if _FAULT == "compile" or _FAULT == "tracing":
        raise RuntimeError("[NCC_EBVF030] The number of instructions generated exceeds the limit.")
    if _FAULT == "lnc":
        raise RuntimeError("[NCC_EVRF066] NKI kernel 'f' is configured with LNC=1, but neuronx-cc is using LNC=2.")
    if _FAULT == "slow":
        time.sleep(60)
    if _FAULT == "crash":
        os._exit(11)
    if _FAULT.startswith("large:"):
        specs = [simulator.TensorSpec(shape, dtype) for shape, dtype in forms]
        run = simulator.run(kernel._kernel, *specs, functional=False, **parameters)
        if len(run.program) > int(_FAULT[6:]):
            raise RuntimeError(f"[NCC_EBVF030] The number of instructions, {len(run.program)}, exceeds the limit.")


class Kernel:
    def __init__(self, function) -> None:
        self._kernel = _simulated(function)
        self.__name__ = function.__name__
        self.func = function

    def __call__(self, *arguments, **parameters):
        if _is_active():  # called by another kernel
            return self._kernel(*arguments, **parameters)
        assert os.environ.get("NEURON_LOGICAL_NC_CONFIG") in ("1", "2"), "kernels and compiler must agree"
        assert os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2") in ("trn2", "trn3")
        if arguments and all(isinstance(array, np.ndarray) for array in arguments):
            return self._standalone(arguments, parameters)
        return self._on_neuron(arguments, parameters)

    def _standalone(self, arguments, parameters):
        forms = [(a.shape, a.dtype.name) for a in arguments]
        _compile(self, forms, parameters)
        returned = self._kernel(*arguments, **parameters)
        results = returned if isinstance(returned, tuple) else (returned,)
        names = list(inspect.signature(self.func).parameters)
        neff = {
            "module": self.func.__module__,
            "file": inspect.getfile(self.func),
            "kernel": self.__name__,
            "parameters": base64.b64encode(pickle.dumps(parameters)).decode(),
            "inputs": [[name, list(a.shape), a.dtype.name] for name, a in zip(names, arguments)],
            "outputs": [[f"output_{i}", list(a.shape), a.dtype.name] for i, a in enumerate(results)],
        }
        if _ARTIFACTS:
            Path(_ARTIFACTS).mkdir(exist_ok=True)
            Path(_ARTIFACTS, "kernel.neff").write_text(json.dumps(neff))
            if _FAULT == "two":
                Path(_ARTIFACTS, "kernel.neff").rename(Path(_ARTIFACTS, "a.neff"))
                Path(_ARTIFACTS, "b.neff").write_text(json.dumps(neff))
        if _FAULT == "execute":
            raise RuntimeError("NRT Error NRT_LOAD_NOT_ENOUGH_NC(9): no core is free")
        return returned

    def _on_neuron(self, arguments, parameters):
        import torch
        import torch_neuronx
        from torch.profiler import profile

        assert arguments and all(isinstance(a, torch.Tensor) for a in arguments), "tensors, or arrays, and no mixture"
        for tensor in arguments:
            if tensor.device.type != "neuron":
                raise ValueError(f"expected all tensors on neuron, got one on {tensor.device}")
        forms = tuple((tuple(tensor.shape), torch_neuronx.dtype_of(tensor)) for tensor in arguments)
        key = (id(self.func), hash(tuple(sorted(parameters.items()))), forms)  # TypeError where one is not hashable
        if key not in _compiled:
            _compile(self, forms, parameters)
            _compiled[key] = self.func, dict(parameters)
            folder = os.environ.get("TORCH_NEURONX_NEFF_CACHE_DIR")
            if folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
                name = hashlib.sha256(repr((self.__name__, forms, sorted(parameters.items()))).encode()).hexdigest()
                Path(folder, f"{name[:16]}.neff").write_text("NEFF")
        if _FAULT == "lost":
            raise RuntimeError("nrt_execute failed\nNRT Error NRT_EXEC_HW_ERR_NC_UE(1202): parity")
        if _FAULT == "oob":
            raise RuntimeError("NRT Error NRT_EXEC_OOB(1006): Failed to execute model")
        torch.neuron.synchronize()  # what is given may be the result of an earlier kernel
        if getattr(profile, "running", None) is not None:
            profile.running.calls += 1
        returned = self._kernel(*map(torch_neuronx.array_of, arguments), **_compiled[key][1])
        results = returned if isinstance(returned, tuple) else (returned,)
        made = tuple(torch_neuronx.later(_spoiled(result)) for result in results)
        return made[0] if len(made) == 1 else made


def _spoiled(result):
    if _FAULT == "shape":
        return result[:1]
    return result.astype(np.float16) if _FAULT == "dtype" else result


def jit(fn=None, *, compile_config=None, specialization_config=None, **kwargs):
    assert not kwargs, "none is documented by name"
    assert compile_config is None and specialization_config is None
    return Kernel if fn is None else Kernel(fn)
