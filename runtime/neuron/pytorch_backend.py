"""The second way to the chip: kernels compiled, loaded and called by PyTorch NeuronX (SDK 2.31 and before)."""

from __future__ import annotations

import shutil
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .compiled import NEFF, Compiled, CompiledKernels, CompilerFailed, Executable, Job
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


class PyTorchBackend(CompiledKernels):
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
