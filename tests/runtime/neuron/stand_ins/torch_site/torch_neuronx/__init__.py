"""Stands in for torch_neuronx, which needs nki (quickstart-nki-kernel). What a call of a kernel does is nki's."""

import os

import nki  # noqa: F401
import numpy as np
import torch

__version__ = "2.14.3.0"


def dtype_of(tensor) -> str:
    return tensor.dtype.name


def array_of(tensor) -> np.ndarray:
    """The values of a tensor on the device, for the stand-in of nki."""
    return tensor._array


def later(array: np.ndarray):
    """A tensor whose values are there once the device has come to them."""
    tensor = torch.Tensor(np.zeros_like(array), "cpu" if os.environ.get("STAND_IN_NKI") == "cpu" else "neuron:0")

    def arrive() -> None:
        tensor._array[...] = array

    torch.neuron.queue.append(arrive)
    return tensor
