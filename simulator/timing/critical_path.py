"""Trace the critical path of a schedule: the resource to which each nanosecond from the first trigger to the last
result is attributed.

The path is traced back from the instruction that ends last. Each step leads to the last event for which the instruction
waited: an operand, the engine, a buffer, a DMA queue, or the other core. The time in between is attributed to an
instruction and to one of these resources:

tensor, vector,    execution on an engine, until the next instruction or the consumer of the result can proceed; for the
scalar, gpsimd     Scalar Engine, this includes table loads, and for GpSimd, generating descriptors in software
dma_issue          the trigger of a DMA and the generation of its descriptors by hardware
dma_latency        from the descriptors to the first byte, and from the last byte to the semaphore
dma_bandwidth      data transfer on the DMA engines and in HBM, including transfers of earlier DMAs in the queue
semaphore          from a result to the engine that waits for it
other_core         synchronisation of the two cores, excluding the work that the other core did in the meantime

Steps are contiguous. Measured in whole picoseconds, they add up to the makespan exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from ..machine.instruction import Instruction
from .dependencies import ORDER, RAW, WAR, WAW
from .schedule import POOL, QUEUES
from .scheduled import BUFFER, DESCRIPTORS, ENGINE, KINDS, NOTHING, OTHER_CORE, PIPE, PORT, TABLE, Phases, Schedule

RESOURCES = (
    "launch",
    "dma_issue",
    "dma_latency",
    "dma_bandwidth",
    "tensor",
    "vector",
    "scalar",
    "gpsimd",
    "semaphore",
    "other_core",
)
WAITS = {
    RAW: "operand",
    WAR: "overwrite",
    WAW: "overwrite",
    ORDER: "order",
    ENGINE: "engine",
    BUFFER: "buffer",
    PORT: "port",
    TABLE: "table",
    OTHER_CORE: "other core",
}
_Key = TypeVar("_Key", bound=Hashable)
MEETINGS = frozenset({"core_barrier"})  # instructions that only synchronise the cores


class Step(NamedTuple):
    """An interval of the critical path, spent by an instruction on one of RESOURCES.

    Times are in nanoseconds from the first trigger. `position` is the index of the instruction in the program, and
    `line` contains the file and line of the kernel. `waited` describes the last event for which the instruction waited:
    a value of WAITS, or "" if it did not wait.
    """

    start_ns: float
    end_ns: float
    resource: str
    op: str
    line: tuple[str, int]
    name: str
    position: int
    waited: str

    @property
    def picoseconds(self) -> int:
        """Return the length in whole picoseconds. The lengths of all steps of a path add up to the makespan."""
        return round(self.end_ns * 1000) - round(self.start_ns * 1000)


def critical_times(steps: Iterable[Step], owner: Callable[[Step], _Key]) -> dict[_Key, dict[str, int]]:
    """Return the picoseconds of the steps, summed for each owner and resource."""
    times: dict[_Key, dict[str, int]] = {}
    for step in steps:
        spent = times.setdefault(owner(step), {})
        spent[step.resource] = spent.get(step.resource, 0) + step.picoseconds
    return times


def critical_path(program: Sequence[Instruction], schedule: Schedule) -> tuple[Step, ...]:
    """Return the steps of one core's schedule, from time 0 to its end."""
    return tuple(reversed(_Walk((program,), (schedule,), ()).run(0)))


def pair_critical_path(
    programs: Sequence[Sequence[Instruction]], schedules: Sequence[Schedule], meetings: Sequence[tuple[int, int]]
) -> tuple[Step, ...]:
    """Return the steps of two synchronising cores, from time 0 to the end of the core that finishes last.

    Positions refer to the concatenation of both programs.
    """
    last = max(range(len(schedules)), key=lambda core: schedules[core].makespan)
    return tuple(reversed(_Walk(programs, schedules, meetings).run(last)))


