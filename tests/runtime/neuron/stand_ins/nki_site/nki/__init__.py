"""A stand-in for AWS's nki 0.7: kernels called with NumPy arrays are compiled and executed, and kernels called with
tensors on `neuron` go through torch-neuronx; the NeuronCore simulator computes the results.

Arguments are bound as in AWS's files: nki/framework/kernel.py (`Kernel`, which selects the way),
nki/framework/compiled.py (for arrays), torch_neuronx/nki_hop.py (for tensors) and torch_neuronx/nki_kernel.py (the key
of compiled kernels). Other sources (aws-neuron-sdk): nki/api/generated/nki.jit for `jit` and LNC;
neuron-runtime/nrtpy/nrtpy-troubleshooting.rst for NKI_ARTIFACTS_DIR, which is read at import, and kernel.neff. The NEFF
is a line of JSON that the stand-in for the runtime reads.

STAND_IN_NKI injects a fault: "compile" (no NEFF), "assert" (an assertion without a message), "taken" (the core is in
use), "lnc" (the compiler uses another value), "execute" (fails after writing the NEFF), "two" (two NEFFs), "slow"
(compilation takes long), "crash" (the compiler ends the process), "cpu" (torch-neuronx falls back), "lost" and "oob"
(at execution), "shape" and "dtype" (wrong results). With "large:N", only launches of at most N instructions compile.
STAND_IN_NKI_LOG names a file to which each compilation appends a line.
"""

import base64
import hashlib
import inspect
import json
import os
import pickle
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from trninfer import simulator
from trninfer.simulator import jit as _simulated
from trninfer.simulator.instructions.core import active as _active
from trninfer.simulator.instructions.core import is_active as _is_active
from trninfer.simulator.machine.errors import ReportedOnChipWarning

