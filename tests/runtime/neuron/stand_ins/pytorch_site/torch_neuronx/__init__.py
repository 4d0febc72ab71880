"""A stand-in for torch_neuronx with the real PyTorch: the device `neuron`, implemented in Python, for copies and views
only.

Any other operator on the device raises PyTorch's own NotImplementedError. As in torch_site, the results of a kernel are
available once the device has finished it.
"""

import ml_dtypes
import nki  # noqa: F401 (torch-neuronx needs it)
import numpy as np
import torch
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

__version__ = "2.14.3.0"


class _Neuron(_DummyBackendModule):
    def __init__(self) -> None:
        self.queue: list = []

    def synchronize(self) -> None:
        while self.queue:
            self.queue.pop(0)()


_setup_privateuseone_for_python_backend("neuron", _Neuron())


class NeuronTensor(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw):
        made = torch._C._acc.create_empty_tensor(raw.shape, raw.dtype)
        made.__class__ = NeuronTensor
        return made

    def __init__(self, raw) -> None:
        self.raw = raw


def _on_device(name):
    return torch.library.impl(name, "privateuseone")


@_on_device("aten::empty_strided")
def _empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return NeuronTensor(torch.empty(size, dtype=dtype))


@_on_device("aten::empty.memory_format")
def _empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return NeuronTensor(torch.empty(size, dtype=dtype))


@_on_device("aten::_copy_from")
def _copy_from(source, target, non_blocking=False):
    torch.neuron.synchronize()
    raw = source.raw if isinstance(source, NeuronTensor) else source
    (target.raw if isinstance(target, NeuronTensor) else target).copy_(raw)
    return target


@_on_device("aten::view")
def _view(tensor, size):
    return NeuronTensor(tensor.raw.view(size))


def dtype_of(tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def array_of(tensor) -> np.ndarray:
    """Return the values of a tensor on the device, for the stand-in for nki."""
    dtype = np.dtype(ml_dtypes.bfloat16) if dtype_of(tensor) == "bfloat16" else np.dtype(dtype_of(tensor))
    return tensor.raw.reshape([-1]).view(torch.uint8).numpy().view(dtype).reshape(tuple(tensor.shape))


def later(array: np.ndarray):
    """Return a tensor whose values are available once the device has computed them."""
    raw = torch.empty(array.shape, dtype=getattr(torch, array.dtype.name))
    torch.neuron.queue.append(lambda: raw.reshape([-1]).view(torch.uint8).copy_(_bytes(array)))
    return NeuronTensor(raw)


def _bytes(array: np.ndarray):
    return torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8)
