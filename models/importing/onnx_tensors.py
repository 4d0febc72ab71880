"""The tensors of an ONNX file as arrays.

Weights in separate files ("external data", which PyTorch writes for large models) are only read from regular files in
the folder of the model or its subfolders.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..budget import Budget, OverBudget
from ..checks import Shape
from ..errors import ModelError
from .fold import MAX_PARAMETERS

if TYPE_CHECKING:
    import onnx

MAX_RANK = 8

# ONNX Runtime holds two copies of a file's weights in memory while it loads the file. If the tensors of at least LARGE
# bytes require MANY bytes in total, they are removed from the graph and passed to ONNX Runtime as inputs.
LARGE = 1 << 20
MANY = 1 << 27


class UnknownTypeError(ModelError):
    """A tensor has an unsupported type, such as text; this is an error only for nodes that require the tensor."""


@dataclass(frozen=True)
class Stripped:
    """A model whose large weights have been turned into inputs."""

    message: bytes
    names: tuple[str, ...]


def strip(model: onnx.ModelProto, constants: Mapping[str, np.ndarray]) -> Stripped | None:
    """Turn the large weights of a decoded file into inputs. If there are few of them, change nothing and return
    None."""
    from onnx import TensorProto, helper

    graph = model.graph
    removed_names = {
        tensor.name: list(tensor.dims)
        for tensor in graph.initializer
        if tensor.data_type == TensorProto.FLOAT and tensor.name in constants and constants[tensor.name].nbytes >= LARGE
    }
    if sum(constants[name].nbytes for name in removed_names) < MANY:
        return None
    remaining = [tensor for tensor in graph.initializer if tensor.name not in removed_names]
    del graph.initializer[:]
    graph.initializer.extend(remaining)
    listed = {value.name for value in graph.input}  # old files list weights as inputs
    graph.input.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in removed_names.items()
        if name not in listed
    )
    return Stripped(model.SerializeToString(), tuple(removed_names))


class TensorReader:
    """Reader of the tensors of a file.

    It reads at most MAX_PARAMETERS numbers, because several tensors may refer to the same external bytes. Each external
    file has a `Budget` based on its size on disk, because it may be sparse.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = MAX_PARAMETERS
        self._budgets: dict[str, Budget] = {}

    def read(self, tensor: onnx.TensorProto) -> np.ndarray:
        """Return the values of a tensor."""
        from onnx import TensorProto, numpy_helper

        where = f"tensor {tensor.name!r}"
        dtypes: dict[int, Any] = {
            TensorProto.FLOAT: np.float32,
            TensorProto.FLOAT16: np.float16,
            TensorProto.BFLOAT16: ml_dtypes.bfloat16,
            TensorProto.DOUBLE: np.float64,
            TensorProto.INT64: np.int64,
            TensorProto.INT32: np.int32,
            TensorProto.INT16: np.int16,
            TensorProto.UINT16: np.uint16,
            TensorProto.INT8: np.int8,
            TensorProto.UINT8: np.uint8,
            TensorProto.BOOL: np.bool_,
        }
        if tensor.data_type not in dtypes:
            known = tensor.data_type in TensorProto.DataType.values()
            kind = TensorProto.DataType.Name(tensor.data_type) if known else tensor.data_type
            raise UnknownTypeError(f"{where}: type {kind} is not supported; floats and integers of 8 to 64 bits are")
        shape = tuple(tensor.dims)
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise ModelError(f"{where}: its shape {list(shape)[: MAX_RANK + 1]} is not valid")
        self._left -= math.prod(shape)
        if self._left < 0:
            raise ModelError(f"{where}: too many numbers; all tensors together may contain at most {MAX_PARAMETERS}")
        if tensor.data_location == TensorProto.EXTERNAL:
            return _external(tensor, where, shape, np.dtype(dtypes[tensor.data_type]), self._folder, self._budgets)
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError, OverflowError):
            raise ModelError(f"{where}: its number of values does not match its shape {list(shape)}") from None


def _external(
    tensor: onnx.TensorProto,
    where: str,
    shape: Shape,
    dtype: np.dtype[Any],
    folder: Path,
    budgets: dict[str, Budget],
) -> np.ndarray:
    """Read values from a file next to the model file."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = fields.get("location", "")
    numbers = [fields.get("offset", "0"), fields.get("length", str(math.prod(shape) * dtype.itemsize))]
    if not all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers):
        raise ModelError(f"{where}: its offset or length in {location!r} is not a number")
    offset, length = map(int, numbers)
    if length != math.prod(shape) * dtype.itemsize:
        raise ModelError(f"{where}: {length} bytes do not match its shape {list(shape)}")
    try:
        home = os.path.realpath(folder)
        target = os.path.realpath(os.path.join(home, location))
        if not location or os.path.commonpath([home, target]) != home or not os.path.isfile(target):
            raise ModelError(f"{where}: its values are in {location!r}, which is not a file in the model's folder")
        with open(target, "rb") as file:
            if offset + length > os.fstat(file.fileno()).st_size:
                raise ModelError(f"{where}: {location!r} is too short for this tensor")
            budgets.setdefault(target, Budget.of(file)).take(length, f"{where} in {location!r}, with those before it,")
            file.seek(offset)
            raw = file.read(length)
    except OverBudget as error:
        raise ModelError(str(error)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{where}: {location!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) != length:
        raise ModelError(f"{where}: {location!r} is too short for this tensor")
    return np.frombuffer(raw, dtype.newbyteorder("<") if dtype.kind != "V" else dtype).reshape(shape)