class _Walk:
    """A backward trace of the critical path. `steps` are appended in reverse order."""

    def __init__(
        self,
        programs: Sequence[Sequence[Instruction]],
        schedules: Sequence[Schedule],
        meetings: Sequence[tuple[int, int]],
    ) -> None:
        self.programs = programs
        self.schedules = schedules
        self.partners = [{pair[core]: pair[1 - core] for pair in meetings} for core in range(len(programs))]
        self.offsets = (0, len(programs[0]))
        self.queues: dict[int, _DmaQueues] = {}
        self.steps: list[Step] = []
        self.time = 0.0  # the path before this time has not been traced yet

    def run(self, core: int) -> list[Step]:
        s = self.schedules[core]
        self.time, index = s.makespan, _last(s)
        while index >= 0:
            if index in s.phases and self.time > s.end[index]:
                index = self._through_dma(core, index)
            self._step(core, index, s.start[index], self._resource(core, index))
            cause = s.cause[index]
            kind = cause & (KINDS - 1)
            if kind == OTHER_CORE:
                partner = self.partners[core][index]
                self._step(core, index, self.schedules[1 - core].start[partner], "other_core")
                core, index = 1 - core, partner
                s = self.schedules[core]
            else:
                self._step(core, index, s.since[index], "scalar" if kind == TABLE else "semaphore")
                index = cause // KINDS
        return self.steps

    def _step(self, core: int, index: int, start: float, resource: str) -> None:
        """Attribute the time between `start` and the part of the path that is already traced to an instruction and a
        resource."""
        if start < self.time:
            waited = WAITS.get(self.schedules[core].cause[index] & (KINDS - 1), "")
            i, position = self.programs[core][index], self.offsets[core] + index
            self.steps.append(
                Step(
                    start_ns=start,
                    end_ns=self.time,
                    resource=resource,
                    op=i.op,
                    line=i.line,
                    name=i.name or "",
                    position=position,
                    waited=waited,
                )
            )
            self.time = start

    def _resource(self, core: int, index: int) -> str:
        """Return the resource that is used while an instruction occupies its engine or, for a DMA, while it is
        triggered."""
        queue = self.schedules[core].queue[index]
        if index in self.schedules[core].phases:
            return "gpsimd" if queue == POOL else "dma_issue"
        return "other_core" if self.programs[core][index].op in MEETINGS else QUEUES[queue]

    def _through_dma(self, core: int, index: int) -> int:
        """Trace from the last byte of a DMA back to the descriptors of the first DMA in its queue. Return that DMA."""
        phases = self.schedules[core].phases
        dma = phases[index]
        bound = dma.bound
        self._step(core, index, dma.last, "dma_latency")
        if bound == DESCRIPTORS:
            self._step(core, index, dma.last - dma.latency, "dma_latency")
            return index
        while True:
            begin = dma.begun(bound)
            self._step(core, index, begin, "dma_bandwidth")
            if begin <= dma.could_begin(bound):
                break
            if core not in self.queues:
                self.queues[core] = _DmaQueues(phases)
            index = self.queues[core].before(index, bound)
            dma = phases[index]
        self._step(core, index, dma.first_byte - dma.latency, "dma_latency")
        return index


def _last(s: Schedule) -> int:
    """Return the instruction that ends last, or NOTHING if the program is empty."""
    for times in (s.done, s.end):
        if s.makespan in times:
            return times.index(s.makespan)
    return NOTHING


class _DmaQueues:
    """The order in which each DMA engine served DMAs."""

    def __init__(self, phases: dict[int, Phases]) -> None:
        self._order = list(phases)
        self._numbers = {index: number for number, index in enumerate(self._order)}
        self._served: list[list[int]] = [[] for _ in range(PIPE)]  # DMA indices, for each engine
        self._piped = [number for number, phase in enumerate(phases.values()) if phase.begins]
        for number, phase in enumerate(phases.values()):
            for engine in range(phase.place, phase.place + len(phase.begins)):
                self._served[engine].append(number)

    def before(self, index: int, bound: int) -> int:
        """Return the DMA that an engine or the pipe served immediately before the given one."""
        number = self._numbers[index]
        if bound == PIPE:
            return self._order[self._piped[bisect_left(self._piped, number) - 1]]
        served = self._served[bound]
        return self._order[served[bisect_left(served, number) - 1]]
