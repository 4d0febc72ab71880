"""Run kernels on a NeuronCore through another process, which keeps the operands.

If that process ends, the operands are restored.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from ..backend import LaunchResult
from .compiled import CompiledKernels, Executable, Operands, RunOptions
from .device import Device, DeviceArray, DeviceFaultError, DeviceTimeoutError
from .errors import DeviceLost, runtime_error

NOT_ON_CORE = "NotOnNeuronCore"  # raised by torch_worker if a result is on the CPU


class OnDevice(CompiledKernels):
    """A backend that runs kernels on the NeuronCore that `device` owns.

    Read-only operands stay on the device. For each parameter with other operands, there is one tensor, which every call
    overwrites.
    """

    def __init__(self, target: str, device: Device, options: RunOptions | None = None) -> None:
        super().__init__(target, options)
        self._device = device
        self._start = 0  # number of the process that stores the tensors below
        self._resident: dict[int, int] = {}  # tensors of read-only arrays, by the array's identity
        self._inputs: dict[tuple[int, str], int] = {}  # tensors of other operands, by executable and name

    @abstractmethod
    def _execute(
        self, executable: Executable, tensors: Mapping[str, tuple[int, Any]]
    ) -> tuple[tuple[DeviceArray, ...], float]:
        """Execute the kernel once on operands, keyed by name.

        Each operand is a pair: a tensor, and the array that contains its values. Raise DeviceFaultError if there is an
        exception on the device.
        """

    def launch(self, kernel: Any, *arrays: Any, **parameters: Any) -> LaunchResult:
        """See `CompiledKernels.launch`. If the process has ended, its tensors and kernels are loaded again."""
        start = self._device.start()
        if start != self._start:
            self._executables.clear()
            self._resident.clear()
            self._inputs.clear()
            self._start = start
        return super().launch(kernel, *arrays, **parameters)

    def close(self) -> None:
        """Terminate the process that owns the NeuronCore."""
        self._device.close()

    def restart(self) -> None:
        """Replace the process that owns the NeuronCore, to recover from a failure in it.

        Raises BackendUnavailable if the core is no longer available.
        """
        self._device.end()
        self._device.hello()

    def _call(self, executable: Executable, operands: Operands) -> tuple[tuple[DeviceArray, ...], float]:
        try:
            return self._execute(executable, self._tensors_of(executable, operands))
        except DeviceFaultError as error:
            raise fault(executable.job.source.name, error) from error
        except DeviceTimeoutError as error:
            raise DeviceLost(f"{executable.job.source.name}: {error}; its process was stopped") from error

    def _tensors_of(self, executable: Executable, operands: Operands) -> dict[str, tuple[int, Any]]:
        """Return a pair for each operand, keyed by name: a tensor that contains its values, and the operand itself."""
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
        key = (executable, name)
        if key in self._inputs:
            self._device.write(self._inputs[key], array)
        else:
            self._inputs[key] = self._device.put(array)
        return self._inputs[key]

    def _forget(self, identity: int) -> None:
        tensor = self._resident.pop(identity, None)
        if tensor is not None:
            self._device.free(tensor, self._start)


def fault(name: str, error: DeviceFaultError) -> Exception:
    """Return the exception to raise for an error that occurred in the device's process while it ran a kernel."""
    if error.kind == NOT_ON_CORE:
        return DeviceLost(f"{name}: {error.text}")
    return runtime_error(name, error)
