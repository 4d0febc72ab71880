"""Insert matmuls of zeros while the Tensor Engine waits for other engines, to keep its clock at full rate.

On NeuronCore-v3 and later, the clock runs at full rate during a window of a few microseconds if the engine was busy for
more than half of the previous window (kernels/tiling/warm_up.py). After a layer that waits, for example for a
squeeze-and-excite gate or for the sums of the previous layer, the following matmuls would run at half the clock rate.
Therefore a launch is scheduled a second time with a clock model that fills such waits with zeros. Zeros are kept only
in windows that would be too idle without them and that are followed by work. They are placed before the first
accumulation of the waiting convolution. The launch is then simulated with the zeros to determine whether it is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import simulator
from ...kernels.operation_fields import ZERO_COLUMNS, Pair
from ...kernels.program import Program
from ...simulator.machine.chip import PARTITIONS
from ...simulator.machine.dtypes import lookup
from ...simulator.machine.instruction import Instruction, engine
from ...simulator.timing.clock import PeClock
from ...simulator.timing.constants import Machine
from ...simulator.timing.costs import Costs
from ...simulator.timing.schedule import schedule
from ..decisions import Choice, Decisions, Kind
from ..graph.graph import Graph
from .emit import LoweredProgram
from .owners import owners_of

FILLED = 0.8  # target busy fraction of a window at the end of a wait; leaves slack for deviations from the prediction
BUSY = 0.6  # no zeros are added to a window that is busy for more than this fraction
LEAST_GAIN = 0.15  # zeros in a window must save at least this fraction of the next window
LEAST_COLD = 0.01  # zeros are tried if at least this fraction of a launch is lost to the half clock rate


def is_cold(run: simulator.Run) -> bool:
    """True if the matmuls of a run lose so much time to the reduced clock rate that zeros may recover some of it."""
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
    """Return the zeros to add to a simulated program, as (operation, number of matmuls before it).

    Also return the predicted time of the launch, in nanoseconds, assuming that they run exactly while the engine waits.
    """
    constants = run.prediction.machine
    clock = _FillingClock(run.program, _waiting(program, run.program), constants, _cost(run))
    filled = schedule(run.program, run.prediction.target, constants, clock=clock)
    return clock.kept(), filled.makespan


def zeros_by(decisions: Decisions, emitted: LoweredProgram, graph: Graph) -> tuple[Pair, ...]:
    """Return the zeros that the decisions specify for a program, as (operation, number of matmuls before it)."""
    choices = decisions.of(Kind.WARM_UP)
    if not choices:
        return ()
    numbers = _operations(emitted)
    return tuple(
        sorted(
            (numbers[graph.numbers[node]][n], count)
            for node, counts in choices.items()
            if node is not None
            for n, count in counts
        )
    )


def with_zeros(decisions: Decisions, zeros: Sequence[Pair], emitted: LoweredProgram, graph: Graph) -> Decisions:
    """Return the decisions extended by matmuls of zeros before some operations of a program."""
    numbers = _operations(emitted)
    counts: dict[int, list[Pair]] = {}
    for operation, count in zeros:
        node = emitted.nodes[operation]
        counts.setdefault(node, []).append((numbers[node].index(operation), count))
    choices = (Choice(Kind.WARM_UP, graph.nodes[node].id, tuple(pair)) for node, pair in counts.items())
    return decisions.without(Kind.WARM_UP).having(*choices)


def _operations(emitted: LoweredProgram) -> dict[int, list[int]]:
    """Return the operations emitted for each node."""
    operations: dict[int, list[int]] = {}
    for operation, node in enumerate(emitted.nodes):
        operations.setdefault(node, []).append(operation)
    return operations


def added(zeros: Sequence[Pair], more: Sequence[Pair]) -> tuple[Pair, ...]:
    """Add two lists of matmul counts, operation by operation."""
    counts = dict(zeros)
    for number, count in more:
        counts[number] = counts.get(number, 0) + count
    return tuple(sorted(counts.items()))


def _cost(run: simulator.Run) -> tuple[float, float]:
    """Return the time in nanoseconds that a matmul of zeros takes at the full and at half the clock rate."""
    dtype = lookup("bfloat16")
    cost = Costs(run.prediction.target).matmul(PARTITIONS, ZERO_COLUMNS, dtype, dtype.itemsize)
    return cost.interval, cost.cold


class _FillingClock(PeClock):
    """A clock model of the Tensor Engine that fills waits with matmuls of zeros, as if the waits were known in advance.

    `waiting`: for each instruction, the (pass, operation) before whose first accumulation zeros may be inserted while
    the engine waits for the instruction; None if no zeros may be inserted. `zeros`: the nanoseconds of a matmul of
    zeros at the full and at half the clock rate.
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
        self._own: dict[int, float] = {}  # nanoseconds that the program's matmuls take, by window
        self._cold: dict[int, float] = {}  # additional nanoseconds at half the clock rate, by window
        self._added: dict[int, float] = {}  # nanoseconds that zeros take, by window
        self._counts: dict[int, dict[Pair, int]] = {}  # zero counts, keyed by window and waiting operation

    def warm(self, time: float, index: int = -1) -> bool:
        """See `PeClock`; also fills the wait before instruction `index` with zeros."""
        self._current = index
        waiting = self._waiting[index]
        while waiting is not None:
            zeros_ns = self._zeros[0 if super().warm(self._free) else 1]
            end = self._free + zeros_ns
            if end > time:
                break
            window = int(self._free // self.window)
            if self.busy < FILLED * (end - window * self.window):
                super().work(self._free, zeros_ns, 1.0)
                counts = self._counts.setdefault(window, {})
                counts[waiting] = counts.get(waiting, 0) + 1
                self._added[window] = self._added.get(window, 0.0) + zeros_ns
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
        """Return (operation, number of matmuls of zeros) for the windows in which zeros save time.

        If the numbers of several passes differ, the maximum is used.
        """
        passes: dict[Pair, int] = {}
        for window, counts in self._counts.items():
            start = self._own.get(window, 0.0)
            is_full = start + self._added[window] > self.threshold * self.window
            gains = self._cold.get(window + 1, 0.0) >= LEAST_GAIN * self.window
            if start < BUSY * self.window and is_full and gains:
                for waiting, count in counts.items():
                    passes[waiting] = passes.get(waiting, 0) + count
        most: dict[int, int] = {}
        for (_, number), count in passes.items():
            most[number] = max(count, most.get(number, 0))
        return tuple(sorted(most.items()))


def _waiting(program: Program, instructions: Sequence[Instruction]) -> list[Pair | None]:
    """Return the (pass, operation) of each instruction that contributes to the first accumulation of a convolution, and
    None for all other instructions."""
    convolutions = [operation.convolved is not None for operation in program.operations]
    owners = owners_of(instructions)
    firsts: dict[Pair, Any] = {}
    waiting: list[Pair | None] = [None] * len(instructions)
    starting = None
    for index, instruction in enumerate(instructions):
        owner = owners[index]
        if instruction.engine is not engine.tensor or owner is None or not convolutions[owner.operation]:
            continue
        if not firsts:
            starting = owner  # the first convolution is warmed up separately
        sums = instruction.writes[0].allocation
        if firsts.setdefault(owner, sums) is sums and owner != starting:
            waiting[index] = owner
    return waiting
