"""Runs kernels on a NeuronCore in another process: operands stay there, and are restored when that process ends."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ..backend import LaunchResult
from .compiled import CompiledKernels, Executable, Operands, RunOptions
from .device import Device, DeviceArray, DeviceFaultError, DeviceTimeoutError
from .errors import DeviceLost, runtime_error

NOT_ON_CORE = "NotOnNeuronCore"  # raised by torch_worker for a result on the CPU


class OnDevice(CompiledKernels):
    """Runs kernels on the NeuronCore that `device` holds. Read-only operands stay on the device; each other operand has
    one tensor for each parameter, which is overwritten."""

    def __init__(self, target: str, device: Device, options: RunOptions | None = None) -> None:
        super().__init__(target, options)
        self._device = device
        self._start = 0  # the start of the process that holds the tensors below
        self._resident: dict[int, int] = {}  # tensors of read-only arrays, by the array's identity
        self._inputs: dict[tuple[int, str], int] = {}  # tensors of other operands, by executable and name

    @abstractmethod
    def _execute(
        self, executable: Executable, tensors: Mapping[str, tuple[int, Any]]
    ) -> tuple[tuple[DeviceArray, ...], float]:
        """Execute once on operands by name, each a tensor and the array with its values; DeviceFaultError for an
        exception on the device."""

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """See `CompiledKernels.launch`. Tensors and kernels of a process that has ended are loaded again."""
        start = self._device.start()
        if start != self._start:
            self._executables.clear()
            self._resident.clear()
            self._inputs.clear()
            self._start = start
        return super().launch(kernel, *arrays, **parameters)

    def close(self) -> None:
        """End the process that holds the NeuronCore."""
        self._device.close()

    def restart(self) -> None:
        """Replace the process that holds the NeuronCore, to recover from a failure there.

        BackendUnavailable if the core is no longer available.
        """
        self._device.end()
        self._device.hello()

    def _call(self, executable: Executable, operands: Operands) -> tuple[tuple[DeviceArray, ...], float]:
        try:
            return self._execute(executable, self._tensors_of(executable, operands))
        except DeviceFaultError as error:
            raise fault(executable.job.source.name, error) from error
        except DeviceTimeoutError as error:
            raise DeviceLost(f"{executable.job.source.name}: {error}; its process was ended") from error

    def _tensors_of(self, executable: Executable, operands: Operands) -> dict[str, tuple[int, Any]]:
        """Return each operand's tensor, with the operand's values in it, and the operand."""
        return {name: (self._tensor(id(executable), name, array), array) for name, array in operands.items()}

    def _tensor(self, executable: int, name: str, array: Any) -> int:
        if isinstance(array, DeviceArray):
            if not array.is_there:
                raise DeviceLost("an operand was on a NeuronCore whose process has ended")
            return array.tensor
        if not array.flags.writeable:
            if id(array) not in self._resident:
                self._resident[id(array)] = self._device.put(array)
                weakref.finalize(array, self._forget, id(array))
            return self._resident[id(array)]
        place = (executable, name)
        if place in self._inputs:
            self._device.write(self._inputs[place], array)
        else:
            self._inputs[place] = self._device.put(array)
        return self._inputs[place]

    def _forget(self, identity: int) -> None:
        tensor = self._resident.pop(identity, None)
        if tensor is not None:
            self._device.free(tensor, self._start)


def fault(name: str, error: DeviceFaultError) -> Exception:
    """Return the error to raise for an error in the device's process while a kernel ran there."""
    if error.kind == NOT_ON_CORE:
        return DeviceLost(f"{name}: {error.text}")
    return runtime_error(name, error)
