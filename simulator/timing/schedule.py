"""Schedule a program's instructions with a discrete-event simulation of the engines, the DMA engines and memory.

The compiler's schedule is not visible in NKI. The model makes the following assumptions:
- Each engine executes one instruction at a time. Of the instructions that can start, it executes the first in program
  order, because the compiler reorders independent instructions so that none is delayed by an earlier instruction whose
  operands are not ready (`nl.no_reorder` prevents reordering).
- Loads from HBM are issued in the order of their first use, not in the order of the kernel (rows o20 to o26, o44), and
  before stores that could be issued at the same time, because loads have separate queues in profiles.
- A load from a tensor that the kernel has stored waits only for the stores that write the bytes that it reads, not for
  the whole tensor, because each DMA has its own semaphore (profiles of p01 to p04).
- GpSimd generates descriptors between its other instructions; a waiting store does not block a load (k07).
- All other DMA triggers share one issue slot, as in the published profiles. The exception is triggers that the kernel
  assigns to the Scalar Engine, whose descriptor generator operates concurrently with the other one and with computation
  (A2: two instances). DMAs then overlap to the extent that the 16 DMA engines allow; each engine serves them in issue
  order.
- DMAs on GpSimd's dedicated DMA engines (sendrecv with dma_engine.gpsimd_dma) are not queued on the 16 engines (A2).
- Every tile occupies a buffer from its first write to its last access (dependencies.py). Buffers are allocated in
  program order as far as SBUF and PSUM have space, which limits prefetching.

Each step selects the engine that can start an instruction first, so time never decreases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from types import MappingProxyType

from ..machine.chip import PARTITIONS, Target
from ..machine.instruction import Instruction, engine
from ..machine.memory import PSUM, SBUF
from .buffers import Buffers
from .clock import PeClock
from .constants import Machine, machine
from .dependencies import ORDER, RAW, WAR, analyse
from .dma import ENGINES, channel_time, engine_times, phases_beside, trigger
from .ports import Ports
from .scheduled import BUFFER, DESCRIPTORS, ENGINE, KINDS, NOTHING, OTHER_CORE, PIPE, PORT, TABLE, Phases, Schedule

QUEUES = ("tensor", "vector", "scalar", "gpsimd", "dma")
PE, DVE, ACT, POOL, DMA, SECOND = range(6)  # SECOND: DMAs whose descriptors the Scalar Engine generates
_QUEUE = {
    engine.tensor: PE,
    engine.vector: DVE,
    engine.scalar: ACT,
    engine.gpsimd: POOL,
    engine.dma: DMA,
    engine.sync: POOL,
    engine.unknown: POOL,
}
_UNITS = (engine.tensor, engine.vector, engine.scalar, engine.gpsimd, engine.dma)
_NEVER = float("inf")
Times = tuple[float, float, float]  # the `start`, `end` and `done` times of an instruction


def schedule(
    program: list[Instruction],
    target: Target,
    constants: Machine | None = None,
    releases: Mapping[int, float] = MappingProxyType({}),
    clock: PeClock | None = None,
    shared_banks: bool = False,
) -> Schedule:
    """Return the schedule of a program on a target.

    `constants` and `clock` (of the Tensor Engine) replace those of the target. Instructions in `releases` do not start
    before the given time. If `shared_banks`, small tiles share banks of PSUM (timing/full_psum.py).
    """
    simulation = _Simulation(program, target, constants or machine(target.name), releases)
    simulation.buffers.shares_banks = shared_banks
    simulation.clock = simulation.clock if clock is None else clock
    return simulation.run()


class _Simulation:
    def __init__(
        self, program: list[Instruction], target: Target, constants: Machine, releases: Mapping[int, float]
    ) -> None:
        self.program = program
        self.machine = m = constants
        self.hops = (m.hop_tensor_ns, m.hop_vector_ns, m.hop_scalar_ns, m.hop_gpsimd_ns, m.hop_dma_ns, m.hop_scalar_ns)
        self.landed = (m.landed_tensor_ns, *[m.landed_ns] * 3, m.landed_dma_ns, m.landed_ns)
        graph = analyse(program, renames=m.tile_renaming > 0)
        self.successors, self.uses, self.waits, self.births = graph.successors, graph.uses, graph.waits, graph.births
        count = len(program)
        self.start, self.end, self.done = [0.0] * count, [0.0] * count, [0.0] * count
        self.queue = [_queue_of(instruction) for instruction in program]
        self.cost = [instruction.cost for instruction in program]
        self.queued = [0.0] * (SECOND + 1)  # queued nanoseconds of instructions with a choice of engines
        self.ready = [0.0] * count  # earliest possible start, given the dependencies resolved so far
        self.cause, self.since = [NOTHING] * count, [0.0] * count
        self.phases: dict[int, Phases] = {}
        for index, time in releases.items():
            self.ready[index] = self.since[index] = time
            self.cause[index] = NOTHING * KINDS + OTHER_CORE
        self.turn = self._turns(m.loads_by_use > 0)
        self._look_ahead(int(m.lookahead))
        self.free = [0.0] * (SECOND + 1)
        self.last = [NOTHING] * (SECOND + 1)  # the most recent instruction of each engine
        self.previous = NOTHING  # the instruction before the most recent one, on the same engine
        self.now: list[list[int]] = [[] for _ in range(SECOND + 1)]  # priorities of the instructions that can start now
        self.later: list[list[tuple[float, int]]] = [[] for _ in range(SECOND + 1)]  # (ready time, priority)
        self.next = [_NEVER] * (SECOND + 1)  # earliest time at which each engine can start its next instruction
        self.busy = [0.0] * (SECOND + 1)
        self.clock = PeClock(self.machine.warm_window_ns, self.machine.warm_utilization)
        self.table = ""
        self.tables: list[tuple[float, float]] = []
        self.dma_free, self.dma_busy = [0.0] * ENGINES, [0.0] * ENGINES
        self.moving: dict[int, tuple[float, float]] = {}
        self.moves: dict[int, tuple[int, tuple[float, ...], float]] = {}  # times of each `Transfer`, by id
        self.dma_active = self.last_moved = self.pipe_free = 0.0
        sbuf, psum = graph.placed[SBUF], graph.placed[PSUM]
        self.ports = Ports(target.generation, psum_placed=psum > 0)
        self.buffers = Buffers(graph.births, sbuf, psum, target.usable_sbuf_bytes)

    def run(self) -> Schedule:
        for index, _ in self.births:
            self.waits[index] += 1
        for index, waits in enumerate(self.waits):
            if not waits:
                self._enter(index)
        self._give_buffers(0.0)
        left = count = len(self.program)
        buffers, starts = self.buffers, self.next
        while left:
            time = min(starts)
            if buffers.next_release <= time:
                self._give_buffers(buffers.next_release)
                continue
            queue = starts.index(time)
            now, later = self.now[queue], self.later[queue]
            while later and later[0][0] <= time:
                heappush(now, self.turn[heappop(later)[1]])
            self._issue(heappop(now) % count, queue, time)
            free = self.free[queue]
            starts[queue] = free if now else max(free, later[0][0]) if later else _NEVER
            left -= 1
        makespan = max(max(self.done, default=0.0), max(self.end, default=0.0))
        return Schedule(
            queue=self.queue,
            start=self.start,
            end=self.end,
            done=self.done,
            tables=self.tables,
            busy=self.busy,
            dma_busy=self.dma_busy,
            dma_active=self.dma_active,
            moving=self.moving,
            makespan=makespan,
            sbuf_peak=self.buffers.sbuf_peak,
            psum_peak=self.buffers.psum_peak,
            cause=self.cause,
            since=self.since,
            phases=self.phases,
        )

    def _turns(self, loads_by_use: bool) -> list[int]:
        """Return the issue priority of each instruction. Modulo the length of the program, the priority is the index of
        the instruction."""
        count = len(self.program)
        turns = list(range(0, 2 * count * count, 2 * count + 1)) if count else []
        dmas = [instruction.dma for instruction in self.program if instruction.dma is not None]
        first = -2 * count * count if any(dma.dge for dma in dmas) else 0  # loads precede stores
        for index, instruction in enumerate(self.program if loads_by_use else ()):
            if instruction.dma is not None and instruction.dma.load and instruction.dma.hbm and self.successors[index]:
                turns[index] = first + (2 * (min(self.successors[index]) >> 2) - 1) * count + index
        return turns

    def _look_ahead(self, limit: int) -> None:
        """Limit the look-ahead of each engine: all earlier instructions except `limit` - 1 must have started."""
        # The instructions of each engine in program order. Instructions that have started are replaced with NOTHING.
        self.orders: list[list[int]] = [[] for _ in range(SECOND + 1)]
        self.place = [-1] * len(self.program)
        for index, queue in enumerate(self.queue):
            if self.program[index].dma is None:
                self.place[index] = len(self.orders[queue])
                self.orders[queue].append(index)
        self.limit = limit
        self.first_waiting = [0] * (SECOND + 1)  # index of the first instruction that has not started
        self.home = list(self.queue)
        for order in self.orders:
            for index in order[limit:]:
                self.waits[index] += 1

    def _advance(self, index: int, time: float) -> None:
        """Release the instructions that come within the look-ahead once instruction `index` has started at `time`."""
        home = self.home[index]
        order, first = self.orders[home], self.first_waiting[home]
        order[self.place[index]] = NOTHING
        last, limit = len(order), self.limit
        while first < last and order[first] == NOTHING:
            reach = first + limit
            first += 1
            if reach < last:
                self._awaited(order[reach], time, time, index * KINDS + ORDER)
        self.first_waiting[home] = first

    def _give_buffers(self, time: float) -> None:
        if time == _NEVER:  # PSUM is fragmented: fall back to allocation in program order
            time = max(self.free)
            last = self.last[self.free.index(time)]
            self._awaited(self.buffers.force(time), time, time, last * KINDS + BUFFER)
            return
        for index, freed in self.buffers.give(time):
            if freed is None:
                self._awaited(index, time, time, NOTHING)
            else:
                self._awaited(index, time, freed.free_at, freed.last * KINDS + BUFFER)

    def _awaited(self, index: int, time: float, since: float, cause: int) -> None:
        """Resolve one dependency of an instruction: `cause` ended at `since` and allows a start at `time`."""
        if time > self.ready[index]:
            self.ready[index] = time
            self.since[index] = since
            self.cause[index] = cause
        left = self.waits[index] = self.waits[index] - 1
        if not left:
            self._enter(index)

    def _enter(self, index: int) -> None:
        """Add an instruction whose dependencies are resolved to the queue of its engine."""
        if self.program[index].options:
            self._choose_engine(index)
        queue, ready = self.queue[index], self.ready[index]
        free = self.free[queue]
        if ready <= free:  # the engine cannot start anything earlier
            heappush(self.now[queue], self.turn[index])
            ready = free
        else:
            heappush(self.later[queue], (ready, index))
        if ready < self.next[queue]:
            self.next[queue] = ready

    def _choose_engine(self, index: int) -> None:
        """Choose the engine that would finish an instruction first, among the engines on which it may run."""
        instruction, ready = self.program[index], self.ready[index]
        best = _NEVER
        for unit, cost in ((instruction.engine, instruction.cost), *instruction.options):
            queue = _QUEUE[unit]
            result_time = max(ready, self.free[queue] + self.queued[queue]) + cost.latency
            if result_time < best:
                best, choice = result_time, (queue, cost)
        self.queue[index], self.cost[index] = choice
        self.queued[choice[0]] += choice[1].interval

    def _issue(self, index: int, queue: int, time: float) -> None:
        """Start an instruction on an engine at `time`."""
        if self.ready[index] < time:
            self.since[index] = time
            self.cause[index] = self.last[queue] * KINDS + ENGINE
        self.previous, self.last[queue] = self.last[queue], index
        instruction = self.program[index]
        is_dma = instruction.dma is not None
        start, end, result_time = (_Simulation._run_dma if is_dma else _RUN[queue])(self, index, instruction, time)
        self.start[index], self.end[index], self.done[index] = start, end, result_time
        self.busy[queue] += end - start
        self.free[queue] = end
        if self.place[index] >= 0:
            self._advance(index, start)
            if instruction.options:
                self.queued[queue] -= self.cost[index].interval
        self._release_successors(index, queue, is_dma)
        for version in self.uses[index]:
            left = version.left = version.left - 1
            if result_time > version.free_at:
                version.free_at = result_time
                version.last = index
            if not left:
                self.buffers.release(version)

    def _release_successors(self, index: int, queue: int, is_dma: bool) -> None:
        """Resolve the successors' dependencies when the instruction starts, has read, and has written."""
        successors = self.successors[index]
        if not successors:
            return
        end, result_time = self.end[index], self.done[index]
        hops, read = (self.landed, result_time) if is_dma else (self.hops, end)
        ready, waits, queues = self.ready, self.waits, self.queue
        for encoded in successors:
            successor, kind = encoded >> 2, encoded & 3
            to = queues[successor]
            if kind == ORDER:
                since = when = self.start[index]
            elif to == queue and not is_dma and (queue == PE or kind != RAW):
                since = when = end  # accesses of the same engine are in order
            else:
                since = read if kind == WAR else result_time
                when = since + hops[to]
            if when > ready[successor]:
                ready[successor] = when
                self.since[successor] = since
                self.cause[successor] = index * KINDS + kind
            left = waits[successor] = waits[successor] - 1
            if not left:
                self._enter(successor)

    def _run_tensor(self, index: int, instruction: Instruction, start: float) -> Times:
        interval, latency, cold, _ = self.cost[index]
        if self.clock.window:
            access = instruction.reads[0]
            if not self.clock.warm(start, index):
                latency += cold - interval
                interval = cold
            self.clock.work(start, interval, (access.row_end - access.row) / PARTITIONS)
        return start, start + interval, start + latency

    def _run_elementwise(self, index: int, instruction: Instruction, start: float) -> Times:
        interval, latency, _, _ = self.cost[index]
        unit, ports = _UNITS[self.queue[index]], self.ports
        free_at = ports.take(instruction, unit, self.uses[index], start, interval)
        if free_at > start:
            start = self.since[index] = free_at
            self.cause[index] = ports.held_by * KINDS + PORT
        return start, start + interval, start + latency

    def _run_scalar(self, index: int, instruction: Instruction, start: float) -> Times:
        table = self.cost[index].table
        if table and table != self.table:
            loading = self.free[ACT]  # the table load overlaps with waiting for operands
            self.table = table
            self.tables.append((loading, loading + self.machine.table_load_ns))
            self.busy[ACT] += self.machine.table_load_ns
            loaded = loading + self.machine.table_load_ns
            if loaded > start:
                start, self.since[index] = loaded, loading
                self.cause[index] = self.previous * KINDS + TABLE
        return self._run_elementwise(index, instruction, start)

    def _run_dma(self, index: int, instruction: Instruction, start: float) -> Times:
        transfer, m = instruction.dma, self.machine
        assert transfer is not None
        if transfer.beside:
            phases = self.phases[index] = phases_beside(transfer, m, start)
            self.moving[index] = phases.first_byte, phases.last + m.load_landing_ns
            return start, phases.first_byte - phases.latency, phases.last + m.load_landing_ns
        known = self.moves.get(id(transfer))
        if known is None:
            known = self.moves[id(transfer)] = (*engine_times(transfer, m), channel_time(transfer, m))
        start_place, times, in_channels = known
        ready, rate, skew, latency = trigger(transfer, m, len(times), start)
        issued = ready + rate * transfer.descriptors
        # The DMA engines process the first descriptors while later descriptors are still being generated.
        first_byte = ready + rate * min(transfer.descriptors, PARTITIONS) + latency
        moving, earliest, last_byte, bound = _NEVER, start_place, issued + latency, DESCRIPTORS
        free, busy, begins, first = self.dma_free, self.dma_busy, [], start_place
        for time in times:
            begin = free[start_place]
            first_here = first_byte + skew * (start_place - first)
            if begin < first_here:
                begin = first_here
            begins.append(begin)
            if begin < moving:
                moving, earliest = begin, start_place
            finished = begin + time
            free[start_place] = finished
            busy[start_place] += time
            if finished > last_byte:
                last_byte, bound = finished, start_place
            start_place += 1
        rate = m.pitched_rate if transfer.pitched else m.dma_sustained
        begin = max(self.pipe_free, first_byte)
        self.pipe_free = begin + transfer.bytes / rate
        if self.pipe_free > last_byte:
            last_byte, bound = self.pipe_free, PIPE
        if moving + in_channels > last_byte:
            last_byte, bound = moving + in_channels, earliest
        self.phases[index] = Phases(
            first_byte=first_byte,
            latency=latency,
            skew=skew,
            place=first,
            begins=begins,
            pipe_begin=begin,
            last=last_byte,
            bound=bound,
        )
        last_byte += m.load_landing_ns if transfer.load else m.store_landing_ns
        self.moving[index] = moving, last_byte
        if last_byte > self.last_moved:
            self.dma_active += last_byte - max(moving, self.last_moved)
            self.last_moved = last_byte
        return start, issued, last_byte


_RUN: list[Callable[[_Simulation, int, Instruction, float], Times]] = [
    _Simulation._run_tensor,
    _Simulation._run_elementwise,
    _Simulation._run_scalar,
    _Simulation._run_elementwise,
    _Simulation._run_dma,
    _Simulation._run_dma,
]


def _queue_of(instruction: Instruction) -> int:
    """Return the queue of an instruction. DMAs whose descriptors GpSimd generates are in the queue of GpSimd."""
    if instruction.dma is not None and (instruction.dma.software or instruction.dma.second):
        return POOL if instruction.dma.software else SECOND
    return _QUEUE[instruction.engine]
