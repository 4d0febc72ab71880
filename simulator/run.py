"""What a simulated launch tells: outputs, the predicted time and where it goes.

Nothing is scheduled before somebody asks for a time, so a functional run that nobody times does not pay for it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from . import html
from .garbage import uncollected
from .instruction import Instruction, engine
from .sanitizer import SanitizerFinding
from .targets import PARTITIONS, Target
from .timing import trace
from .timing.capacity import Memory
from .timing.constants import machine, overrides, scaled_note
from .timing.expected_error import expected_error, kind_of
from .timing.pair_schedule import pair_schedule
from .timing.schedule import DMA, QUEUES, SECOND, Schedule, schedule

BOUND_SHARE = 0.5  # a resource that is busy for less of the kernel does not bound it: latencies do


class Event(NamedTuple):
    """One instruction on the timeline, in nanoseconds from the kernel's first trigger.

    On an engine, `start_ns` to `end_ns` is how long it is taken. A DMA is triggered at `issued_ns` and its data move
    from `start_ns` to `end_ns`; `engine` is then a queue, "dma load 0" or "dma store 0", as many as there are DMAs
    under way at a time. What the instruction writes can be read at `done_ns`. No two events of one `engine` overlap.
    """

    engine: str  # tensor, vector, scalar, gpsimd, or a DMA queue
    op: str
    start_ns: float
    end_ns: float
    done_ns: float
    issued_ns: float
    flops: int
    bytes: int  # that a DMA moves
    line: tuple[str, int]  # of the kernel: file, number
    name: str  # that the kernel gave it
    load: bool  # of a DMA: towards the chip
    position: int = -1  # in the program; -1 for what is no instruction of it


class Parts(NamedTuple):
    """What a launch consists of, for traces: (name, start_ns, end_ns) of each part, side by side, and the number of the
    part that each instruction of the program belongs to."""

    spans: tuple[tuple[str, float, float], ...]
    owners: tuple[int, ...]


class EngineUse(NamedTuple):
    """How long a resource was busy, and as a share of the kernel without its launch."""

    busy_ns: float
    share: float


_TWO_CORES = "what two cores take to meet is scaled: nobody has published it"


class ProgramTiming:
    """The timing of one program on one target, however often it is launched."""

    cores = 1

    def __init__(self, program: list[Instruction], target: Target, memory: Memory) -> None:
        self.program = program
        self.target = target
        self.memory = memory
        self.machine = machine(target.name)  # as it is now: constants may be overridden later
        self.changed = any(of == target.name for of, _, _ in overrides())
        self.blank_outputs: tuple[Any, ...] = ()  # of a shape-only run

    @cached_property
    def schedule(self) -> Schedule:
        with uncollected():
            return schedule(self.program, self.target, self.machine)

    @property
    def makespan(self) -> float:
        """Nanoseconds from the first trigger to the last result."""
        return self.schedule.makespan

    @cached_property
    def timeline(self) -> tuple[Event, ...]:
        return tuple(_events(self.program, self.schedule))

    @cached_property
    def engines(self) -> dict[str, EngineUse]:
        makespan = self.makespan
        busy = _busy(self.schedule)
        return {name: EngineUse(time, time / makespan if makespan else 0.0) for name, time in busy.items()}

    @cached_property
    def flops(self) -> int:
        return sum(i.flops for i in self.program)

    @cached_property
    def matmul_flops(self) -> int:
        return sum(i.flops for i in self.program if i.engine is engine.tensor)

    @cached_property
    def hbm_bytes(self) -> int:
        return sum(i.hbm_bytes for i in self.program)


class PairTiming(ProgramTiming):
    """The timing of a launch on two cores. `program` is core 0's instructions, then core 1's."""

    cores = 2

    def __init__(
        self,
        programs: tuple[list[Instruction], list[Instruction]],
        meetings: list[tuple[int, int]],
        target: Target,
        memory: Memory,
    ) -> None:
        super().__init__([*programs[0], *programs[1]], target, memory)
        self.programs = programs
        self.meetings = meetings

    @cached_property
    def schedules(self) -> tuple[Schedule, Schedule]:
        """Of core 0 and of core 1."""
        with uncollected():
            return pair_schedule(self.programs, self.meetings, self.target, self.machine)

    @property
    def schedule(self) -> Schedule:
        """Of the core that ends last."""
        return max(self.schedules, key=lambda s: s.makespan)

    @cached_property
    def timeline(self) -> tuple[Event, ...]:
        """The events of both, on "core 0 tensor" and so on."""
        events = [
            event._replace(engine=f"core {core} {event.engine}")
            for core, program in enumerate(self.programs)
            for event in _events(program, self.schedules[core])
        ]
        return tuple(sorted(events, key=lambda event: (event.start_ns, event.engine)))

    @cached_property
    def engines(self) -> dict[str, EngineUse]:
        """The mean of both cores."""
        first, second = (_busy(s) for s in self.schedules)
        makespan = self.makespan
        mean = {name: (first[name] + second[name]) / 2 for name in first}
        return {name: EngineUse(time, time / makespan if makespan else 0.0) for name, time in mean.items()}


class Run:
    """One launch. Figures of time are predictions; `note` is what must be said beside them (trn3), or None.

    outputs: what the kernel returned, as arrays (None where functional=False).
    """

    def __init__(
        self,
        prediction: ProgramTiming,
        outputs: tuple[Any, ...],
        name: str,
        profiled: bool,
        findings: Sequence[SanitizerFinding] = (),
    ) -> None:
        self.prediction = prediction
        self.outputs = outputs
        self.name = name
        self.profiled = profiled
        self.findings = list(findings)  # of the sanitizer, where it was asked for
        self.parts: Parts | None = None  # set by whoever knows them
        self.target = prediction.target.name
        notes = [scaled_note(self.target), _TWO_CORES if prediction.cores == 2 else None]
        self.note = "; ".join(note for note in notes if note) or None

    @property
    def program(self) -> list[Instruction]:
        """The instructions, in the kernel's order."""
        return self.prediction.program

    @property
    def launch_us(self) -> float:
        """What a launch takes beside the kernel's own work: as a benchmark counts it, or a profile's total_time."""
        constants = self.prediction.machine
        profiled = constants.launch_before_ns + constants.launch_after_ns
        return (profiled if self.profiled else constants.launch_ns) / 1000

    @property
    def latency_us(self) -> float:
        """Predicted device time in microseconds, launch included."""
        return self.launch_us + self.prediction.makespan / 1000

    @property
    def timeline(self) -> tuple[Event, ...]:
        """One event an instruction, by start."""
        return self.prediction.timeline

    @property
    def engines(self) -> dict[str, EngineUse]:
        """Busy time and share of tensor, vector, scalar, gpsimd; of dma (any data moving, as a profile's
        dma_active_time), dma_issue (the triggers) and dma_engines (the busiest of the 16)."""
        return self.prediction.engines

    @property
    def memory(self) -> Memory:
        """Peak SBUF bytes of a partition and PSUM banks, in program order."""
        return self.prediction.memory

    @property
    def flops(self) -> int:
        """Operations asked for: 2 a multiply-accumulate, 1 an elementwise operation."""
        return self.prediction.flops

    @property
    def hbm_bytes(self) -> int:
        """Bytes read from and written to HBM."""
        return self.prediction.hbm_bytes

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation as AWS's profiler defines it: matmul operations over what the PE array could do in
        16 bits in the whole time, 2 * 128 * 128 * clock, also for float32 (profile-schema-reference.rst)."""
        peak = 2 * PARTITIONS**2 * self.prediction.target.tensor_ghz * 1000 * self.prediction.cores  # FLOP a us
        return self.prediction.matmul_flops / (peak * self.latency_us)

    @property
    def mbu(self) -> float:
        """HBM bytes over what the stack of HBM that a core uses could move in the whole time."""
        return self.hbm_bytes / (self.prediction.machine.hbm_stack_rate * 1000 * self.latency_us)

    @property
    def bound_by(self) -> str:
        """tensor, vector, scalar, gpsimd or dma: whichever is busy for the largest share of the kernel without its
        launch, DMA by its triggers or by the time in which data move; "latency" where that is less than half."""
        shares = {name: self.engines[name].share for name in QUEUES}
        shares["dma"] = max(shares["dma"], self.engines["dma_issue"].share)
        name = max(shares, key=lambda key: shares[key])
        return name if shares[name] >= BOUND_SHARE else "latency"

    def _repr_html_(self) -> str:
        """The figures and the timeline, as a notebook shows them."""
        return html.fragment(self)

    @property
    def latency_error(self) -> float | None:
        """How far `latency_us` is likely to be off, as a share of it: two measurements of three lie within. None for a
        target that nobody has measured, and for a machine with other constants."""
        return None if self.prediction.changed else expected_error(self.target, self.kind)

    @property
    def kind(self) -> str:
        """What bounds the launch, as expected errors tell kernels apart (timing/expected_error.py)."""
        issues = self.engines["dma_issue"].share >= self.engines["dma_engines"].share
        return kind_of(self.bound_by, issues, self.launch_us, self.latency_us)

    def trace(self) -> dict[str, Any]:
        """The timeline as a Chrome trace (an object that json.dumps takes), for Perfetto."""
        parts = self.parts.spans if self.parts else ()
        return trace.chrome_trace([(self.name, self.launch_us, self.timeline, parts)])

    def __repr__(self) -> str:
        return f"<Run of {self.name} on {self.target}: {len(self.program)} instructions>"


def write_trace(path: str | Path, runs: Iterable[Run]) -> None:
    """Write the timelines of runs, one after the other, as a Chrome trace JSON file that opens in Perfetto."""
    trace.write(
        Path(path), [(run.name, run.launch_us, run.timeline, run.parts.spans if run.parts else ()) for run in runs]
    )


def _events(program: list[Instruction], s: Schedule) -> Iterator[Event]:
    """One event an instruction, and the Scalar Engine's table loads, by start."""
    events = [
        Event("scalar", "load_table", start, end, end, start, 0, 0, ("", 0), "", False) for start, end in s.tables
    ]
    for index, i in enumerate(program):
        issued, end, done = s.start[index], s.end[index], s.done[index]
        if i.dma is None:
            unit = QUEUES[s.queue[index]]
            events.append(Event(unit, i.op, issued, end, done, issued, i.flops, 0, i.line, i.name or "", False, index))
        else:
            if i.dma.software:
                events.append(Event("gpsimd", "descriptors", issued, end, end, issued, 0, 0, i.line, "", False))
            start, end = s.moving[index]
            unit = "dma load" if i.dma.load else "dma store"
            events.append(
                Event(
                    unit, i.op, start, end, done, issued, i.flops, i.dma.bytes, i.line, i.name or "", i.dma.load, index
                )
            )
    events.sort(key=lambda event: (event.start_ns, event.engine))
    return _with_queues(events)


def _busy(s: Schedule) -> dict[str, float]:
    """Nanoseconds that each engine was busy, and DMA in three senses."""
    busy = dict(zip(QUEUES, s.busy))
    return busy | {"dma": s.dma_active, "dma_issue": max(s.busy[DMA], s.busy[SECOND]), "dma_engines": max(s.dma_busy)}


def _with_queues(events: list[Event]) -> Iterator[Event]:
    """The events, in order, with DMAs spread over queues so that those of one queue do not overlap."""
    free: dict[str, list[tuple[float, int]]] = {"dma load": [], "dma store": []}
    for event in events:
        queues = free.get(event.engine)
        if queues is None:
            yield event
            continue
        number = len(queues)
        if queues and queues[0][0] <= event.start_ns:
            number = heapq.heappop(queues)[1]
        heapq.heappush(queues, (event.end_ns, number))
        yield event._replace(engine=f"{event.engine} {number}")
