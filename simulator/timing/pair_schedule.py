"""Schedule two cores that synchronise at barriers and exchanges.

Each core is scheduled separately. An instruction that synchronises the cores starts when both cores can start it;
scheduling is repeated until no start time changes. The cores share one HBM stack: if both transfer data, each gets at
most half of the bandwidth that is available to two cores.
"""

from __future__ import annotations

from ..machine.chip import Target
from ..machine.instruction import Instruction
from .constants import Machine
from .schedule import schedule
from .scheduled import Schedule

_PASSES = 40  # least limit on the number of passes; one per meeting is enough, as each pass settles at least one more
_SETTLED_NS = 0.01


def of_two_cores(constants: Machine) -> dict[str, float]:
    """Return the constants that differ for a core that shares its HBM stack with the other core."""
    half = constants.hbm_stack_rate * constants.hbm_shared_efficiency / 2
    return {"dma_sustained": min(constants.dma_sustained, half)}


def _moves_bytes(program: list[Instruction]) -> bool:
    """Return True if a program moves any bytes to or from HBM."""
    return any(instruction.hbm_bytes for instruction in program)


def pair_schedule(
    programs: tuple[list[Instruction], list[Instruction]],
    meetings: list[tuple[int, int]],
    target: Target,
    constants: Machine,
) -> tuple[Schedule, Schedule]:
    """Return the schedules of core 0 and core 1. `meetings` contains pairs of instructions that wait for each other."""
    shared = constants
    if all(map(_moves_bytes, programs)):
        shared = Machine({**vars(constants), **of_two_cores(constants)})
    releases: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for _ in range(max(_PASSES, len(meetings) + 1)):
        first, second = (schedule(programs[core], target, shared, releases[core]) for core in (0, 1))
        is_changed = False
        for pair in meetings:
            starts = first.start[pair[0]], second.start[pair[1]]
            core = 0 if starts[0] < starts[1] else 1  # the core that arrives first
            if max(starts) > starts[core] + _SETTLED_NS:
                releases[core][pair[core]] = max(starts)
                is_changed = True
        if not is_changed:
            break
    return first, second
