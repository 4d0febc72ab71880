"""The main way to the chip, without a framework: NKI makes a NEFF of a kernel, nrtpy runs it.

    compile_worker   a process that calls the kernel with NumPy arrays: a NEFF, into the cache
    device_worker    a process that loads NEFFs and holds the NeuronCore; weights are uploaded to it once, each batch
                     is written into a resident tensor, outputs have their memory already and are read when asked for

This process loads neither: its kernels have the simulator's `nki`, which tells the shapes of what they return, counts
flops and bytes, and gives the prediction beside which a measurement stands. Calling `kernel(numpy...)` in a loop is not
a way to run: each call loads the NEFF again.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import simulator
from ..backend import BackendUnavailable, LaunchTime
from ..child_python import python_command
from ..simulated import SimulatedBackend
from .compile_worker import ARTIFACTS
from .compiled import NEFF, Compiled, CompiledKernels, CompilerFailed, Executable, Job
from .device import Device, DeviceArray, DeviceFaultError, LoadedNeff
from .device_time import DeviceTime, DeviceTimingError
from .device_worker import array_type
from .errors import first_useful_line, runtime_error

_COMPILE_SECONDS = 3600


@dataclass(frozen=True)
class _Loaded:
    """A NEFF on the device, what its inputs are called, in order, and what it gives."""

    model: LoadedNeff
    names: tuple[str, ...]
    results: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]


class NrtBackend(CompiledKernels):
    """Runs kernels on the NeuronCore that `device` holds."""

    way = "nrtpy"

    def __init__(self, target: str, device: Device, **options: Any) -> None:
        self._simulated = SimulatedBackend(target)
        super().__init__(target, counter=self._counted, **options)
        self._device = device
        self._resident: dict[int, int] = {}  # tensors of arrays that nobody may write to, by the arrays' identity
        self._inputs: dict[tuple[int, int], int] = {}  # tensors for the others, by executable and position

    def _counted(self, kernel: Any, *operands: Any, **parameters: Any) -> LaunchTime:
        return self._simulated.time(kernel, *operands, **parameters).time

    def _compile(self, job: Job, workdir: Path, log: Path) -> Compiled:
        artifacts = workdir / "artifacts"
        artifacts.mkdir()
        if job.source.module is None:
            raise CompilerFailed("a kernel must stand in a module, by its own name, so that another process finds it")
        description = {
            "module": job.source.module,
            "file": job.source.file,
            "kernel": job.source.name,
            "operands": [[list(operand.shape), np.dtype(operand.dtype).name] for operand in job.operands],
            "parameters": repr(job.parameters),
        }
        command = python_command(f"{__package__}.compile_worker", "main")
        with log.open("wb") as output:
            try:
                done = subprocess.run(
                    command,
                    input=json.dumps(description).encode(),
                    stdout=output,
                    stderr=output,
                    env={**os.environ, ARTIFACTS: str(artifacts)},
                    timeout=_COMPILE_SECONDS,
                )
            except subprocess.TimeoutExpired:
                raise CompilerFailed(f"no NEFF within {_COMPILE_SECONDS} s") from None
        found = sorted(artifacts.rglob("*.neff"))
        chosen = [neff for neff in found if neff.name == NEFF] or found
        if done.returncode != 0 or len(chosen) != 1:
            said = log.read_text(encoding="utf-8", errors="replace")
            left = "" if done.returncode else f"it left {len(chosen)} NEFFs where one is expected"
            raise CompilerFailed(left or said)

        def write(folder: Path) -> None:
            shutil.copyfile(chosen[0], folder / NEFF)

        return Compiled(write, lambda: self._loaded(job, chosen[0]))

    def _load(self, job: Job, folder: Path) -> _Loaded:
        return self._loaded(job, folder / NEFF)

    def _loaded(self, job: Job, neff: Path) -> _Loaded:
        model = self._device.load(neff)
        names = tuple(inspect.signature(job.kernel.function).parameters)[: len(job.operands)]
        results = self._results(job)
        sizes = {name: _bytes(operand) for name, operand in zip(names, job.operands)}
        if model.inputs != sizes:
            raise DeviceFaultError(f"the NEFF takes {model.inputs} (name: bytes), the kernel {sizes}")
        if list(model.outputs.values()) != [int(np.prod(shape)) * dtype.itemsize for shape, dtype in results]:
            raise DeviceFaultError(f"the NEFF gives {model.outputs} (name: bytes), the kernel {results}")
        for name, (_, dtype) in zip(model.outputs, results):
            if model.dtypes.get(name, dtype.name) != dtype.name:
                raise DeviceFaultError(f"the NEFF gives {name} as {model.dtypes[name]}, the kernel as {dtype.name}")
        return _Loaded(model, names, results)

    def _results(self, job: Job) -> tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]:
        """Shape and dtype of what a kernel returns, by the simulator: nrtpy tells no dtypes of outputs."""
        returned: list[Any] = []

        def noting(*tensors: Any, **parameters: Any) -> Any:
            result = job.kernel.function(*tensors, **parameters)
            returned.extend(result if isinstance(result, (tuple, list)) else [result])
            return result

        specs = [simulator.TensorSpec(tuple(o.shape), np.dtype(o.dtype).name) for o in job.operands]
        simulator.run(noting, *specs, target=job.target, functional=False, **job.parameters)
        return tuple((tuple(tensor.shape), array_type(tensor.dtype)) for tensor in returned)

    def _call(self, executable: Executable, arrays: Sequence[Any]) -> tuple[tuple[DeviceArray, ...], float]:
        loaded: _Loaded = executable.loaded
        try:
            tensors = self._tensors(executable, arrays)
            outputs, took = loaded.model.run(tensors, loaded.names, loaded.results)
        except DeviceFaultError as error:
            raise runtime_error(executable.job.source.name, error) from error
        return outputs, took[0]

    def _device_time(self, executable: Executable, arrays: Sequence[Any]) -> DeviceTime:
        loaded: _Loaded = executable.loaded
        try:
            tensors = self._tensors(executable, arrays)
            outputs, _ = loaded.model.run(tensors, loaded.names, loaded.results)
            took = loaded.model.benchmark(tensors, loaded.names, outputs, self._warmup, self._iterations)
        except DeviceFaultError as error:
            raise DeviceTimingError(f"nrtpy: {first_useful_line(str(error))}") from error
        if len(took) != self._iterations:  # a NEFF of several subgraphs gives several events an execution
            raise DeviceTimingError(f"nrtpy: {len(took)} device events for {self._iterations} executions")
        return DeviceTime(float(np.percentile(took, 50)), float(np.percentile(took, 99)))

    def _tensors(self, executable: Executable, arrays: Sequence[Any]) -> list[int]:
        """The tensors of operands, with the operands' values."""
        return [self._tensor(id(executable), position, array) for position, array in enumerate(arrays)]

    def _tensor(self, executable: int, position: int, array: Any) -> int:
        if isinstance(array, DeviceArray):
            return array.tensor
        if not array.flags.writeable:
            if id(array) not in self._resident:
                tensor = self._device.put(array)
                self._resident[id(array)] = tensor
                weakref.finalize(array, self._forget, id(array))
            return self._resident[id(array)]
        place = (executable, position)
        if place in self._inputs:
            self._device.write(self._inputs[place], array)
        else:
            self._inputs[place] = self._device.put(array)
        return self._inputs[place]

    def _forget(self, identity: int) -> None:
        self._device.free(self._resident.pop(identity))


def open_nrt(target: str, python: Path | None, **options: Any) -> NrtBackend:
    """The backend on this machine's chip; BackendUnavailable where nrtpy or the NeuronCore cannot be had."""
    device = Device(python)
    try:
        device.hello()
    except DeviceFaultError as error:
        raise BackendUnavailable(f"backend 'neuron' is not available: {first_useful_line(str(error))}") from error
    return NrtBackend(target, device, **options)


def _bytes(operand: Any) -> int:
    return int(np.prod(operand.shape)) * np.dtype(operand.dtype).itemsize