__version__ = "0.7.0"
_ARTIFACTS = os.environ.get("NKI_ARTIFACTS_DIR")
_FAULT = os.environ.get("STAND_IN_NKI", "")
warnings.simplefilter("ignore", ReportedOnChipWarning)  # the compiler and the chip do not report it
_DTYPES = ("float32", "bfloat16", "float16", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool")
_compiled = {}  # compiled by torch-neuronx: key -> the arguments it represents


def _compile(kernel, forms, parameters) -> None:
    for _, dtype in forms.values():
        if dtype not in _DTYPES:
            raise TypeError(f"{dtype} is not a dtype of nki.language")
    _tell(kernel.__name__)
    if os.environ.get("NKI_COMPILER_FRONTEND") == "custom" and _FAULT == "tracing":
        return
    print("ERROR: compiler says why" if _FAULT in ("compile", "tracing") else "Compiler status PASS")
    if _FAULT == "compile" or _FAULT == "tracing":
        raise RuntimeError("[NCC_EBVF030] The number of instructions generated exceeds the limit.")
    if _FAULT == "lnc":
        raise RuntimeError("[NCC_EVRF066] NKI kernel 'f' is configured with LNC=1, but neuronx-cc is using LNC=2.")
    if _FAULT == "assert":
        assert not forms
    if _FAULT == "taken":  # as printed by the runtime, and as raised
        print("ERROR NRT: Logical Neuron Core(s) not available - Requested:lnc0-lnc0 Available:0 (cores busy, ret=-16)")
        raise RuntimeError("nrt_init failed")
    if _FAULT == "slow":
        time.sleep(60)
    if _FAULT == "crash":
        os._exit(11)
    if _FAULT.startswith("large:"):
        specs = {name: simulator.TensorSpec(shape, dtype) for name, (shape, dtype) in forms.items()}
        run = simulator.run(kernel.func, functional=False, **specs, **parameters)
        if len(run.program) > int(_FAULT[6:]):
            raise RuntimeError(f"[NCC_EBVF030] The number of instructions, {len(run.program)}, exceeds the limit.")


@dataclass(frozen=True)
class Kernel:
    """nki/framework/kernel.py: a frozen record of the function and its compilation options."""

    func: Callable
    lnc: int = 1
    schedule: tuple = ()
    address_rotation: bool = True
    barrier_check: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "__wrapped__", self.func)
        object.__setattr__(self, "__doc__", self.func.__doc__)

    @property
    def __name__(self) -> str:
        return self.func.__name__

    def __call__(self, *arguments, **parameters):
        if _is_active():  # called by another kernel
            return self.func(*arguments, **parameters)
        assert os.environ.get("NEURON_LOGICAL_NC_CONFIG") in ("1", "2"), "kernels and compiler must agree"
        assert os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2") in ("trn2", "trn3")
        given = [*arguments, *parameters.values()]
        if any(_is_on_neuron(value) for value in given):
            return self._on_neuron(arguments, parameters)
        if any(type(value).__module__.partition(".")[0] == "torch" for value in given):
            raise NotImplementedError("the framework of this tensor is another than TorchNeuron")
        return self._standalone(arguments, parameters)

    def _to_subclass(self, cls, **kwargs):
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "func"}
        return cls(self.func, **{**own, **kwargs})

    def _standalone(self, arguments, parameters):
        """nki/framework/compiled.py: arguments are bound to the signature, without defaults; a list contains a value
        for each rank."""
        inputs = inspect.signature(self.func).bind(*arguments, **parameters).arguments
        if any(isinstance(value, list) for value in inputs.values()):
            raise RuntimeError("Tensors in multi-rank execution must be passed as lists")
        tensors = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        constants = {name: value for name, value in inputs.items() if name not in tensors}
        _compile(self, {name: (a.shape, a.dtype.name) for name, a in tensors.items()}, constants)
        returned, read = _trace(self, tensors, constants)
        results = returned if isinstance(returned, tuple) else (returned,)
        neff = {
            "module": self.func.__module__,
            "file": inspect.getfile(self.func),
            "kernel": self.__name__,
            "parameters": base64.b64encode(pickle.dumps(constants)).decode(),
            "inputs": [[name, list(a.shape), a.dtype.name] for name, a in tensors.items() if name in read],
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
        """torch_neuronx/nki_hop.py, NKIHOPCaller: names are zipped with the positional arguments, missing ones get
        defaults (KeyError if there is none), and anything except tensors is a constant of the compiled kernel."""
        import torch
        import torch_neuronx
        from torch.profiler import profile

        signature = inspect.signature(self.func).parameters
        names = list(signature)
        defaults = {name: p.default for name, p in signature.items() if p.default is not inspect.Parameter.empty}
        combined = {**dict(zip(names, arguments)), **parameters}
        for name in names:
            if name not in combined:
                combined[name] = defaults[name]
        combined = {name: combined[name] for name in names}
        tensors = {name: value for name, value in combined.items() if isinstance(value, torch.Tensor)}
        constants = {name: value for name, value in combined.items() if name not in tensors}
        for tensor in tensors.values():
            if tensor.device.type != "neuron":
                raise ValueError(f"expected all tensors on neuron, got one on {tensor.device}")
        forms = {name: (tuple(tensor.shape), torch_neuronx.dtype_of(tensor)) for name, tensor in tensors.items()}
        key = (id(self.func), hash(tuple(sorted(constants.items()))), tuple(forms.items()))  # TypeError: not hashable
        if key not in _compiled:
            _compile(self, forms, constants)
            _compiled[key] = self.func, constants
            folder = os.environ.get("TORCH_NEURONX_NEFF_CACHE_DIR")
            if folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
                name = hashlib.sha256(repr((self.__name__, forms, sorted(constants.items()))).encode()).hexdigest()
                Path(folder, f"{name[:16]}.neff").write_text("NEFF")
        if _FAULT == "lost":
            raise RuntimeError("nrt_execute failed\nNRT Error NRT_EXEC_HW_ERR_NC_UE(1202): parity")
        if _FAULT == "oob":
            raise RuntimeError("NRT Error NRT_EXEC_OOB(1006): Failed to execute model")
        torch.neuron.synchronize()  # an argument may be the result of an earlier kernel
        if getattr(profile, "running", None) is not None:
            profile.running.calls += 1
        arrays = {name: torch_neuronx.array_of(tensor) for name, tensor in tensors.items()}
        returned, _ = _trace(self, arrays, _compiled[key][1])
        results = returned if isinstance(returned, tuple) else (returned,)
        made = tuple(torch_neuronx.later(_spoiled(result)) for result in results)
        return made[0] if len(made) == 1 else made


def _is_on_neuron(value) -> bool:
    return (
        type(value).__module__.startswith("torch") and getattr(value, "device", None) and value.device.type == "neuron"
    )


def _trace(kernel, arrays, constants):
    """Run a kernel on the simulator, and return its result and the names of the operands that some instruction reads.
    The compiler drops the others; STAND_IN_NKI_LOG records them."""
    read = set()

    def traced(**operands):
        returned = kernel.func(**operands, **constants)
        allocations = {id(access.allocation) for instruction in _active().program for access in instruction.reads}
        read.update(name for name, each in operands.items() if id(each.storage.owner) in allocations)
        return returned

    returned = _simulated(traced)(**arrays)
    for name in set(arrays) - read:
        _tell(f"{kernel.__name__} without {name}")
    return returned, read


def _tell(line: str) -> None:
    log = os.environ.get("STAND_IN_NKI_LOG")
    if log:
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


def _spoiled(result):
    if _FAULT == "shape":
        return result[:1]
    return result.astype(np.float16) if _FAULT == "dtype" else result


def jit(fn=None, *, compile_config=None, specialization_config=None, **kwargs):
    assert not kwargs, "none is documented by name"
    assert specialization_config is None and (compile_config is None or not compile_config.nki_alloc_fallback)
    return Kernel if fn is None else Kernel(fn)
