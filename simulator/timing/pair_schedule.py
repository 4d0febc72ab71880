"""Schedules of two cores that wait for each other at barriers and exchanges.

Each core is scheduled by itself. An instruction at which the cores meet starts on both when the later core could start
it; scheduling is repeated until no start moves any more. The cores share one stack of HBM: if both move data, each gets
at most half of the rate that the stack gives to two.
"""

from __future__ import annotations

from ..machine.chip import Target
from ..machine.instruction import Instruction
from .constants import Machine
from .schedule import schedule
from .scheduled import Schedule

_PASSES = 40  # at most, or one for each meeting: each settles at least the first that has not settled yet
_SETTLED_NS = 0.01


def of_two_cores(constants: Machine) -> dict[str, float]:
    """The constants that are others for a core that shares its stack of HBM with the other one of a logical core."""
    half = constants.hbm_stack_rate * constants.hbm_shared_efficiency / 2
    return {"dma_sustained": min(constants.dma_sustained, half)}


def pair_schedule(
    programs: tuple[list[Instruction], list[Instruction]],
    meetings: list[tuple[int, int]],
    target: Target,
    constants: Machine,
) -> tuple[Schedule, Schedule]:
    """The schedules of core 0 and core 1; `meetings` are their instructions that wait for each other."""
    shared = constants
    if all(any(instruction.hbm_bytes for instruction in program) for program in programs):
        shared = Machine({**vars(constants), **of_two_cores(constants)})
    releases: tuple[dict[int, float], dict[int, float]] = ({}, {})
    for _ in range(max(_PASSES, len(meetings) + 1)):
        schedules = tuple(schedule(programs[core], target, shared, releases[core]) for core in (0, 1))
        moved = False
        for pair in meetings:
            starts = [schedules[core].start[index] for core, index in enumerate(pair)]
            for core, index in enumerate(pair):
                if max(starts) > starts[core] + _SETTLED_NS:
                    releases[core][index] = max(starts)
                    moved = True
        if not moved:
            break
    return schedules[0], schedules[1]
