"""A schedule as the simulation leaves it, and why each instruction and DMA came when it did."""

from __future__ import annotations

from typing import NamedTuple

# Reasons why an instruction waited, beside the kinds of dependencies.py (RAW, WAR, WAW, ORDER).
ENGINE = 4  # its engine was at work
BUFFER = 5  # SBUF or PSUM was full
PORT = 6  # another engine held a port of its memory
TABLE = 7  # the Scalar Engine loaded its table
OTHER_CORE = 8  # the other core came later
KINDS = 16
NOTHING = -1

# Limits on the last byte of a DMA, beside one of the 16 engines.
PIPE, DESCRIPTORS = 16, 17


class Phases(NamedTuple):
    """Progress of a DMA: its first byte may move at `first_byte`, `latency` after its first descriptors were generated,
    and `skew` later on each further engine; the engines from `place` on began it at `begins`, all of them together at
    `pipe_begin`; the last byte arrived at `last`, limited by `bound` (an engine, PIPE or DESCRIPTORS)."""

    first_byte: float
    latency: float
    skew: float
    place: int
    begins: list[float]
    pipe_begin: float
    last: float
    bound: int

    def could_begin(self, on: int) -> float:
        """Return the earliest time at which data could have begun to move there, with nothing in the way."""
        return self.first_byte + self.skew * (on - self.place) if on < PIPE else self.first_byte

    def begun(self, on: int) -> float:
        """Return the time at which data began to move on an engine or in the PIPE."""
        return self.pipe_begin if on == PIPE else self.begins[on - self.place]


class Schedule(NamedTuple):
    """Times in nanoseconds from the first trigger. Instruction i takes its engine, QUEUES[queue[i]], from `start[i]` to
    `end[i]`; what it writes can be read at `done[i]`. A DMA's trigger takes start to end, its data move during
    `moving[i]`. `tables` are the Scalar Engine's table loads; `busy` is of each queue of QUEUES and of SECOND,
    `dma_busy` of each DMA engine, `dma_active` the time in which any data moved.

    For critical_path.py: the last thing that instruction i waited for was over at `since[i]`; `cause[i]` is whose,
    times KINDS, plus what it was, NOTHING where it waited for none. `phases` are of the DMAs, in the order of their
    triggers.
    """

    queue: list[int]
    start: list[float]
    end: list[float]
    done: list[float]
    tables: list[tuple[float, float]]
    busy: list[float]
    dma_busy: list[float]
    dma_active: float
    moving: dict[int, tuple[float, float]]
    makespan: float
    sbuf_peak: int
    psum_peak: int
    cause: list[int]
    since: list[float]
    phases: dict[int, Phases]
