"""A measured run, as returned by all readers of profiles."""

from __future__ import annotations

from typing import NamedTuple

MOST_BYTES = 1 << 30  # size limit of a file
MOST_ROWS = 5_000_000  # row limit of a table
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


class ProfileError(Exception):
    """A profile cannot be read; the message is one line with the place, the problem and the allowed values."""


class MeasuredInstruction(NamedTuple):
    """An instruction as it ran, in nanoseconds from the start of the profile."""

    id: int
    engine: str  # one of ENGINES
    opcode: str  # neuron-explorer's opcode, except TRANSPOSE for a MATMUL that transposes
    start_ns: int
    end_ns: int
    after: tuple[int, ...]  # ids of the instructions it waited for
    line: str  # source line of the kernel, "" if the profile has none
    ours: bool  # True for the kernel's instructions, False for the runtime's


class MeasuredPacket(NamedTuple):
    """An element moved by a DMA engine; `maker` of its descriptor: "hardware", "software" or "prepared"."""

    engine: int
    maker: str
    start_ns: int
    end_ns: int
    size: int


class MeasuredRun(NamedTuple):
    """One core's run, ordered by start. `missing` lists data that the profile lacks."""

    name: str
    total_ns: int
    instructions: tuple[MeasuredInstruction, ...]
    packets: tuple[MeasuredPacket, ...]
    missing: tuple[str, ...]
