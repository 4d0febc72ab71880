"""The backend on a Trainium chip, and its second way there: kernels compiled by PyTorch NeuronX (SDK 2.31 and before).

`open_neuron_backend` takes the way that this machine has: NEFF and nrtpy (`nrt.py`) before PyTorch NeuronX. In both,
operands that nobody may write to stay on the device, intermediate results never leave it, and the time of a launch is
the wall clock around one synchronised call on data that lies there ("measured, host round trip"), with the time on the
NeuronCore alone beside it where it can be had ("measured, device"). Written from AWS's documentation (see the modules
for the pages) and tested against stand-ins; it has not run on a chip yet.
"""

from __future__ import annotations

import os
import shutil
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...kernels import nki_source
from ..backend import TARGET_VARIABLE, BackendUnavailable, resolve_target
from ..beside import LazyCounter, SimulatorBeside
from . import environment
from .compile_cache import CompileCache, cache_folder, warn_user
from .compiled import (
    DEFAULT_ITERATIONS,
    DEFAULT_WARMUP,
    NEFF,
    Compiled,
    CompiledKernels,
    CompilerFailed,
    Executable,
    Job,
    Note,
)
from .device import named_python
from .device_time import DeviceTime, DeviceTimingError
from .errors import CompileError, DeviceLost, runtime_error
from .pytorch import (
    COMPILER_ARGUMENTS,
    DEVICE,
    compile_kernel,
    load_packages,
    on_neuron_core,
    standard_output_to,
    to_array,
    to_tensor,
)
from .system import instance_target, prepare_environment

_MODULE_FILE = "model.pt"


class TorchArray:
    """A result of PyTorch NeuronX that lies on the device: `np.asarray` brings the values."""

    def __init__(self, torch: Any, tensor: Any, shape: tuple[int, ...]) -> None:
        self.tensor = tensor
        self.shape = shape
        self._torch = torch

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        name = str(self.tensor.dtype).removeprefix("torch.")
        return np.dtype(name) if name != "bfloat16" else np.dtype("bfloat16")  # ml_dtypes has registered it

    def reshape(self, shape: tuple[int, ...]) -> TorchArray:
        """The same values in another shape."""
        return TorchArray(self._torch, self.tensor.reshape(shape), shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = to_array(self._torch, self.tensor)
        return values if dtype is None else values.astype(dtype)


class NeuronBackend(CompiledKernels):
    """Runs kernels on a NeuronCore by PyTorch NeuronX; what libraries print goes to standard error."""

    way = "torch_neuronx"
    compiler_flags = tuple(COMPILER_ARGUMENTS)

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        self._resident: dict[int, Any] = {}
        with standard_output_to(2):
            self._torch, self._torch_neuronx = load_packages()

    def _compile(self, job: Job, workdir: Path, log: Path) -> Compiled:
        tensors = [to_tensor(self._torch, np.zeros(operand.shape, np.dtype(operand.dtype))) for operand in job.operands]
        try:
            with log.open("wb") as output, standard_output_to(output.fileno()):
                module = compile_kernel(self._torch, self._torch_neuronx, job.kernel, tensors, job.parameters, workdir)
        except CompileError as error:
            raise CompilerFailed(str(error)) from error.__cause__

        def write(folder: Path) -> None:
            self._torch.jit.save(module, str(folder / _MODULE_FILE))
            neffs = sorted(workdir.rglob("*.neff"))  # named with a hash (nrtpy-troubleshooting.rst)
            if len(neffs) == 1:
                shutil.copyfile(neffs[0], folder / NEFF)

        return Compiled(write, lambda: self._placed(module))

    def _load(self, job: Job, folder: Path) -> Any:
        with standard_output_to(2):
            return self._placed(self._torch.jit.load(str(folder / _MODULE_FILE)))

    def _placed(self, module: Any) -> Any:
        with standard_output_to(2):
            self._torch_neuronx.move_trace_to_device(module, 0)
        return module

    def _call(self, executable: Executable, arrays: Sequence[Any]) -> tuple[tuple[TorchArray, ...], float]:
        """Reading a result waits for it: AWS does not say that a call on the device's tensors does."""
        name = executable.job.source.name
        with standard_output_to(2):
            try:
                tensors = [self._tensor(array) for array in arrays]
                start = time.perf_counter()
                returned = executable.loaded(*tensors)
                several = returned if isinstance(returned, (tuple, list)) else (returned,)
                if not all(on_neuron_core(output) for output in several):
                    place = several[0].device
                    raise DeviceLost(f"{name}: its result is on {place}, so it did not run on the NeuronCore")
                several[-1].cpu()
                took = (time.perf_counter() - start) * 1e6
            except DeviceLost:
                raise
            except (RuntimeError, OSError) as error:  # RuntimeError: what PyTorch raises for the runtime's errors
                raise runtime_error(name, error) from error
        return tuple(TorchArray(self._torch, output, tuple(output.shape)) for output in several), took

    def _tensor(self, array: Any) -> Any:
        if isinstance(array, TorchArray):
            return array.tensor
        if array.flags.writeable:
            return to_tensor(self._torch, array).to(DEVICE)
        if id(array) not in self._resident:
            self._resident[id(array)] = to_tensor(self._torch, array).to(DEVICE)
            weakref.finalize(array, self._resident.pop, id(array), None)
        return self._resident[id(array)]

    def _device_time(self, executable: Executable, arrays: Sequence[Any]) -> DeviceTime:
        raise DeviceTimingError("PyTorch NeuronX tells none")


def open_neuron_backend(
    target: str | None = None,
    *,
    warmup: int = DEFAULT_WARMUP,
    iterations: int = DEFAULT_ITERATIONS,
    nrtpy: str | None = None,
    device_times: bool = False,
    count: bool = True,
    progress: Note = lambda message: None,
    warn: Note = warn_user,
) -> CompiledKernels:
    """The backend of this machine's chip; BackendUnavailable with what is missing.

    To be called before AWS's packages are imported: it sets the environment variables that they read.
    Without a target, NEURON_PLATFORM_TARGET_OVERRIDE decides, else the kind of this instance, else trn2 is assumed (and
    NKI left to find out). `nrtpy` names the environment with nrtpy where it is not this one. With `device_times` each
    kernel's time on the NeuronCore alone is measured too, by tracing on the device. With `count` the simulator
    counts flops and bytes.
    """
    python = named_python(nrtpy)
    found = environment.find_way(python is not None)
    if found.way is None:
        raise BackendUnavailable(
            f"backend 'neuron' is not available: {'; '.join(found.missing)} ({environment.INSTALL_HINT})"
        )
    named = target or os.environ.get(TARGET_VARIABLE) or instance_target()
    if named is None:
        warn("neuron-ls does not tell the kind of this instance; times are labelled trn2 (--target names another)")
    chosen = resolve_target(named)
    prepare_environment(chosen, named is not None, os.environ)
    options: dict[str, Any] = {
        "warmup": warmup,
        "iterations": iterations,
        "device_times": device_times,
        "cache": CompileCache(cache_folder(), warn),
        "progress": progress,
        "warn": warn,
    }
    try:
        nki_source.use_nki("sim" if found.way == "nrtpy" else "neuron")
    except RuntimeError as error:
        raise BackendUnavailable(f"backend 'neuron' is not available: {error}") from error
    if found.way == "nrtpy":
        from .nrt import open_nrt

        return open_nrt(chosen, python, **options)
    counter = LazyCounter(lambda: SimulatorBeside(chosen)) if count else None
    return NeuronBackend(chosen, counter=counter, **options)
