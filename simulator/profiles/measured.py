"""A measured run, which every reader of profiles returns."""

from __future__ import annotations

from typing import NamedTuple

MOST_BYTES = 1 << 30  # maximum size of a file
MOST_ROWS = 5_000_000  # maximum number of rows of a table
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


class ProfileError(Exception):
    """Raised if a profile cannot be read.

    The message is one line with the location, the problem and the allowed values.
    """


class MeasuredInstruction(NamedTuple):
    """An executed instruction. Times are in nanoseconds from the start of the profile."""

    id: int
    engine: str  # one of ENGINES
    opcode: str  # neuron-explorer's opcode, except that a MATMUL that transposes is called TRANSPOSE
    start_ns: int
    end_ns: int
    after: tuple[int, ...]  # ids of the instructions for which it waited
    line: str  # source line of the kernel, "" if the profile has none
    ours: bool  # True for instructions of the kernel, False for instructions of the runtime


class MeasuredPacket(NamedTuple):
    """An element moved by a DMA engine.

    `maker` is the origin of its descriptor: "hardware", "software" or "prepared".
    """

    engine: int
    maker: str
    start_ns: int
    end_ns: int
    size: int


class MeasuredRun(NamedTuple):
    """The run of one core, sorted by start time. `missing` lists data that the profile does not contain."""

    name: str
    total_ns: int
    instructions: tuple[MeasuredInstruction, ...]
    packets: tuple[MeasuredPacket, ...]
    missing: tuple[str, ...]
