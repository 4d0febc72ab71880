"""Schedules of two cores: synchronisation, and shared HBM."""

from __future__ import annotations

import pytest
from made_by_hand import Listing, another_machine, part, tensor
from trninfer.simulator.machine.chip import TARGETS
from trninfer.simulator.machine.instruction import Transfer
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.pair_schedule import of_two_cores, pair_schedule
from trninfer.simulator.timing.schedule import schedule
from trninfer.simulator.timing.scheduled import KINDS, NOTHING, OTHER_CORE

TRN2, M = TARGETS["trn2"], machine("trn2")


def chain(*takes: float) -> Listing:
    """Return instructions of the Vector Engine, each of which reads the result of the previous one."""
    program, before = Listing(), None
    for time in takes:
        tile = part(tensor())
        program.add("vector", (tile,), (before,) if before else (), takes=time)
        before = tile
    return program


def test_cores_without_barriers_run_independently() -> None:
    programs = chain(100, 50), chain(30)
    first, second = pair_schedule(programs, [], TRN2, M)
    assert (first, second) == tuple(schedule(program, TRN2) for program in programs)


def test_both_start_what_they_meet_at_when_the_later_one_can() -> None:
    """Core 0 is ready for its second instruction after 100 ns, core 1 for its first at once."""
    programs = chain(100, 10, 10), chain(10, 10)
    alone = schedule(programs[0], TRN2)
    first, second = pair_schedule(programs, [(1, 0)], TRN2, M)
    assert first == alone and second.start[0] == first.start[1] >= 100
    assert second.cause[0] == NOTHING * KINDS + OTHER_CORE and second.since[0] == second.start[0]
    mirrored = pair_schedule((programs[1], programs[0]), [(0, 1)], TRN2, M)
    assert (mirrored[1].start, mirrored[0].start) == (first.start, second.start)


def test_core_that_waits_at_a_barrier_reaches_the_next_one_later() -> None:
    """Core 1 is late for the first meeting; core 0 takes longer until the second, core 1 until the third."""
    programs = chain(10, 500, 10, 10), chain(300, 10, 10, 700, 10)
    first, second = pair_schedule(programs, [(1, 1), (2, 2), (3, 4)], TRN2, M)
    assert first.start[1] == second.start[1] >= 300
    assert first.start[2] == second.start[2] >= 800
    assert first.start[3] == second.start[4] >= 1500
    for each in (first, second):
        assert each.start == sorted(each.start) and each.makespan >= 1510


@pytest.mark.parametrize("meetings", [1, 7, 100])
def test_many_meetings_are_all_settled(meetings: int) -> None:
    """The cores are late alternately, and each meeting delays all later ones."""
    takes = [[300.0 if (n + core) % 2 else 20.0 for n in range(meetings + 1)] for core in (0, 1)]
    pairs = [(n, n) for n in range(1, meetings + 1)]
    first, second = pair_schedule((chain(*takes[0]), chain(*takes[1])), pairs, TRN2, M)
    assert first.start[1:] == pytest.approx(second.start[1:], abs=0.02)
    assert first.makespan >= 300 * meetings


def test_cores_that_are_less_than_a_nanosecond_apart_meet_too() -> None:
    first, second = pair_schedule((chain(100.5, 10), chain(100, 10)), [(1, 1)], TRN2, M)
    assert first.start[1] == second.start[1]


def loads(count: int) -> Listing:
    """Return loads of 1 MiB into separate tiles."""
    program = Listing()
    for _ in range(count):
        program.add("dma", (part(tensor(row_bytes=8192)),), dma=Transfer(8192 * 128, 128, 128, load=True, dge=False))
    return program


def test_cores_that_move_data_share_their_hbm_stack() -> None:
    alone = schedule(loads(8), TRN2).makespan
    first, second = pair_schedule((loads(8), loads(8)), [], TRN2, M)
    assert first.makespan == second.makespan > 1.2 * alone
    busy, idle = pair_schedule((loads(8), chain(10)), [], TRN2, M)
    assert busy.makespan == alone > idle.makespan


@pytest.mark.parametrize(
    ("stack", "efficiency", "core", "rate"),
    [(800, 0.5, 300, 200), (800, 0.75, 300, 300), (800, 1.0, 300, 300), (100, 1.0, 300, 50)],
)
def test_neither_moves_more_than_half_of_what_two_get(
    stack: float, efficiency: float, core: float, rate: float
) -> None:
    constants = another_machine(hbm_stack_rate=stack, hbm_shared_efficiency=efficiency, dma_sustained=core)
    assert of_two_cores(constants) == {"dma_sustained": rate}
