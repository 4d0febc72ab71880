"""The memories of a NeuronCore: storage of tensor values, and allocation in SBUF and PSUM.

A storage is one allocation. On chip, it has a partition axis and a number of bytes per partition; in HBM, it is flat.
Values are stored in the representation defined by `dtypes`. If the bits of a storage are reinterpreted, or if the
kernel chose its address so that it may overlap with others, it contains true bit patterns instead.
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
    """The memory that contains a tensor."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    __hash__ = object.__hash__  # members are unique objects; Enum's own hash is slow Python code


PSUM_ALIGNMENT = 4  # alignment of addresses in PSUM, in bytes (nl.tile_size.psum_min_align; 1 in SBUF)
SBUF, PSUM = MemoryRegion.sbuf, MemoryRegion.psum


class Storage:
    """An allocation in one of the memories.

    `row` is the number of elements per partition (on chip), and `size` the total number of elements. `base` is the byte
    address within a partition, which is 0 unless the kernel chose an address. Storages with an address share the
    `arena` of their memory; all others have separate memory, which is allocated at the first write.
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
        self.at = line  # file and line where the kernel created it
        self.array: Array | None = None  # flat array of dtype.held, or of raw bytes if `bits`
        self.bits = False
        self.arena: Arena | None = None
        self.base = 0
        self.partition_base = 0
        self.owner: Any = None  # the Allocation, of this storage or of its arena, that is used to track dependencies
        self.borrowed = False  # True if the array belongs to the caller and must be copied before a write
        self.core: Any = None  # the core whose program counts the instructions issued before it is dropped
        self.shadow: Any = None  # a sanitizer's record of the elements; `number` identifies the tensor in it
        self.number = 0
        self.written = PsumWrites() if region is PSUM else None  # last writers of the elements
        self.sums: Any = None  # sums that matmuls accumulate in this storage, by bank

    def __del__(self) -> None:
        if self.core is not None:  # the kernel has dropped the last view
            self.owner.dropped = len(self.core.program)

    @property
    def row_bytes(self) -> int:
        return self.row * self.dtype.itemsize

    @property
    def identity(self) -> Identity:
        """Return the components of `label`."""
        return self.name, self.region, self.shape, self.dtype.name

    @property
    def label(self) -> str:
        return label_of(self.identity)

    @property
    def line(self) -> str:
        return f"{self.at[0]}:{self.at[1]}"

    def note_write(self, view: Any, by_matmul: bool) -> None:
        """Record which kind of instruction wrote a view of this tensor in PSUM."""
        assert self.written is not None
        self.written.note(view, by_matmul)
        if self.arena is not None:
            self.arena.written.note(view, by_matmul)

    def create(self, fill: bool) -> Array:
        """Allocate the memory.

        If `fill`, set it to the value of uninitialised memory, which is unnecessary if the first write covers all of
        it.
        """
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
        """Copy the array if it belongs to the caller, because it is about to be written."""
        if self.borrowed and self.array is not None:
            self.array = self.array.copy()
            self.borrowed = False
            if self.core is not None and self.core.recording is not None:
                self.core.recording.spoil()

    def to_bits(self) -> None:
        """Switch to true bit patterns, so that a view with another dtype reads the same bytes as on the chip."""
        if self.bits:
            return
        values = self.array if self.array is not None else self.create(fill=True)
        if self.array is not None:
            self.array = values.astype(self.dtype.bits, copy=False).view(np.uint8)
            self.bits = True
            if self.borrowed and self.core is not None and self.core.recording is not None:
                self.core.recording.spoil()


class Arena:
    """All of SBUF or PSUM as bytes, for tensors whose addresses are chosen by the kernel."""

    def __init__(self, row_bytes: int, owner: Any, functional: bool) -> None:
        self.row_bytes = row_bytes
        self.owner = owner
        self.shadow: Any = None  # a sanitizer's record of all bytes, if any
        self.written = PsumWrites()  # last writers of PSUM through any tensor
        self.sums: Any = None  # sums that matmuls accumulate in this memory, by bank
        # Uninitialised memory reads as NaN: 0xFF bytes are NaN in every floating-point type of at least 16 bits.
        self.array: Array = np.full(PARTITIONS * row_bytes if functional else 0, 0xFF, dtype=np.uint8)


def allocate(
    region: MemoryRegion, dtype: DType, shape: tuple[int, ...], name: str, line: tuple[str, int], target: Target
) -> Storage:
    """Return a new storage. Raise NkiValidationError if the shape is invalid, and CapacityError if it is too large."""
    for extent in shape or (0,):
        if (type(extent) is not int and not isinstance(extent, (int, np.integer))) or extent < 1:
            raise NkiValidationError(
                f"ndarray {name or 'tensor'}: shape {shape} must consist of one or more positive integers"
            )
    storage = Storage(region, dtype, shape, name, line)
    if storage.on_chip:
        _check_tile(storage, target)
    return storage


def _check_tile(storage: Storage, target: Target) -> None:
    """Check the size of a storage in SBUF or PSUM."""
    rows = storage.shape[0]
    if len(storage.shape) < 2:
        raise NkiValidationError(
            f"ndarray {storage.label}: an on-chip tensor must have a partition and a free dimension, got one "
            f"dimension; (1, {rows}) uses one partition, ({rows}, 1) uses {rows} partitions"
        )
    if rows > PARTITIONS:
        raise NkiValidationError(f"ndarray {storage.label}: partition dimension {rows} exceeds maximum {PARTITIONS}")
    limit = target.usable_sbuf_bytes if storage.region is SBUF else target.psum_bytes
    if storage.row_bytes > limit:
        raise CapacityError(
            f"ndarray {storage.label}: {storage.row_bytes} bytes per partition exceed the {limit} of "
            f"{storage.region.name.upper()} on {target.name}"
        )


def place(storage: Storage, address: tuple[int, ...], arena: Arena) -> None:
    """Place a storage at (partition, byte within the partition), where it may overlap with others."""
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
