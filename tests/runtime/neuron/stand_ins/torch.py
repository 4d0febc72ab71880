"""Stands in for PyTorch where the Neuron backend touches it: CPU tensors over NumPy, modules, and `torch.jit`.

As strict as PyTorch is: NumPy's bfloat16 is refused both ways, views keep the width of an element.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import ml_dtypes
import numpy as np


class dtype:  # noqa: N801 (PyTorch's name)
    def __init__(self, name: str, numpy_type) -> None:
        self.name = name
        self.numpy_type = np.dtype(numpy_type)

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float32 = dtype("float32", np.float32)
float16 = dtype("float16", np.float16)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
_DTYPES = (float32, float16, bfloat16, int16, int32)


class Tensor:
    """Holds an array; `device` is where it is said to be."""

    def __init__(self, array: np.ndarray, device: str = "cpu") -> None:
        self._array = array
        self.device = device

    @property
    def dtype(self) -> dtype:
        return next(known for known in _DTYPES if known.numpy_type == self._array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        if self.device != "cpu":
            sys.modules["torch_neuronx"].control.synchronise()
        return Tensor(self._array)

    def to(self, device: str) -> Tensor:
        assert device == "neuron:0", "the only device that is documented"
        return Tensor(self._array.copy(), device)

    def reshape(self, shape) -> Tensor:
        return Tensor(self._array.reshape(shape), self.device)

    def view(self, to: dtype) -> Tensor:
        assert to.numpy_type.itemsize == self._array.dtype.itemsize
        return Tensor(self._array.view(to.numpy_type), self.device)

    def numpy(self) -> np.ndarray:
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy")
        if self.dtype is bfloat16:
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._array


def from_numpy(array: np.ndarray) -> Tensor:
    if not any(known.numpy_type == array.dtype and known is not bfloat16 for known in _DTYPES):
        raise TypeError(f"can't convert np.ndarray of type {array.dtype}")
    if not array.flags.writeable:
        warnings.warn("The given NumPy array is not writable", UserWarning, stacklevel=2)
    return Tensor(array)


class Module:
    training = True

    def eval(self) -> Module:
        self.training = False
        return self

    def __call__(self, *inputs):
        return self.forward(*inputs)


nn = SimpleNamespace(Module=Module)


def _save(m, f) -> None:
    """The compiled module as a token that `load` knows in this process; in others it gives zeros of its shapes."""
    neuron = sys.modules["torch_neuronx"]
    assert isinstance(m, neuron.ScriptModule) and isinstance(f, str)
    if neuron.control.save_error is not None:
        Path(f).write_bytes(b"half of a file")
        raise RuntimeError(neuron.control.save_error)
    neuron.control.saved[str(id(m))] = m
    Path(f).write_text(json.dumps({"token": str(id(m)), "inputs": m.inputs, "outputs": m.outputs}))


def _load(f, map_location=None):
    neuron = sys.modules["torch_neuronx"]
    neuron.control.loads += 1
    try:
        record = json.loads(Path(f).read_text())
    except ValueError:
        raise RuntimeError("PytorchStreamReader failed reading zip archive: failed finding central directory") from None
    known = neuron.control.saved.get(record["token"])
    return known or neuron.ScriptModule(None, record["inputs"], record["outputs"])


jit = SimpleNamespace(save=_save, load=_load)
