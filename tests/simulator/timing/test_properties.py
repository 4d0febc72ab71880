"""Invariants of every timeline, checked on random small programs."""

from __future__ import annotations

from typing import Any

import nki.isa as nisa
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_programs import all_steps, large, program, small, targets, walk
from trninfer import simulator
from trninfer.simulator.machine.instruction import Access, Instruction
from trninfer.simulator.machine.memory import PSUM, SBUF
from trninfer.simulator.timing.capacity import lives
from trninfer.simulator.timing.schedule import schedule
from trninfer.simulator.timing.scheduled import Schedule


def contains(outer: Access, inner: Access) -> bool:
    """Return True if a rectangle without gaps contains another."""
    same_pitch = outer.pitch == inner.pitch and not outer.step
    return (
        same_pitch
        and outer.row <= inner.row
        and inner.row_end <= outer.row_end
        and outer.byte <= inner.byte
        and inner.byte_end <= outer.byte_end
    )


def writers(instructions: list[Instruction], index: int, access: Access) -> list[int]:
    """Return the instructions before `index` whose results it reads, latest first."""
    found = []
    for earlier in range(index - 1, -1, -1):
        for written in instructions[earlier].writes:
            if written.overlaps(access):
                found.append(earlier)
                if contains(written, access):
                    return found
    return found


@settings(max_examples=60)
@given(all_steps, small | large, targets, st.booleans())
def test_no_engine_runs_two_instructions_at_once(steps: Any, widths: Any, target: str, dge: bool) -> None:
    run = walk(steps, widths, target, dge)
    free: dict[str, float] = {}
    for event in run.timeline:
        assert event.start_ns >= free.get(event.engine, 0.0) - 1e-6, event
        assert event.issued_ns <= event.start_ns <= event.end_ns <= event.done_ns
        free[event.engine] = event.end_ns


@settings(max_examples=60)
@given(all_steps, small | large, targets)
def test_reads_follow_writes(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    times = run.prediction.schedule
    for index, instruction in enumerate(run.program):
        for access in instruction.reads:
            for writer in writers(run.program, index, access):
                both_on_tensor_engine = run.program[writer].engine is instruction.engine is nisa.engine.tensor
                ready = times.end[writer] if both_on_tensor_engine else times.done[writer]
                assert times.start[index] >= ready - 1e-6, (run.program[writer], instruction)


@settings(max_examples=60)
@given(all_steps, small | large, targets)
def test_overwrites_in_hbm_follow_reads(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    times = run.prediction.schedule
    for index, instruction in enumerate(run.program):
        for written in instruction.writes:
            if written.allocation.region not in (SBUF, PSUM):
                for reader in range(index):
                    if any(access.overlaps(written) for access in run.program[reader].reads):
                        assert times.start[index] >= times.done[reader] - 1e-6


def held_tiles(program: list[Instruction], times: Schedule) -> list[tuple[float, float, int]]:
    """Return (from, to, bytes per partition) of each tile in SBUF."""
    found: dict[Any, tuple[float, float, int]] = {}
    for index, instruction in enumerate(program):
        for access in (*instruction.reads, *instruction.writes):
            tile = access.allocation
            if tile.region is SBUF:
                start, end, size = found.get(tile, (times.start[index], times.done[index], tile.row_bytes))
                found[tile] = min(start, times.start[index]), max(end, times.done[index]), size
    return list(found.values())


@settings(max_examples=60)
@given(all_steps, large, targets)
@example([("replace", 3, 0), ("add", 0, 3), ("add", 0, 1), ("add", 0, 2)], [11000, 11000, 11000, 12500], "trn1")
def test_sbuf_never_holds_more_than_there_is(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    times = run.prediction.schedule
    held = sorted(
        (time, change)
        for start, end, size in held_tiles(run.program, times)
        for time, change in ((start, size), (end, -size))
    )
    total = 0
    for _, change in sorted(held, key=lambda entry: (entry[0], entry[1])):
        total += change
        assert total <= simulator.TARGETS[target].sbuf_bytes
    assert times.sbuf_peak <= simulator.TARGETS[target].sbuf_bytes
    assert times.psum_peak <= simulator.TARGETS[target].psum_bytes


@settings(max_examples=40)
@given(all_steps, small, targets)
def test_the_schedule_is_deterministic(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    again = schedule(run.program, simulator.TARGETS[target])
    assert again == run.prediction.schedule


@settings(max_examples=25)
@given(all_steps, small, targets)
def test_shape_only_and_functional_runs_have_the_same_timeline(steps: Any, widths: Any, target: str) -> None:
    walked = walk(steps, widths, target)
    array = np.zeros((128, 12500), np.float32)
    computed = simulator.run(program, array, target=target, steps=tuple(steps), widths=tuple(widths))
    assert computed.timeline == walked.timeline
    assert computed.memory == walked.memory


@settings(max_examples=40)
@given(all_steps, small)
def test_a_tile_lives_from_its_first_write_to_its_last_access(steps: Any, widths: Any) -> None:
    instructions = walk(steps, widths, "trn2").program
    for start, end, tile in lives(instructions):
        touching = [i.index for i in instructions for a in (*i.reads, *i.writes) if a.allocation is tile]
        writing = [i.index for i in instructions for a in i.writes if a.allocation is tile]
        assert start == min(writing)
        assert end >= max(touching)
