"""The memories of a NeuronCore: storage of tensor values, and the SBUF and PSUM in use.

A storage is one allocation. On chip it has a partition axis and a number of bytes in each partition; in HBM it is flat.
Values are held in the representation of `dtypes`; a storage whose bits are reinterpreted, or that has an address chosen
by the kernel and so may overlap with others, holds true bit patterns instead.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from .chip import PARTITIONS, PSUM_BANK_BYTES, Target
from .dtypes import Array, DType
from .errors import CapacityError, NkiValidationError
from .instruction import Identity, label_of
from .psum_writes import PsumWrites


class MemoryRegion(Enum):
    """The memory that a tensor is in."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__  # members are unique objects; Enum's own hash is slow Python code


PSUM_ALIGNMENT = 4  # bytes, for addresses in PSUM (nl.tile_size.psum_min_align; 1 in SBUF)
SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


class Storage:
    """One allocation in one memory.

    `row` is the number of elements in a partition (on chip), `size` the total number. `base` is the byte address within
    a partition, 0 unless the kernel chose one. Storages with an address share the `arena` of their memory; all others
    have memory of their own, allocated at the first write.
    """

    __slots__ = (
        "arena",
        "array",
        "at",
        "base",
        "bits",
        "borrowed",
        "core",
        "dtype",
        "name",
        "number",
        "on_chip",
        "owner",
        "partition_base",
        "region",
        "row",
        "shadow",
        "shape",
        "size",
        "sums",
        "written",
    )

    def __init__(
        self, region: MemoryRegion, dtype: DType, shape: tuple[int, ...], name: str, line: tuple[str, int]
    ) -> None:
        self.region = region
        self.dtype = dtype
        self.shape = shape
        size = 1
        for extent in shape:
            size *= extent
        self.size = size
        self.on_chip = region is SBUF or region is PSUM
        self.row = size // shape[0] if self.on_chip else size
        self.name = name
        self.at = line  # file and line where the kernel made it
        self.array: Array | None = None  # flat; of dtype.held, or raw bytes if `bits`
        self.bits = False
        self.arena: Arena | None = None
        self.base = 0
        self.partition_base = 0
        self.owner: Any = None  # the Allocation that dependencies are tracked on: its own or its arena's
        self.borrowed = False  # the array belongs to the caller and must be copied before a write
        self.core: Any = None  # the core to notify when the kernel drops it
        self.shadow: Any = None  # a sanitizer's record of the elements, and the number it gave the tensor
        self.number = 0
        self.written = PsumWrites() if region is PSUM else None  # last writers of its elements
        self.sums: Any = None  # sums that matmuls accumulate there, by bank

    def __del__(self) -> None:
        if self.core is not None:  # the kernel has dropped the last view
            self.owner.dropped = len(self.core.program)

    @property
    def row_bytes(self) -> int:
        return self.row * self.dtype.itemsize

    @property
    def identity(self) -> Identity:
        """Return the parts of `label`."""
        return self.name, self.region, self.shape, self.dtype.name

    @property
    def label(self) -> str:
        return label_of(self.identity)

    @property
    def line(self) -> str:
        return f"{self.at[0]}:{self.at[1]}"

    def note_write(self, view: Any, by_matmul: bool) -> None:
        """Record the writer of a view of this tensor in PSUM."""
        assert self.written is not None
        self.written.note(view, by_matmul)
        if self.arena is not None:
            self.arena.written.note(view, by_matmul)

    def create(self, fill: bool) -> Array:
        """Allocate the memory; with `fill`, it reads as uninitialised (not needed before a first write that
        covers it)."""
        if self.arena is not None:
            self.bits = True
            self.array = self.arena.array
        elif fill:
            self.array = np.full(self.size, self.dtype.fill, dtype=self.dtype.held)
            if self.core is not None and self.core.recording is not None:
                self.core.recording.filled(self)
        else:
            self.array = np.empty(self.size, dtype=self.dtype.held)
        return self.array

    def own(self) -> None:
        """Copy the caller's array, because it is about to be written."""
        if self.borrowed and self.array is not None:
            self.array = self.array.copy()
            self.borrowed = False
            if self.core is not None and self.core.recording is not None:
                self.core.recording.spoil()

    def to_bits(self) -> None:
        """Switch to true bit patterns, so that a view of another dtype sees the bytes that the chip's memory would
        hold."""
        if self.bits:
            return
        values = self.array if self.array is not None else self.create(fill=True)
        if self.array is not None:
            self.array = values.astype(self.dtype.bits, copy=False).view(np.uint8)
            self.bits = True
            if self.borrowed and self.core is not None and self.core.recording is not None:
                self.core.recording.spoil()


