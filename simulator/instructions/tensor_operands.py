"""Kinds of tensor operands: tiles accessed by the compute engines, and tensors accessed by DMAs and registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

from ..machine.errors import NkiValidationError
from ..machine.memory import PSUM, SBUF, MemoryRegion
from ..tensors.tensor import MAX_DIMENSIONS, NkiTensor
from ..tensors.views import dimensions
from .checks import destination, tile
from .operands import Call, Operand, among, check_number

IN_PSUM = "must be in PSUM, the only memory the Tensor Engine writes"


@dataclass(frozen=True, eq=False)
class Tile(Operand):
    """A tensor in SBUF or PSUM."""

    written: bool = False
    kept: bool = False  # only partly written, so it is also considered as read
    buffers: tuple[MemoryRegion, ...] = (SBUF, PSUM)
    dtypes: tuple[str, ...] = ()  # allowed dtypes, or () if all are allowed
    refused: tuple[str, ...] = ()  # dtypes that are not allowed
    dtype_of: str = ""
    size_of: str = ""  # the operand with the required number of partitions and elements
    partitions_of: str = ""
    partitions: int = 1  # the number of partitions must be a multiple of this
    elements: tuple[int, int] | None = None
    dimensions: int | None = None  # maximum number of dimensions

    def check(self, call: Call, name: str, value: Any) -> Any:
        if value is None and self.optional:
            return None
        tensor = destination(call.instruction, value) if name == "dst" else tile(call.instruction, name, value)
        if self._is_limited:
            self.check_limits(call, name, tensor)
        return tensor

    def check_limits(self, call: Call, name: str, found: NkiTensor) -> None:
        """Raise an error if the tensor violates a limit that involves no other operand."""
        if found.storage.region not in self.buffers:
            raise call.refuse(name, found, IN_PSUM if self.buffers == (PSUM,) else f"must be in {self._buffers}")
        if self.dtypes and found.dtype not in self.dtypes:
            raise call.refuse(name, found, f"must be {among(self.dtypes)}")
        if found.dtype in self.refused:
            raise call.refuse(name, found, f"cannot be {among(self.refused)}")
        if self.dimensions is not None and len(found.shape) > self.dimensions:
            raise call.refuse(name, found, f"must have at most {self.dimensions} dimensions, got {len(found.shape)}")
        if found.shape[0] % self.partitions:
            raise call.refuse(name, found, f"must have a multiple of {self.partitions} partitions")
        if self.elements is not None and not self.elements[0] <= found.free_size <= self.elements[1]:
            raise call.refuse(name, found, f"must have {self._elements}, got {found.free_size}")

    @cached_property
    def _is_limited(self) -> bool:
        """Return True if this operand has any limits."""
        limits = self.buffers, self.dtypes, self.refused, self.dimensions, self.partitions, self.elements
        return limits != (type(self).buffers, (), (), None, 1, None)

    @property
    def relates(self) -> bool:
        return bool(self.size_of or self.partitions_of or self.dtype_of)

    def relate(self, call: Call, name: str, value: Any) -> None:
        if value is None:
            return
        if self.size_of:
            same_size(call, name, value, self.size_of)
        if self.partitions_of:
            other = getattr(call, self.partitions_of)
            if value.shape[0] != other.shape[0]:
                raise call.refuse(
                    name,
                    value,
                    f"has {value.shape[0]} partitions, {self.partitions_of} {other.label} has {other.shape[0]}; they "
                    "must be equal",
                )
        if self.dtype_of and value.dtype != getattr(call, self.dtype_of).dtype:
            dtype = getattr(call, self.dtype_of).dtype
            raise call.refuse(name, value, f"must have the dtype of {self.dtype_of}, {dtype}")

    @property
    def _buffers(self) -> str:
        return among([buffer.name.upper() for buffer in self.buffers])

    @property
    def _elements(self) -> str:
        assert self.elements is not None
        least, most = self.elements
        counted = "one element" if most == 1 else f"{most} elements" if least == most else f"{least} to {most} elements"
        return f"{counted} in a partition"

    @property
    def limits(self) -> str:
        parts = [self._buffers]
        parts += [among(self.dtypes)] if self.dtypes else []
        parts += [f"not {among(self.refused)}"] if self.refused else []
        parts += [f"dtype of {self.dtype_of}"] if self.dtype_of else []
        parts += [f"size of {self.size_of}"] if self.size_of else []
        parts += [f"partitions of {self.partitions_of}"] if self.partitions_of else []
        parts += [f"a multiple of {self.partitions} partitions"] if self.partitions > 1 else []
        parts += [self._elements] if self.elements else []
        parts += [f"at most {self.dimensions} dimensions"] if self.dimensions is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, eq=False)
class DmaTensor(Tile):
    """A tensor in SBUF or HBM that is read or written by a DMA."""

    buffers: tuple[MemoryRegion, ...] = tuple(region for region in MemoryRegion if region is not PSUM)

    def check(self, call: Call, name: str, value: Any) -> Any:
        if not isinstance(value, NkiTensor):
            actual = type(value).__name__
            raise NkiValidationError(f"{call.instruction}: {name} must be an NkiTensor, got {actual}")
        if value.storage.region is PSUM:
            raise NkiValidationError(
                f"{call.instruction}: {name} {value.label}: DMA cannot access PSUM; copy through SBUF"
            )
        if len(value.shape) > MAX_DIMENSIONS and dimensions(value) > MAX_DIMENSIONS:
            why = f"has strides {value.strides}; a view has at most {MAX_DIMENSIONS} dimensions"
            raise call.refuse(name, value, why)
        if self._is_limited:
            self.check_limits(call, name, value)
        return value

    @property
    def _buffers(self) -> str:
        return "SBUF" if self.buffers == (SBUF,) else "SBUF or HBM"


@dataclass(frozen=True, eq=False)
class TileOrNumber(Tile):
    """A tile, or a number that is used for all elements."""

    def check(self, call: Call, name: str, value: Any) -> Any:
        return super().check(call, name, value) if isinstance(value, NkiTensor) else check_number(call, name, value)

    def relate(self, call: Call, name: str, value: Any) -> None:
        if isinstance(value, NkiTensor):
            super().relate(call, name, value)

    @property
    def limits(self) -> str:
        return f"a number, or {super().limits}"


def same_size(call: Call, name: str, value: NkiTensor, other_name: str) -> None:
    """Check that two tensors have equal numbers of partitions and of elements per partition.

    Their shapes may differ.
    """
    other: NkiTensor = getattr(call, other_name)
    if value.shape != other.shape and (value.shape[0] != other.shape[0] or value.free_size != other.free_size):
        why = f"and {other_name} {other.label} must have the same number of partitions and of elements in each"
        raise call.refuse(name, value, why)


@dataclass(frozen=True, eq=False)
class OneElement(Operand):
    """A tensor with a single element in SBUF or HBM, whose dtype must be one of `dtypes`."""

    dtypes: tuple[str, ...] = ()
    written: bool = False

    def check(self, call: Call, name: str, value: Any) -> Any:
        if not isinstance(value, NkiTensor):
            actual = type(value).__name__
            raise NkiValidationError(f"{call.instruction}: {name} must be an NkiTensor, got {actual}")
        if value.size != 1 or value.storage.region is PSUM or value.dtype not in self.dtypes:
            allowed = among(self.dtypes, len(self.dtypes))
            raise call.refuse(name, value, f"must be one element of {allowed} in SBUF or HBM")
        return value

    @property
    def limits(self) -> str:
        return f"one element in SBUF or HBM of {among(self.dtypes, len(self.dtypes))}"


Output = Annotated[NkiTensor, Tile(written=True)]
"""A tile that the instruction writes."""
FOUR = 4  # number of dimensions: the partition dimension and three free ones (pages of SDK 2.33)
LikeDst = Annotated[NkiTensor, Tile(size_of="dst")]
"""A tile of the same size as dst."""
