"""Zeros that the Tensor Engine multiplies while it waits for other engines, so that its clock stays up.

From NeuronCore-v3 on the clock is full in a window of some microseconds if the engine was busy for more than half of
the window before (kernels/tiling/warm_up.py). Where a layer waits, for a gate of squeeze and excite, say, or for the
sums of the layer before, what follows would run at half clock. So a launch is scheduled once more by a clock that fills
such waits with zeros. Of these are kept: those of windows that are too idle without them, and behind which there is
work. They come before the first sums of the convolution that waits; the walk of the launch with them says if it is
quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import simulator
from ..kernels.operation_fields import ZERO_COLUMNS, Pair
from ..kernels.program import Program
from ..simulator.machine.chip import PARTITIONS
from ..simulator.machine.dtypes import lookup
from ..simulator.machine.instruction import Instruction, engine
from ..simulator.timing.clock import PeClock
from ..simulator.timing.constants import Machine
from ..simulator.timing.costs import Costs
from ..simulator.timing.schedule import schedule
from .decisions import Choice, Decisions, Kind
from .emit import LoweredProgram
from .graph import Graph
from .owners import owners_of

FILLED = 0.8  # of a window up to a wait's end: what runs elsewhere than foreseen leaves enough
BUSY = 0.6  # of a window, from which on it takes no zeros
LEAST_GAIN = 0.15  # of the window after it, that a window's zeros spare
LEAST_COLD = 0.01  # of a launch, that its matmuls take longer for half clocks, from which on zeros are tried


def is_cold(run: simulator.Run) -> bool:
    """True if the matmuls of a run take so much longer for their clock that zeros may spare some of it."""
    if not run.prediction.machine.warm_window_ns:
        return False
    schedule = run.prediction.schedules[0]
    lost = sum(
        end - start - instruction.cost.interval
        for instruction, start, end in zip(run.program, schedule.start, schedule.end)
        if instruction.engine is engine.tensor
    )
    return lost >= LEAST_COLD * schedule.makespan


def zeros_of(program: Program, run: simulator.Run) -> tuple[tuple[Pair, ...], float]:
    """Return (operation, matmuls of zeros before it beside those that there are) for a program that was run, and the
    nanoseconds that the launch would take if they were where the engine waits, nowhere else."""
    constants = run.prediction.machine
    clock = _FillingClock(run.program, _waiting(program, run.program), constants, _cost(run))
    filled = schedule(run.program, run.prediction.target, constants, clock=clock)
    return clock.kept(), filled.makespan


def zeros_by(decisions: Decisions, emitted: LoweredProgram, graph: Graph) -> tuple[Pair, ...]:
    """Return (operation, matmuls of zeros before it) of a program by some decisions."""
    chosen = decisions.of(Kind.WARM_UP)
    if not chosen:
        return ()
    numbers = _operations(emitted)
    return tuple(
        sorted(
            (numbers[graph.numbers[node]][n], count)
            for node, counts in chosen.items()
            if node is not None
            for n, count in counts
        )
    )


def with_zeros(decisions: Decisions, zeros: Sequence[Pair], emitted: LoweredProgram, graph: Graph) -> Decisions:
    """Return decisions with matmuls of zeros before some operations of a program."""
    numbers = _operations(emitted)
    counts: dict[int, list[Pair]] = {}
    for operation, count in zeros:
        node = emitted.nodes[operation]
        counts.setdefault(node, []).append((numbers[node].index(operation), count))
    chosen = (Choice(Kind.WARM_UP, graph.nodes[node].id, tuple(each)) for node, each in counts.items())
    return decisions.without(Kind.WARM_UP).having(*chosen)


def _operations(emitted: LoweredProgram) -> dict[int, list[int]]:
    """Return the operations of each node."""
    found: dict[int, list[int]] = {}
    for operation, node in enumerate(emitted.nodes):
        found.setdefault(node, []).append(operation)
    return found


def added(zeros: Sequence[Pair], more: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the sums of numbers of matmuls, by operation."""
    counts = dict(zeros)
    for number, count in more:
        counts[number] = counts.get(number, 0) + count
    return tuple(sorted(counts.items()))


