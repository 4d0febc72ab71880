"""A measured run, in the form that all readers of profiles return."""

from __future__ import annotations

from typing import NamedTuple

MOST_BYTES = 1 << 30  # of a file
MOST_ROWS = 5_000_000  # of a table
ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")


class ProfileError(Exception):
    """A profile cannot be read; the message is one line: what, where, what is allowed."""


class MeasuredInstruction(NamedTuple):
    """An instruction as it ran, in nanoseconds from the start of the profile."""

    id: int
    engine: str  # one of ENGINES
    opcode: str  # as neuron-explorer calls it, but TRANSPOSE for a MATMUL that transposes
    start_ns: int
    end_ns: int
    after: tuple[int, ...]  # ids of the instructions it waited for
    line: str  # of the kernel, "" where the profile has none
    ours: bool  # the kernel's, not the runtime's


class MeasuredPacket(NamedTuple):
    """An element that a DMA engine moved; `maker` made its descriptor: "hardware", "software" or "prepared"."""

    engine: int
    maker: str
    start_ns: int
    end_ns: int
    size: int


class MeasuredRun(NamedTuple):
    """One core's run: everything in the order of its start. `missing`: what the profile does not tell."""

    name: str
    total_ns: int
    instructions: tuple[MeasuredInstruction, ...]
    packets: tuple[MeasuredPacket, ...]
    missing: tuple[str, ...]