class Arena:
    """All of SBUF or PSUM as bytes, for tensors that a kernel placed itself."""

    def __init__(self, row_bytes: int, owner: Any, functional: bool) -> None:
        self.row_bytes = row_bytes
        self.owner = owner
        self.shadow: Any = None  # a sanitizer's record of all bytes
        self.written = PsumWrites()  # last writers in PSUM, through any tensor
        self.sums: Any = None  # sums that matmuls accumulate there, by bank
        # 0xFF is NaN in every float type of 16 bits or more, as in memory that was never written.
        self.array: Array = np.full(PARTITIONS * row_bytes if functional else 0, 0xFF, dtype=np.uint8)


def allocate(
    region: MemoryRegion, dtype: DType, shape: tuple[int, ...], name: str, line: tuple[str, int], target: Target
) -> Storage:
    """Return a new storage; NkiValidationError or CapacityError if no NeuronCore could hold it."""
    for extent in shape or (0,):
        if (type(extent) is not int and not isinstance(extent, (int, np.integer))) or extent < 1:
            raise NkiValidationError(
                f"ndarray {name or 'tensor'}: shape {shape} must be of one or more positive integers"
            )
    storage = Storage(region, dtype, shape, name, line)
    if storage.on_chip:
        if len(shape) < 2:
            raise NkiValidationError(
                f"ndarray {storage.label}: a tensor on chip has a partition and a free dimension, "
                f"came one; (1, {shape[0]}) lies on one partition, ({shape[0]}, 1) on one each"
            )
        if shape[0] > PARTITIONS:
            raise NkiValidationError(
                f"ndarray {storage.label}: partition dimension {shape[0]} exceeds maximum {PARTITIONS}"
            )
        limit = target.usable_sbuf_bytes if region is SBUF else target.psum_bytes
        if storage.row_bytes > limit:
            raise CapacityError(
                f"ndarray {storage.label}: {storage.row_bytes} bytes a partition exceed the {limit} of "
                f"{region.name.upper()} on {target.name}"
            )
    return storage


def place(storage: Storage, address: tuple[int, ...], arena: Arena) -> None:
    """Put a storage at (partition, byte in the partition), where it may overlap with others."""
    if len(address) != 2:
        raise NkiValidationError(
            f"ndarray {storage.label}: address {address} must be (partition, byte within the partition)"
        )
    partition, start = address
    if partition < 0 or partition + storage.shape[0] > PARTITIONS:
        raise NkiValidationError(
            f"ndarray {storage.label}: address {address} puts partitions {partition} to "
            f"{partition + storage.shape[0] - 1} outside 0 to {PARTITIONS - 1}"
        )
    if start < 0 or start + storage.row_bytes > arena.row_bytes:
        raise CapacityError(
            f"ndarray {storage.label}: address {address} puts bytes {start} to "
            f"{start + storage.row_bytes - 1} outside the {arena.row_bytes} of a partition"
        )
    if storage.region is PSUM and start % PSUM_BANK_BYTES:
        raise NkiValidationError(
            f"ndarray {storage.label}: address {address} puts it at byte {start} of PSUM; allowed: multiples of "
            f"{PSUM_BANK_BYTES}, where the banks begin"
        )
    storage.arena = arena
    storage.base = start
    storage.partition_base = partition
    storage.owner = arena.owner
    arena.owner.row_bytes = max(arena.owner.row_bytes, start + storage.row_bytes)
    storage.create(fill=False)
