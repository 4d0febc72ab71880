"""Convert between PyTorch tensors and arrays of the simulator.

PyTorch is used only if the caller has already imported it. NumPy has no narrow floating-point types, and PyTorch cannot
pass such types to NumPy, so their values are transferred as bits.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..machine.dtypes import Array

_NARROW: dict[str, Any] = {
    "torch.bfloat16": ml_dtypes.bfloat16,
    "torch.float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "torch.float8_e5m2": ml_dtypes.float8_e5m2,
    "torch.float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}


def is_tensor(value: object) -> bool:
    """Return True if a value is a PyTorch tensor (or an instance of a subclass defined in PyTorch)."""
    return type(value).__module__.partition(".")[0] in ("torch", "torch_xla") and hasattr(value, "detach")


def array_of(tensor: Any) -> Array:
    """Return the values of a tensor, sharing memory if the tensor is on the CPU."""
    values = tensor.detach().cpu()
    narrow = _NARROW.get(str(values.dtype))
    if narrow is None:
        array: Array = values.numpy()
        return array
    import torch

    bits = values.view(torch.int16 if np.dtype(narrow).itemsize == 2 else torch.uint8).numpy()
    array = bits.view(narrow)
    return array


def tensor_of(array: Array) -> Any:
    """Return a tensor with the values of an array.

    float8_e4m3, which PyTorch does not support, is converted to float32.
    """
    import torch

    array = np.ascontiguousarray(array)
    for name, narrow in _NARROW.items():
        if array.dtype == narrow:
            bits = array.view(np.int16 if array.itemsize == 2 else np.uint8)
            return torch.from_numpy(bits).view(getattr(torch, name.partition(".")[2]))
    if array.dtype == ml_dtypes.float8_e4m3:
        array = array.astype(np.float32)
    return torch.from_numpy(array)
