"""The result of a simulation: the times of each instruction and DMA, and the reasons for them."""

from __future__ import annotations

from typing import NamedTuple

# Reasons why an instruction waited, in addition to the kinds of dependencies.py (RAW, WAR, WAW, ORDER).
ENGINE = 4  # its engine was busy
BUFFER = 5  # SBUF or PSUM was full
PORT = 6  # another engine was using a port of its memory
TABLE = 7  # the Scalar Engine was loading its table
OTHER_CORE = 8  # the other core arrived later
KINDS = 16
NOTHING = -1

# Limits of the last byte of a DMA, other than one of the 16 engines.
PIPE, DESCRIPTORS = 16, 17


class Phases(NamedTuple):
    """Progress of a DMA.

    Its first byte may move at `first_byte`, `latency` after its first descriptors were generated, and `skew` later on
    each further engine. The engines from `place` on start it at `begins`, all together at `pipe_begin`; the last byte
    arrives at `last`, limited by `bound` (an engine, PIPE or DESCRIPTORS).
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
        """Return the earliest time at which data could have started to move there without queueing."""
        return self.first_byte + self.skew * (on - self.place) if on < PIPE else self.first_byte

    def begun(self, on: int) -> float:
        """Return the time at which data started to move on an engine or in the PIPE."""
        return self.pipe_begin if on == PIPE else self.begins[on - self.place]


class Schedule(NamedTuple):
    """Times in nanoseconds from the first trigger. Instruction i occupies its engine, QUEUES[queue[i]], from `start[i]`
    to `end[i]`; its result can be read at `done[i]`. The trigger of a DMA lasts from start to end, its data move during
    `moving[i]`. `tables` are the Scalar Engine's table loads; `busy` has the busy time of each queue in QUEUES and of
    SECOND, `dma_busy` that of each DMA engine, and `dma_active` is the time in which any data moved.

    For critical_path.py: the last event that instruction i waited for occurred at `since[i]`; `cause[i]` is the
    instruction that caused it, times KINDS, plus its kind, or NOTHING. `phases` belong to the DMAs, in the order of
    their triggers.
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
