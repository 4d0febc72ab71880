"""A stand-in for torch_neuronx, which requires nki (quickstart-nki-kernel). The stand-in for nki implements the calls
of kernels."""

import os

import nki  # noqa: F401
import numpy as np
import torch

__version__ = "2.14.3.0"


def dtype_of(tensor) -> str:
    return tensor.dtype.name


def array_of(tensor) -> np.ndarray:
    """Return the values of a tensor on the device, for the stand-in for nki."""
    return tensor._array


def later(array: np.ndarray):
    """Return a tensor whose values are available once the device has computed them."""
    tensor = torch.Tensor(np.zeros_like(array), "cpu" if os.environ.get("STAND_IN_NKI") == "cpu" else "neuron:0")

    def arrive() -> None:
        tensor._array[...] = array

    torch.neuron.queue.append(arrive)
    return tensor
