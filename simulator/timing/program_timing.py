"""Time a program's instructions on one or two cores.

Scheduling is lazy, so that a functional run whose timing is never requested does not incur the cost.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

from ..machine.chip import PARTITIONS, Target
from ..machine.host import uncollected
from ..machine.instruction import Instruction, engine
from .capacity import Memory
from .constants import Machine, machine, overrides
from .critical_path import Step, critical_path, pair_critical_path
from .full_psum import FullPsum, find_full_psum
from .pair_schedule import pair_schedule
from .reuse import Reuse, find_reuse
from .schedule import DMA, QUEUES, SECOND, schedule
from .scheduled import Schedule
from .what_if import faster_machine, faster_program


class Event(NamedTuple):
    """One instruction on the timeline. Times are in nanoseconds from the kernel's first trigger.

    An instruction occupies its engine from `start_ns` to `end_ns`. A DMA is triggered at `issued_ns`, and its data move
    from `start_ns` to `end_ns`; its `engine` is a queue such as "dma load 0" or "dma store 0". There are as many queues
    as concurrent DMAs. The result can be read at `done_ns`. Events with the same `engine` do not overlap.
    """

    engine: str  # tensor, vector, scalar, gpsimd, or a DMA queue
    op: str
    start_ns: float
    end_ns: float
    done_ns: float
    issued_ns: float
    flops: int = 0
    bytes: int = 0  # bytes moved by a DMA
    line: tuple[str, int] = ("", 0)  # the kernel's file and line
    name: str = ""  # name specified by the kernel
    load: bool = False  # True for a DMA into SBUF or PSUM
    position: int = -1  # index in the program; -1 for other events, such as table loads


class EngineUse(NamedTuple):
    """The busy time of a resource, and its fraction of the kernel's time excluding the launch."""

    busy_ns: float
    share: float


class ProgramTiming:
    """The timing of one program on one target, which all launches of the program share."""

    cores = 1

    def __init__(self, program: list[Instruction], target: Target, memory: Memory) -> None:
        self.program = program
        self.programs: tuple[list[Instruction], ...] = (program,)  # the program of each core
        self.target = target
        self.memory = memory
        self.machine = machine(target.name)  # captured here because constants may be overridden later
        self.changed = any(of == target.name for of, _, _ in overrides())
        self.blank_outputs: tuple[Any, ...] = ()  # outputs of a shape-only run

    @cached_property
    def schedule(self) -> Schedule:
        with uncollected():
            return schedule(self.program, self.target, self.machine)

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedule of each core."""
        return (self.schedule,)

    @property
    def makespan(self) -> float:
        """Return the nanoseconds from the first trigger to the last result."""
        return self.schedule.makespan

    @cached_property
    def critical_path(self) -> tuple[Step, ...]:
        """Return the steps of the critical path, which cover the makespan without gaps."""
        return critical_path(self.program, self.schedule)

    def faster_makespan(self, resource: str, times: float) -> float:
        """Return the makespan in nanoseconds if a resource (timing/critical_path.py) were `times` as fast.

        Each engine executes the instruction that can start first, so changed durations may result in a worse order.
        Nevertheless, for a faster resource, the returned makespan is at most the current makespan, because the current
        order remains possible and no instruction would start later in it.
        """
        programs = tuple(faster_program(program, resource, times) for program in self.programs)
        makespan = self._makespan_of(programs, faster_machine(self.machine, resource, times))
        return min(makespan, self.makespan) if times >= 1 else max(makespan, self.makespan)

    def _makespan_of(self, programs: tuple[list[Instruction], ...], constants: Machine) -> float:
        """Return the makespan in nanoseconds if the cores ran other programs."""
        with uncollected():
            return schedule(programs[0], self.target, constants).makespan

    @cached_property
    def reuse(self) -> Reuse | None:
        """Return the tiles whose reuse costs the most time, and the predicted gain from not reusing them.

        Return None if the gain is small.
        """
        if self.machine.tile_renaming > 0:
            return None
        return find_reuse(self.programs, self.makespan, lambda p: self._makespan_of(p, self.machine))

    @cached_property
    def full_psum(self) -> FullPsum | None:
        """Return the small tiles that occupy the PSUM banks for which the kernel waits, and the predicted gain from
        packing them.

        The result is None if the gain is small, or if the kernel runs on two cores.
        """
        if len(self.programs) > 1:
            return None

        def shared() -> float:
            with uncollected():
                return schedule(self.program, self.target, self.machine, shared_banks=True).makespan

        return find_full_psum(self.program, self.makespan, shared)

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
    def hardware_flops(self) -> int:
        """Return the number of operations of the PE array, including transposes."""
        return sum(array_flops(i, self.target) for i in self.program if i.engine is engine.tensor)

    @cached_property
    def hbm_bytes(self) -> int:
        return sum(i.hbm_bytes for i in self.program)


def array_flops(instruction: Instruction, target: Target) -> int:
    """Return the number of operations of a Tensor Engine instruction: 2 per multiply-accumulate.

    Multiplications by zero are included, and a transpose counts as a product with the identity. The result is limited
    to the 16-bit peak over the time for which the array is occupied: work at twice the rate (pairs of 8-bit rows,
    overlapped transposes on trn3) is counted once, like the adjusted FLOPs of AWS's profiler.
    """
    flops = instruction.flops
    if instruction.op == "nc_transpose":
        data, result = instruction.reads[0], instruction.writes[0]
        rows = data.row_end - data.row
        flops = 2 * rows * rows * (result.row_end - result.row)
    return min(flops, int(peak_flops(target) * instruction.cost.interval))


def peak_flops(target: Target) -> float:
    """Return the 16-bit peak of a core's PE array, in FLOP per nanosecond (A1, A2, A3: 2 * 128 * 128 * clock)."""
    return 2 * PARTITIONS**2 * target.tensor_ghz


