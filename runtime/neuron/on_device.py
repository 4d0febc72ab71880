"""Kernels on the NeuronCore that a process holds: operands that stay there, and what becomes of them when it ends."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ..backend import LaunchResult
from .compiled import CompiledKernels, Executable, Operands, RunOptions
from .device import Device, DeviceArray, DeviceFaultError, DeviceTimeoutError
from .errors import DeviceLost, runtime_error

NOT_ON_CORE = "NotOnNeuronCore"  # what torch_worker raises for a result that came back on the CPU


class OnDevice(CompiledKernels):
    """Runs kernels on the NeuronCore that `device` holds. Operands that nobody may write to stay there; the others have
    a tensor for each parameter that they are passed for, which gets their values."""

    def __init__(self, target: str, device: Device, options: RunOptions | None = None) -> None:
        super().__init__(target, options)
        self._device = device
        self._start = 0  # of the process that holds what follows
        self._resident: dict[int, int] = {}  # tensors of arrays that nobody may write to, by the arrays' identity
        self._inputs: dict[tuple[int, str], int] = {}  # tensors for the others, by executable and name

    @abstractmethod
    def _execute(
        self, executable: Executable, tensors: Mapping[str, tuple[int, Any]]
    ) -> tuple[tuple[DeviceArray, ...], float]:
        """Execute once on operands by name, each a tensor and the array whose values it has; DeviceFaultError for what
        is raised on the device."""

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """See `CompiledKernels.launch`. What was on a process that has ended is loaded again."""
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
        """Start a new process in place of the one that holds the NeuronCore, so that what failed there is over.

        BackendUnavailable where the core cannot be had any more.
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
    """Return what an error in the process on the NeuronCore means for the user, while a kernel ran there."""
    if error.kind == NOT_ON_CORE:
        return DeviceLost(f"{name}: {error.text}")
    return runtime_error(name, error)