def _cost(run: simulator.Run) -> tuple[float, float]:
    """Return the nanoseconds of a matmul of zeros at full and at half clock."""
    dtype = lookup("bfloat16")
    cost = Costs(run.prediction.target).matmul(PARTITIONS, ZERO_COLUMNS, dtype, dtype.itemsize)
    return cost.interval, cost.cold


class _FillingClock(PeClock):
    """A clock of the Tensor Engine that fills its waits with zeros as if it had known of them.

    `waiting`: of each instruction (pass, operation) before whose first sums zeros may come while the engine waits for
    it, None where they may not. `zeros`: nanoseconds at full and half clock.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        waiting: Sequence[Pair | None],
        constants: Machine,
        zeros: tuple[float, float],
    ) -> None:
        super().__init__(constants.warm_window_ns, constants.warm_utilization)
        self._instructions, self._waiting, self._zeros = instructions, waiting, zeros
        self._free, self._current = 0.0, -1
        self._own: dict[int, float] = {}  # nanoseconds of each window that the program's matmuls take
        self._cold: dict[int, float] = {}  # that they would take longer at half clock
        self._added: dict[int, float] = {}  # that zeros take
        self._counts: dict[int, dict[Pair, int]] = {}  # of each window, by what waits

    def warm(self, time: float, index: int = -1) -> bool:
        """See `PeClock`; fills the wait before instruction `index`."""
        self._current = index
        waiting = self._waiting[index]
        while waiting is not None:
            each = self._zeros[0 if super().warm(self._free) else 1]
            end = self._free + each
            if end > time:
                break
            window = int(self._free // self.window)
            if self.busy < FILLED * (end - window * self.window):
                super().work(self._free, each, 1.0)
                counts = self._counts.setdefault(window, {})
                counts[waiting] = counts.get(waiting, 0) + 1
                self._added[window] = self._added.get(window, 0.0) + each
            self._free = end
        return super().warm(time)

    def work(self, start: float, interval: float, rows: float) -> None:
        """See `PeClock`."""
        super().work(start, interval, rows)
        self._free = start + interval
        window, cost = int(start // self.window), self._instructions[self._current].cost
        self._own[window] = self._own.get(window, 0.0) + interval * rows
        self._cold[window] = self._cold.get(window, 0.0) + max(0.0, cost.cold - cost.interval)

    def kept(self) -> tuple[Pair, ...]:
        """Return (operation, matmuls of zeros) of the windows that are worth it; where passes differ, the most."""
        passes: dict[Pair, int] = {}
        for window, counts in self._counts.items():
            own = self._own.get(window, 0.0)
            is_full = own + self._added[window] > self.threshold * self.window
            gains = self._cold.get(window + 1, 0.0) >= LEAST_GAIN * self.window
            if own < BUSY * self.window and is_full and gains:
                for waiting, count in counts.items():
                    passes[waiting] = passes.get(waiting, 0) + count
        most: dict[int, int] = {}
        for (_, number), count in passes.items():
            most[number] = max(count, most.get(number, 0))
        return tuple(sorted(most.items()))


def _waiting(program: Program, instructions: Sequence[Instruction]) -> list[Pair | None]:
    """Return (pass, operation) of the instructions that add to the first sums of a convolution."""
    convolutions = [operation.convolved is not None for operation in program.operations]
    owners = owners_of(instructions)
    firsts: dict[Pair, Any] = {}
    found: list[Pair | None] = [None] * len(instructions)
    starting = None
    for index, instruction in enumerate(instructions):
        owner = owners[index]
        if instruction.engine is not engine.tensor or owner is None or not convolutions[owner.operation]:
            continue
        if not firsts:
            starting = owner  # which has zeros of its own
        sums = instruction.writes[0].allocation
        if firsts.setdefault(owner, sums) is sums and owner != starting:
            found[index] = owner
    return found
