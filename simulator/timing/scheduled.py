"""The result of a simulation: the times of each instruction and DMA, and the events that determined them."""

from __future__ import annotations

from typing import NamedTuple

# Reasons why an instruction waited, in addition to the kinds of dependency in dependencies.py (RAW, WAR, WAW, ORDER).
ENGINE = 4  # the engine was busy
BUFFER = 5  # SBUF or PSUM was full
PORT = 6  # another engine was using a port of the memory that the instruction accesses
TABLE = 7  # the Scalar Engine was loading the instruction's lookup table
OTHER_CORE = 8  # the other core arrived later
KINDS = 16
NOTHING = -1

# Values of `Phases.bound` in addition to the numbers of the 16 DMA engines.
PIPE, DESCRIPTORS = 16, 17


class Phases(NamedTuple):
    """The progress of a DMA.

    Its first byte can move at `first_byte`, which is `latency` after its first descriptors were generated. Each
    subsequent engine can start `skew` later. Starting with engine `place`, the engines begin the transfer at the times
    `begins`. In the pipe, which models the limit on their total throughput, the transfer begins at `pipe_begin`. The
    last byte arrives at `last`, a time determined by `bound` (an engine, PIPE or DESCRIPTORS).
    """

    first_byte: float
    latency: float
    skew: float
    place: int
    begins: list[float]
    pipe_begin: float
    last: float
    bound: int

    def could_begin(self, on: int) -> float:
        """Return the earliest time at which data could have begun to move on an engine or in the PIPE without
        queueing."""
        return self.first_byte + self.skew * (on - self.place) if on < PIPE else self.first_byte

    def begun(self, on: int) -> float:
        """Return the time at which data began to move on an engine or in the PIPE."""
        return self.pipe_begin if on == PIPE else self.begins[on - self.place]


class Schedule(NamedTuple):
    """The times of a program's instructions, in nanoseconds from the first trigger.

    Instruction i occupies its engine, QUEUES[queue[i]], from `start[i]` to `end[i]`, and its result can be read at
    `done[i]`. For a DMA, the trigger lasts from `start[i]` to `end[i]`, and the data move during `moving[i]`. `tables`
    contains the table loads of the Scalar Engine. `busy` contains the busy time of each queue in QUEUES and of SECOND,
    `dma_busy` contains the busy time of each DMA engine, and `dma_active` is the time during which any data moved.

    The remaining fields are used by critical_path.py. The last event for which instruction i waited occurred at
    `since[i]`. `cause[i]` is NOTHING, or the index of the instruction that caused the event, multiplied by KINDS, plus
    the kind of the event. `phases` contains the phases of each DMA, in the order of the triggers.
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
