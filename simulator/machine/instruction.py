"""One instruction of a kernel, as the engines get it: which memory it reads and writes, and what it costs.

A program is the list of these in program order. It is what the timing model schedules; it holds no tensor data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from .chip import PARTITIONS
from .errors import NkiValidationError


class engine(Enum):  # noqa: N801 (the name and values of nki.isa.engine)
    """Engines of a NeuronCore."""

    tensor = 1
    vector = 5
    scalar = 2
    gpsimd = 3
    dma = 4
    sync = 6
    unknown = 0

    __hash__ = object.__hash__  # there is one object for each: Enum's own is written in Python


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
"""Operations between ranks, which nobody has timed: here they take no time."""


class Cost(NamedTuple):
    """Cost of an instruction on its engine, in nanoseconds with the Tensor Engine at its full clock.

    `interval` is how long the engine is taken before it can start the next one, `latency` how long until what it writes
    can be read; `cold` is the Tensor Engine's interval at half clock. `table` is the lookup table that the Scalar
    Engine must have loaded, "" for none.
    """

    interval: float
    latency: float
    cold: float = 0.0
    table: str = ""


Engine = engine  # the type of fields that have its name
Options = tuple[tuple[engine, Cost], ...]  # other engines that could run an instruction


Settled = tuple[engine, Cost, Options, tuple[Any, ...]]
"""What a declaration says of a call: its engine, its cost, other engines, and what operators and members of enums among
the operands stand for, and what rules note."""

DECLARATIONS: dict[str, Any] = {}
"""The `Declaration` of every instruction of `nki.isa`, by its name (declaration.py)."""


class Transfer(NamedTuple):
    """A DMA: `bytes` moved in `descriptors` pieces, over `partitions` of SBUF from `row` on; `load` is towards SBUF.

    `hbm`: one side at least is in HBM; `pitched`, its rows lie so far apart that few of HBM's channels serve them.
    `narrow` marks a write of narrow pieces that are neighbours in HBM, `software` descriptors made by GpSimd,
    `dynamic` an address that is read from memory first. `span` are the bytes of HBM from the first that a load reads to
    its last, 0 where that does not matter. `second`: the kernel has the Scalar Engine's descriptor generator make it.
    `beside`: the DMA engines of GpSimd's processors move it, beside what the 16 others do. `open`: the kernel leaves it
    to the compiler who makes the descriptors.
    """

    bytes: int
    descriptors: int
    partitions: int
    load: bool
    dge: bool
    transpose: bool = False
    casts: bool = False
    row: int = 0
    hbm: bool = True
    pitched: bool = False
    narrow: bool = False
    software: bool = False
    dynamic: bool = False
    span: int = 0
    second: bool = False
    beside: bool = False
    open: bool = False


Identity = tuple[str, Any, tuple[int, ...], str]  # name, memory, shape and dtype


def label_of(identity: Identity) -> str:
    """Return the name of a storage in messages."""
    name, region, shape, dtype = identity
    return f"{name or 'tensor'} {region.value}{list(shape)} {dtype}" if dtype else f"{region.value} {name}"


class Allocation:
    """The life of one storage, kept after its values are gone.

    `identity` is its name, memory, shape and dtype; `at` the file and number of its line, ("", 0) for none. `row_bytes`
    is its size in each partition (on chip) or in all (HBM). `dropped` is the number of instructions issued when the
    kernel let go of it, None while it holds it.
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
        self.partitions = identity[2][0] if identity[2] else PARTITIONS  # that it takes of a memory on chip
        self.placed = False  # holds tiles at addresses that the kernel chose

    @property
    def label(self) -> str:
        return label_of(self.identity)

    @property
    def line(self) -> str:
        return f"{self.at[0]}:{self.at[1]}" if self.at[0] else ""


class Access(NamedTuple):
    """A rectangle of memory: rows [row, row_end) by bytes [byte, byte_end) of each.

    On chip a row is a partition. In HBM a row is `pitch` bytes long, the outermost stride of the view; two accesses
    with different pitches are compared by their whole extents [low, high).
    """

    allocation: Allocation
    row: int
    row_end: int
    byte: int
    byte_end: int
    pitch: int
    covers: bool  # all of the storage
    step: int = 0  # where not 0, only `run` of every `step` bytes from `byte` on
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
        apart = (start - byte) % step  # two combs of the same step: whether a tooth of one meets one of the other
        return apart < run or step - apart < other_run


@dataclass(slots=True, eq=False, repr=False)
class Instruction:
    """An issued instruction: the handle that `nki.isa` functions return.

    A DMA costs its engine nothing; it has `dma`, what the queues must move.
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
    options: Options = ()  # other engines that could run it, where the kernel leaves it open
    after: tuple[Instruction, ...] = field(default=(), init=False)

    def depends_on(self, *producers: Instruction) -> Instruction:
        """Make this instruction start only after every producer is done (nki.isa.NkiInstruction.depends_on)."""
        for producer in producers:
            if not isinstance(producer, Instruction):
                raise NkiValidationError(
                    f"depends_on of {self.op}: {producer!r} is no instruction (what a function of nki.isa returns)"
                )
        self.after += producers
        return self

    def __repr__(self) -> str:
        return f"<{self.op} on {self.engine.name} at {self.line[0]}:{self.line[1]}>"