class PairTiming(ProgramTiming):
    """The timing of a launch on two cores.

    `program` contains the instructions of core 0, followed by the instructions of core 1.
    """

    cores = 2

    def __init__(
        self,
        programs: tuple[list[Instruction], list[Instruction]],
        meetings: list[tuple[int, int]],
        target: Target,
        memory: Memory,
    ) -> None:
        super().__init__([*programs[0], *programs[1]], target, memory)
        self.programs: tuple[list[Instruction], list[Instruction]] = programs
        self.meetings = meetings

    @property
    def schedules(self) -> tuple[Schedule, Schedule]:
        """The schedules of core 0 and core 1."""
        return self._schedules

    @cached_property
    def _schedules(self) -> tuple[Schedule, Schedule]:
        with uncollected():
            return pair_schedule(self.programs, self.meetings, self.target, self.machine)

    @property
    def schedule(self) -> Schedule:
        """The schedule of the core that ends last."""
        return max(self.schedules, key=lambda s: s.makespan)

    @cached_property
    def critical_path(self) -> tuple[Step, ...]:
        """The critical path through both cores; its positions are indices into `program`."""
        return pair_critical_path(self.programs, self.schedules, self.meetings)

    def _makespan_of(self, programs: tuple[list[Instruction], ...], constants: Machine) -> float:
        first, second = programs
        with uncollected():
            schedules = pair_schedule((first, second), self.meetings, self.target, constants)
        return max(schedule.makespan for schedule in schedules)

    @cached_property
    def timeline(self) -> tuple[Event, ...]:
        """Return the events of both cores. The names of the engines are prefixed, as in "core 0 tensor"."""
        events = [
            event._replace(engine=f"core {core} {event.engine}")
            for core, program in enumerate(self.programs)
            for event in _events(program, self.schedules[core])
        ]
        return tuple(sorted(events, key=lambda event: (event.start_ns, event.engine)))

    @cached_property
    def engines(self) -> dict[str, EngineUse]:
        """Return the utilization of each engine, averaged over both cores."""
        first, second = (_busy(s) for s in self.schedules)
        makespan = self.makespan
        mean = {name: (first[name] + second[name]) / 2 for name in first}
        return {name: EngineUse(time, time / makespan if makespan else 0.0) for name, time in mean.items()}


def _events(program: list[Instruction], s: Schedule) -> Iterator[Event]:
    """Return one event per instruction, and the table loads of the Scalar Engine, sorted by start time."""
    events = [Event("scalar", "load_table", start, end, done_ns=end, issued_ns=start) for start, end in s.tables]
    for index, i in enumerate(program):
        start = issued = s.start[index]
        end, dma = s.end[index], i.dma
        if dma is None:
            unit = QUEUES[s.queue[index]]
        else:
            if dma.software:
                events.append(Event("gpsimd", "descriptors", start, end, done_ns=end, issued_ns=start, line=i.line))
            start, end = s.moving[index]
            unit = "dma load" if dma.load else "dma store"
        events.append(
            Event(
                engine=unit,
                op=i.op,
                start_ns=start,
                end_ns=end,
                done_ns=s.done[index],
                issued_ns=issued,
                flops=i.flops,
                bytes=dma.bytes if dma else 0,
                line=i.line,
                name=i.name or "",
                load=dma is not None and dma.load,
                position=index,
            )
        )
    events.sort(key=lambda event: (event.start_ns, event.engine))
    return _with_queues(events)


def _busy(s: Schedule) -> dict[str, float]:
    """Return the busy time of each engine in nanoseconds, and the busy time of the DMA engines according to three
    definitions."""
    busy = dict(zip(QUEUES, s.busy))
    return busy | {"dma": s.dma_active, "dma_issue": max(s.busy[DMA], s.busy[SECOND]), "dma_engines": max(s.dma_busy)}


def _with_queues(events: list[Event]) -> Iterator[Event]:
    """Assign DMAs to queues so that DMAs in the same queue do not overlap, and yield the events in order."""
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
