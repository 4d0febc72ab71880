"""The second way of using the chip, without a framework: NKI compiles a kernel to a NEFF, and nki.runtime executes it.

    compile_worker   a process that calls the kernel with NumPy arrays and saves the NEFF in the cache
    nrt_worker       a process that loads NEFFs and owns the NeuronCore; weights are uploaded to it once, each batch
                     is written into a resident tensor, and outputs are preallocated and read on request

Calling `kernel(numpy...)` in a loop is unsuitable for running kernels, since each call loads the NEFF again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import BackendUnavailable
from .compiled import CompiledKernel, Executable, KernelEstimate, Operands, Results, RunOptions
from .device import EXECUTION_SECONDS, Device, DeviceArray, DeviceFaultError, Lease, nrt_device
from .device_time import DeviceTime, DeviceTimingError, capture_profile
from .environment import NRT
from .errors import first_useful_line
from .jobs import Job
from .neff import NEFF, compile_neff
from .on_device import OnDevice


class LoadedNeff:
    """A loaded NEFF.

    `inputs` and `outputs` map names to sizes in bytes, with the outputs in the order of the kernel. `dtypes` are the
    dtypes of the outputs, if the runtime reports them. `results` describes the results of the kernel.
    """

    def __init__(self, device: Device, answer: Mapping[str, Any], results: Results) -> None:
        self.number: int = answer["model"]
        self.inputs: dict[str, int] = answer["inputs"]
        self.outputs: dict[str, int] = dict(sorted(answer["outputs"].items(), key=lambda item: _ending(item[0])))
        self.dtypes: dict[str, str] = answer["dtypes"]
        self._results = results
        self._device = device
        self._spare: list[tuple[int, ...]] = []

    def run(self, tensors: Mapping[str, int]) -> tuple[tuple[DeviceArray, ...], float]:
        """Execute the NEFF on tensors, and return the outputs and the time in microseconds.

        The memory of outputs is reused when there are no more references to them.
        """
        sets = self._spare.pop() if self._spare else tuple(self._device.blank(*result) for result in self._results)
        answer = self._device.ask("run", **self._operands(tensors, sets), limit=EXECUTION_SECONDS)
        lease = Lease(_giver_back(self._spare, sets))
        outputs = tuple(
            DeviceArray(tensor, shape, dtype, self._device, lease)
            for tensor, (shape, dtype) in zip(sets, self._results)
        )
        return outputs, float(answer["us"][0])

    def benchmark(
        self, tensors: Mapping[str, int], outputs: Sequence[DeviceArray], warmup: int, iterations: int
    ) -> tuple[list[float], float | None]:
        """Return the microseconds that each of `iterations` executions takes on the NeuronCore only, after `warmup`
        untimed executions, and their mean if the runtime returns only the mean."""
        operands = self._operands(tensors, [output.tensor for output in outputs])
        answer = self._device.ask("benchmark", **operands, warmup=warmup, iterations=iterations)
        return answer["us"], answer["mean_us"]

    def _operands(self, tensors: Mapping[str, int], outputs: Sequence[int]) -> dict[str, Any]:
        return {
            "model": self.number,
            "inputs": {name: tensors[name] for name in self.inputs},
            "outputs": dict(zip(self.outputs, outputs, strict=True)),
        }


class NrtBackend(OnDevice):
    """A backend that runs kernels through nki.runtime on the NeuronCore that `device` owns."""

    way = NRT

    def _compile(self, job: Job, walked: KernelEstimate, workdir: Path, log: Path) -> CompiledKernel:
        neff = compile_neff(job, log, self._options.compile_seconds, self._still_compiling(job))

        def write(folder: Path) -> None:
            shutil.copyfile(neff.path, folder / NEFF)

        return CompiledKernel(
            write, lambda: self._loaded(job, walked.results, neff.path), neff.seconds, neff.peak_bytes
        )

    def _load(self, job: Job, walked: KernelEstimate, folder: Path) -> LoadedNeff:
        return self._loaded(job, walked.results, folder / NEFF)

    def _loaded(self, job: Job, results: Results, neff: Path) -> LoadedNeff:
        model = LoadedNeff(self._device, self._device.ask("load", path=str(neff)), results)
        sizes = {name: _bytes(operand) for name, operand in job.operands.items()}
        if not model.inputs.items() <= sizes.items():  # the compiler removes unused operands
            raise DeviceFaultError(
                "Inputs", f"the NEFF has the inputs {model.inputs} (name: bytes), but the kernel has {sizes}"
            )
        if list(model.outputs.values()) != [int(np.prod(shape)) * dtype.itemsize for shape, dtype in results]:
            raise DeviceFaultError(
                "Results", f"the NEFF has the outputs {model.outputs} (name: bytes), but the kernel has {results}"
            )
        for name, (_, dtype) in zip(model.outputs, results):
            if model.dtypes.get(name, dtype.name) != dtype.name:
                text = f"the dtype of {name} is {model.dtypes[name]} in the NEFF, but {dtype.name} in the kernel"
                raise DeviceFaultError("Results", text)
        return model

    def _tensors(self, executable: Executable) -> dict[str, Any]:
        loaded: LoadedNeff = executable.loaded
        return {"inputs": loaded.inputs, "outputs": loaded.outputs, "dtypes": loaded.dtypes}

    def _execute(
        self, executable: Executable, tensors: Mapping[str, tuple[int, Any]]
    ) -> tuple[tuple[DeviceArray, ...], float]:
        loaded: LoadedNeff = executable.loaded
        return loaded.run({name: tensor for name, (tensor, _) in tensors.items()})

    def _device_time(self, executable: Executable, operands: Operands) -> DeviceTime:
        """Return the time traced by the runtime or, if there is none, the time that `neuron-explorer capture` measures
        with the same inputs."""
        try:
            return self._benchmarked(executable, operands)
        except DeviceTimingError as error:
            reason = str(error)
        if executable.neff is None:
            raise DeviceTimingError(f"{reason}; {NEFF} is not in the cache, so neuron-explorer cannot read it")
        loaded: LoadedNeff = executable.loaded
        try:
            return capture_profile(executable.neff, {name: np.asarray(operands[name]) for name in loaded.inputs})
        except DeviceTimingError as error:
            raise DeviceTimingError(f"{reason}; {error}") from None

    def _benchmarked(self, executable: Executable, operands: Operands) -> DeviceTime:
        loaded: LoadedNeff = executable.loaded
        options = self._options
        try:
            tensors = {name: tensor for name, (tensor, _) in self._tensors_of(executable, operands).items()}
            outputs, _ = loaded.run(tensors)
            took, mean = loaded.benchmark(tensors, outputs, options.warmup, options.iterations)
        except DeviceFaultError as error:
            raise DeviceTimingError(f"{NRT}: {first_useful_line(str(error))}") from error
        if mean is not None:
            return DeviceTime(mean, None, f"{NRT}, mean")
        if len(took) != options.iterations:  # a NEFF with several subgraphs yields several events per execution
            raise DeviceTimingError(f"{NRT}: {len(took)} device events for {options.iterations} executions")
        return DeviceTime(float(np.percentile(took, 50)), float(np.percentile(took, 99)), NRT)


def open_nrt(target: str, options: RunOptions) -> NrtBackend:
    """Return the backend for this machine's chip.

    Raise BackendUnavailable if nki.runtime or the core is not available.
    """
    device = nrt_device()
    try:
        device.hello()
    except DeviceFaultError as error:
        raise BackendUnavailable(f"backend 'neuron' is not available: {first_useful_line(str(error))}") from error
    return NrtBackend(target, device, options)


def _giver_back(spare: list[tuple[int, ...]], sets: tuple[int, ...]) -> Callable[[], None]:
    return lambda: spare.append(sets)


def _ending(name: str) -> tuple[int, str]:
    """Return a sort key for an output, because the runtime does not define the order of outputs: the number at the end
    of its name (output_0 in tutorial-debug-neff-nrtpy.rst)."""
    digits = name[len(name.rstrip("0123456789")) :]
    return (int(digits) if digits else 0, name)


def _bytes(operand: Any) -> int:
    return int(np.prod(operand.shape)) * np.dtype(operand.dtype).itemsize
