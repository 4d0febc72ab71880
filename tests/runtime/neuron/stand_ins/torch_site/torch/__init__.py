"""A stand-in for the parts of PyTorch with the device `neuron` that trninfer uses: tensors over NumPy, copies, and the
clock.

It is as strict as PyTorch and the device: a tensor on `neuron` can only be copied, moved and viewed; NumPy cannot
access it or any bfloat16 tensor; buffers must be writable. The device is asynchronous: the host sees the results of a
kernel after `torch.neuron.synchronize()` or a copy. STAND_IN_TORCH injects a fault: "cpu" (a different accelerator),
"stays" (tensors stay on the CPU), "library" (a shared library is missing), "copy" (the device is lost during a copy).
"""

import os
import time
import warnings
from types import SimpleNamespace

import ml_dtypes
import numpy as np

__version__ = "2.14.0"
FAULT = os.environ.get("STAND_IN_TORCH", "")
if FAULT == "library":
    raise OSError("libnrt.so.1: cannot open shared object file: No such file or directory")


class dtype:  # noqa: N801 (PyTorch's name)
    def __init__(self, name: str, numpy_type) -> None:
        self.name = name
        self.numpy_type = np.dtype(numpy_type)

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float32 = dtype("float32", np.float32)
float16 = dtype("float16", np.float16)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16)
int32 = dtype("int32", np.int32)
uint8 = dtype("uint8", np.uint8)
_DTYPES = (float32, float16, bfloat16, int32, uint8)


class device:  # noqa: N801 (PyTorch's name)
    def __init__(self, name: str) -> None:
        self.type, _, index = name.partition(":")
        self.index = int(index) if index else None

    def __repr__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """`pending` is the work that the device must finish before the host sees the values."""

    def __init__(self, array: np.ndarray, where: str = "cpu") -> None:
        self._array = array
        self.device = device(where)

    @property
    def dtype(self) -> dtype:
        return next(known for known in _DTYPES if known.numpy_type == self._array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    def to(self, where: str) -> "Tensor":
        assert where == "neuron", "the documented device"
        _lose()
        place = "cpu" if FAULT == "stays" else "neuron:0"
        return Tensor(self._array.copy(), place)

    def cpu(self) -> "Tensor":
        neuron.synchronize()
        return Tensor(self._array.copy())

    def copy_(self, source: "Tensor") -> "Tensor":
        assert source.shape == self.shape and source.dtype is self.dtype
        _lose()
        self._array[...] = source._array
        return self

    def view(self, form) -> "Tensor":
        if isinstance(form, dtype):
            self._host("view as another dtype")
            assert self._array.ndim
            return Tensor(self._array.view(form.numpy_type))
        assert all(isinstance(size, int) for size in form)
        return Tensor(self._array.reshape(form), str(self.device))

    def contiguous(self) -> "Tensor":
        self._host("contiguous")
        return self

    def reshape(self, form) -> "Tensor":
        self._host("reshape")
        return Tensor(self._array.reshape(form))

    def numpy(self) -> np.ndarray:
        self._host("numpy")
        if self.dtype is bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array

    def _host(self, operator: str) -> None:
        if self.device.type != "cpu":
            raise TypeError(f"{operator} on {self.device}: it may run on the CPU")


def _lose() -> None:
    if FAULT == "copy":
        raise RuntimeError("nrt_tensor_write failed: NRT_EXEC_HW_ERR_HBM_UE(1204)")


def empty(size, dtype) -> Tensor:
    return Tensor(np.empty(size, dtype.numpy_type))


def zeros(size, dtype) -> Tensor:
    return Tensor(np.zeros(size, dtype.numpy_type))


def frombuffer(buffer, *, dtype) -> Tensor:
    if not len(buffer):
        raise ValueError("both buffer length (0) and count (-1) must not be 0")
    if memoryview(buffer).readonly:
        warnings.warn("The given buffer is not writable", UserWarning, stacklevel=2)
    return Tensor(np.frombuffer(buffer, dtype.numpy_type))


def _current_accelerator():
    return device("cuda" if FAULT == "cpu" else "neuron")


class _Neuron:
    """torch.neuron. `queue` contains the work that the device has not finished."""

    def __init__(self) -> None:
        self.queue: list = []

    def synchronize(self) -> None:
        while self.queue:
            time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))  # time for the device's work
            self.queue.pop(0)()


neuron = _Neuron()
accelerator = SimpleNamespace(current_accelerator=_current_accelerator)
