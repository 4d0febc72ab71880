"""An instruction as the engines see it: the memory that it reads and writes, and its cost.

A program is a list of instructions in program order. It contains no tensor data; the timing model schedules it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from .chip import PARTITIONS
from .errors import NkiValidationError


class engine(Enum):  # noqa: N801 (same name and values as nki.isa.engine)
    """The engines of a NeuronCore."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0

    __hash__ = object.__hash__  # members are unique objects; Enum's own hash is slow Python code


COLLECTIVES = frozenset(
    {
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
        "collective_permute_implicit",
        "collective_permute_implicit_reduce",
    }
)
"""Operations between ranks. In the model, they take no time, because no times have been published."""


class Cost(NamedTuple):
    """Cost of an instruction on its engine, in nanoseconds, assuming the full clock rate of the Tensor Engine.

    `interval` is the time until the engine can start the next instruction, and `latency` the time until the result can
    be read. `cold` is the interval of the Tensor Engine at half the clock rate. `table` is the lookup table that the
    Scalar Engine requires, or "" if it requires none.
    """

    interval: float
    latency: float
    cold: float = 0.0
    table: str = ""


Engine = engine  # alias for annotations in classes that have a field named `engine`
Options = tuple[tuple[engine, Cost], ...]  # alternative engines for an instruction, with their costs


SettledCall = tuple[engine, Cost, Options, tuple[Any, ...]]
"""The properties of a call that its declaration determines: the engine, the cost, other possible engines, the operators
and enum members to which operands resolve, and the notes of rules."""

DECLARATIONS: dict[str, Any] = {}
"""Maps the name of every instruction of `nki.isa` to its `Declaration` (declaration.py)."""


class Transfer(NamedTuple):
    """A DMA transfer of `bytes` by `descriptors` descriptors, covering `partitions` SBUF partitions starting at
    `row`."""

    bytes: int
    descriptors: int
    partitions: int
    load: bool  # True if the data is moved to SBUF
    dge: bool
    transpose: bool = False
    casts: bool = False
    row: int = 0
    hbm: bool = True  # at least one side is in HBM
    pitched: bool = False  # the distance between rows is so large that only a few HBM channels serve them
    narrow: bool = False  # a write of narrow pieces that are adjacent in HBM
    software: bool = False  # GpSimd generates the descriptors
    dynamic: bool = False  # an address must first be read from memory
    span: int = 0  # HBM bytes from the first to the last byte that a load reads, or 0 if irrelevant
    second: bool = False  # the kernel requests the descriptor generator of the Scalar Engine
    beside: bool = False  # moved by the DMA engines of the GpSimd processors, which exist in addition to the other 16
    open: bool = False  # the compiler chooses which unit generates the descriptors


Identity = tuple[str, Any, tuple[int, ...], str]  # name, memory, shape and dtype


def label_of(identity: Identity) -> str:
    """Return a description of a storage for error messages."""
    name, region, shape, dtype = identity
    return f"{name or 'tensor'} {region.value}{list(shape)} {dtype}" if dtype else f"{region.value} {name}"


class Allocation:
    """The lifetime of a storage, kept after its values have been freed.

    `identity` is the name, memory, shape and dtype, and `at` the file and line that created the storage, or ("", 0) if
    unknown. `row_bytes` is the size per partition (on chip) or the total size (HBM). `dropped` is the number of
    instructions that had been issued when the kernel dropped its last reference, or None if it still holds one.
    """

    __slots__ = ("argument", "at", "dropped", "identity", "partitions", "placed", "region", "row_bytes", "uid")

    def __init__(
        self, uid: int, region: Any, row_bytes: int, identity: Any, at: tuple[str, int], argument: bool
    ) -> None:
        self.uid = uid
        self.region = region
        self.row_bytes = row_bytes
        self.identity = identity
        self.at = at
        self.dropped: int | None = None
        self.argument = argument
        self.partitions = identity[2][0] if identity[2] else PARTITIONS  # number of partitions it occupies on chip
        self.placed = False  # True if it contains tiles at addresses chosen by the kernel

    @property
    def label(self) -> str:
        return label_of(self.identity)

    @property
    def line(self) -> str:
        return f"{self.at[0]}:{self.at[1]}" if self.at[0] else ""


class Access(NamedTuple):
    """A rectangle of memory: bytes [byte, byte_end) of each of the rows [row, row_end).

    On chip, a row is a partition. In HBM, a row has `pitch` bytes, which is the outermost stride of the view; accesses
    with different pitches are compared by their entire ranges [low, high).
    """

    allocation: Allocation
    row: int
    row_end: int
    byte: int
    byte_end: int
    pitch: int
    covers: bool  # True if it covers the whole storage
    step: int = 0  # if not 0, only the first `run` of every `step` bytes, starting at `byte`, are accessed
    run: int = 0

    @property
    def low(self) -> int:
        return self.row * self.pitch + self.byte

    @property
    def high(self) -> int:
        return (self.row_end - 1) * self.pitch + self.byte_end

    def overlaps(self, other: Access) -> bool:
        allocation, row, row_end, byte, byte_end, pitch, _, step, run = self
        other_allocation, first, end, start, stop, other_pitch, _, other_step, other_run = other
        if allocation is not other_allocation:
            return False
        if pitch != other_pitch:
            return self.low < other.high and other.low < self.high
        if row >= end or first >= row_end or byte >= stop or start >= byte_end:
            return False
        if not step or step != other_step:
            return True
        distance = (start - byte) % step  # two patterns of equal step overlap if any of their runs share a byte
        return distance < run or step - distance < other_run


@dataclass(slots=True, eq=False, repr=False)
class Instruction:
    """An issued instruction, which is the handle returned by `nki.isa` functions.

    A DMA has no cost on its engine; its `dma` field describes the transfer done by the DMA queues.
    """

    index: int
    op: str
    engine: Engine
    writes: tuple[Access, ...]
    reads: tuple[Access, ...]
    cost: Cost
    dma: Transfer | None
    flops: int
    hbm_bytes: int
    line: tuple[str, int]
    name: str | None
    ordered: bool
    options: Options = ()  # alternative engines, if the kernel does not specify one
    after: tuple[Instruction, ...] = field(default=(), init=False)

    def depends_on(self, *producers: Instruction) -> Instruction:
        """Delay the start of this instruction until all producers are done (nki.isa.NkiInstruction.depends_on)."""
        for producer in producers:
            if not isinstance(producer, Instruction):
                raise NkiValidationError(
                    f"depends_on of {self.op}: {producer!r} is not an instruction (a function of nki.isa returns one)"
                )
        self.after += producers
        return self

    def replace(self, **changes: Any) -> Instruction:
        """Return a copy with some fields changed; it waits for the same instructions."""
        copy = dataclasses.replace(self, **changes)
        copy.after = self.after
        return copy

    def __repr__(self) -> str:
        return f"<{self.op} on {self.engine.name} at {self.line[0]}:{self.line[1]}>"
