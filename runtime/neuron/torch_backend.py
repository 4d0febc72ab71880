"""The first way of using the chip: TorchNeuron (torch-neuronx 2.13 or newer), whose device is `neuron`.

    torch_worker   a process that loads torch, torch_neuronx and nki, and owns the NeuronCore; weights, constants and
                   batches are tensors on `neuron`, and a jitted kernel is called with them

The first call with tensors of certain shapes and dtypes, and with certain other arguments, compiles the kernel
(aws-neuron-sdk, torch/guides/how-to-work-with-nki). TorchNeuron saves compiled kernels in a folder within trninfer's
cache.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import environment
from .compile_cache import Slot
from .compiled import CompiledKernel, Executable, KernelEstimate, Operands, Results, RunOptions
from .device import EXECUTION_SECONDS, Device, DeviceArray, DeviceFaultError, DeviceTimeoutError, torch_device
from .device_time import DeviceTime, DeviceTimingError, capture_profile, find_profile, view_profile
from .errors import CompilerFailed, CoreInUse, DeviceLost, ExecutionError, first_useful_line, is_of_runtime
from .jobs import Job, array_type, form
from .neff import NEFF, describe_neff
from .on_device import NOT_ON_CORE, OnDevice, fault
from .settings import torch_variables
from .taken import is_taken, taken_line

_MARK = "torchneuron.json"  # present in a cache entry if TorchNeuron has compiled the kernel


@dataclass(frozen=True)
class _LoadedKernel:
    """A kernel that has run once in the process: its number in the process, and the NEFF that TorchNeuron saved."""

    number: int
    tensors: dict[str, Any]
    neff: Path | None


def _failure(job: Job, error: DeviceFaultError, printed: str) -> Exception:
    """Return the exception for a job that failed on the device. `printed` is the output of the compiler."""
    if is_taken(f"{error.text}\n{printed}"):
        return CoreInUse(taken_line(f"{error.text}\n{printed}"))
    if error.kind == NOT_ON_CORE or is_of_runtime(error.text):  # the kernel was compiled and executed
        return fault(job.source.name, error)
    return CompilerFailed(error.text or str(error))


class TorchBackend(OnDevice):
    """A backend that runs kernels through TorchNeuron on the NeuronCore that `device` owns."""

    way = environment.TORCHNEURON

    def _cached(self, job: Job, walked: KernelEstimate, slot: Slot) -> Executable | None:
        """Return None, because TorchNeuron has its own cache.

        An entry in our cache means that TorchNeuron's cache contains the kernel.
        """
        if slot.find() is not None:
            self._options.progress(f"{job.label} has been compiled before; TorchNeuron may take it from its cache")
            slot.discard()  # the entry is recreated
        return None

    def _compile(self, job: Job, walked: KernelEstimate, workdir: Path, log: Path) -> CompiledKernel:
        limit = self._options.compile_seconds
        try:
            answer = self._device.ask(
                "load", job=job.message(), log=str(log), limit=limit, note=self._still_compiling(job)
            )
        except DeviceTimeoutError:
            raise CompilerFailed(f"not compiled within {limit:.0f} s (--compile-timeout)") from None
        except DeviceLost as error:  # the compiler may have crashed together with its process
            raise (CompilerFailed(str(error)) if environment.neuron_devices() else error) from error
        except DeviceFaultError as error:
            printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            raise _failure(job, error, printed) from error
        inputs = {name: form(operand) for name, operand in job.operands.items()}
        tensors = {"inputs": inputs, "outputs": answer["outputs"]}
        neffs = [Path(path) for path in answer["neffs"]]
        loaded = _LoadedKernel(answer["kernel"], tensors, neffs[0] if len(neffs) == 1 else None)

        def write(folder: Path) -> None:
            (folder / _MARK).write_text(json.dumps({**tensors, "neffs": [neff.name for neff in neffs]}), "utf-8")

        return CompiledKernel(write, lambda: loaded, float(answer["seconds"]), int(answer["peak_bytes"]))

    def _load(self, job: Job, walked: KernelEstimate, folder: Path) -> Any:
        raise NotImplementedError  # never reached: `_cached` returns None

    def _compiled(self, job: Job, walked: KernelEstimate, slot: Slot) -> Executable:
        executable = super()._compiled(job, walked, slot)
        returned = _results(executable.loaded.tensors["outputs"])
        if returned != walked.results:
            name = job.source.name
            raise ExecutionError(f"{name}: TorchNeuron returned {returned}; expected {walked.results}")
        executable.neff = executable.loaded.neff
        return executable

    def _tensors(self, executable: Executable) -> dict[str, Any]:
        loaded: _LoadedKernel = executable.loaded
        return {**loaded.tensors, "neff": describe_neff(loaded.neff) if loaded.neff is not None else ""}

    def _execute(
        self, executable: Executable, tensors: Mapping[str, tuple[int, Any]]
    ) -> tuple[tuple[DeviceArray, ...], float]:
        inputs = {name: [tensor, list(array.shape)] for name, (tensor, array) in tensors.items()}
        answer = self._device.ask("run", kernel=executable.loaded.number, inputs=inputs, limit=EXECUTION_SECONDS)
        outputs = tuple(
            DeviceArray(tensor, shape, dtype, self._device, self._device.lease(tensor))
            for tensor, (shape, dtype) in zip(answer["outputs"], executable.walked.results, strict=True)
        )
        return outputs, float(answer["us"])

    def _device_time(self, executable: Executable, operands: Operands) -> DeviceTime:
        """Return the time measured by torch.profiler or, if there is none, by `neuron-explorer capture` of the NEFF."""
        tensors = self._tensors_of(executable, operands)
        inputs = {name: [tensor, list(array.shape)] for name, (tensor, array) in tensors.items()}
        with tempfile.TemporaryDirectory(prefix="trninfer-profile-") as folder:
            try:
                self._device.ask("profile", kernel=executable.loaded.number, inputs=inputs, folder=folder)
                return view_profile(*find_profile(Path(folder)), "torch.profiler")
            except DeviceFaultError as error:
                reason = f"torch.profiler: {first_useful_line(str(error))}"
            except DeviceTimingError as error:
                reason = str(error)
        if executable.neff is None:
            raise DeviceTimingError(f"{reason}; TorchNeuron did not leave exactly one {NEFF} to capture")
        try:
            return capture_profile(executable.neff, {})
        except DeviceTimingError as error:
            raise DeviceTimingError(f"{reason}; {error}") from None


def open_torch(target: str, options: RunOptions) -> TorchBackend:
    """Return the backend for this machine's chip.

    Raise BackendUnavailable if TorchNeuron or the core is not available.
    """
    return TorchBackend(target, _greeted(torch_device(torch_variables(options.cache.folder))), options)


def _greeted(device: Device) -> Device:
    device.hello()
    return device


def _results(forms: Sequence[tuple[Sequence[int], str]]) -> Results:
    return tuple((tuple(shape), np.dtype(array_type(dtype))) for shape, dtype in forms)
