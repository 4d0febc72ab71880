"""Rules for indices that are known only at run time, and the representation of indices in error messages."""

from __future__ import annotations

from typing import Any

from ..machine.errors import NkiValidationError
from ..machine.memory import SBUF
from ..machine.objects import DynamicSlice
from ..machine.registers import DeviceNumber, NkiScalar
from .strided import StridedMemory
from .views import is_row_major

INDEX_TYPES = ("int32", "uint32")


def shown_key(key: Any) -> str:
    """Format an index as it would be written in a kernel."""
    return f"[{', '.join(map(_shown, key if type(key) is tuple else (key,)))}]"


def _shown(item: Any) -> str:
    if isinstance(item, slice):
        return ":".join("" if end is None else str(end) for end in (item.start, item.stop))
    if isinstance(item, DynamicSlice):
        return f"nl.ds({item.start}, {item.size})"
    return "..." if item is Ellipsis else str(item)


def check_scalar(tensor: StridedMemory, index: Any, what: str) -> None:
    if isinstance(index, DeviceNumber):
        if isinstance(index, NkiScalar):
            index.usable(what)
            if index.dtype == "int64" and tensor.storage.on_chip:
                raise NkiValidationError(
                    f"{what} of {tensor.label}: an int64 scalar can only address HBM; load an int32"
                )
        return
    if not isinstance(index, StridedMemory):
        raise NkiValidationError(
            f"{what} of {tensor.label}: the index must be an integer, a register, a scalar or a tensor of one element "
            f"in SBUF, got {type(index).__name__}"
        )
    if index.size != 1 or index.storage.region is not SBUF or index.dtype not in INDEX_TYPES:
        raise NkiValidationError(
            f"{what} of {tensor.label}: index {index.label} must be one int32 or uint32 in SBUF, or a register"
        )


def check_vector(tensor: StridedMemory, index: Any, what: str) -> None:
    if not isinstance(index, StridedMemory) or index.storage.region is not SBUF or index.dtype not in INDEX_TYPES:
        description = index.label if isinstance(index, StridedMemory) else type(index).__name__
        raise NkiValidationError(
            f"{what} of {tensor.label}: the indices must be int32 or uint32 in SBUF, [rows, 1], got {description}"
        )
    if tensor.storage.on_chip:
        raise NkiValidationError(f"{what} of {tensor.label}: only tensors in HBM can be indexed by a vector")


def check_columns(tensor: StridedMemory, index: Any, count: Any) -> None:
    """Check the tile and the offsets passed to `NkiTensor.indirect`."""
    subject = f"indirect of {tensor.label}"
    if not tensor.storage.on_chip or not is_row_major(tensor.shape[1:], tensor.strides[1:]):
        raise NkiValidationError(f"{subject}: requires a tile in SBUF or PSUM that is contiguous in each partition")
    if not isinstance(index, StridedMemory) or index.storage.region is not SBUF or not index._dtype.is_integer:
        description = index.label if isinstance(index, StridedMemory) else type(index).__name__
        raise NkiValidationError(
            f"{subject}: the offsets must be an integer tensor in SBUF with shape [{tensor.shape[0]}, K], "
            f"got {description}"
        )
    if index.shape[0] != tensor.shape[0]:
        raise NkiValidationError(f"{subject}: index {index.label} must have the tile's {tensor.shape[0]} partitions")
    if count is not None and (type(count) is not int or count < 1):
        raise NkiValidationError(f"{subject}: num_elem must be a positive integer, got {count!r}")
