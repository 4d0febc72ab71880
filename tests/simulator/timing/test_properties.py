"""What holds of every timeline, over random small programs."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from trninfer import simulator
from trninfer.simulator.instruction import Access, Instruction
from trninfer.simulator.memory import PSUM, SBUF
from trninfer.simulator.timing.capacity import lives
from trninfer.simulator.timing.schedule import Schedule, schedule

TILES = 4  # names that a program's steps use
ROWS = 64


@nki.jit
def program(a: Any, steps: Any, widths: Any) -> Any:
    """Random steps over a few tiles, some of which are replaced, some rewritten, some used in parts."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    between = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.hbm)
    tiles = [nl.ndarray((ROWS, width), dtype=a.dtype, buffer=nl.sbuf) for width in widths]
    for tile in tiles:
        nisa.dma_copy(dst=tile, src=a[0:ROWS, 0 : tile.shape[1]])
    nisa.dma_copy(dst=between, src=a)
    for kind, first, second in steps:
        x, y = tiles[first], tiles[second]
        width = min(x.shape[1], y.shape[1])
        if kind == "load":
            nisa.dma_copy(dst=x, src=a[0:ROWS, 0 : x.shape[1]])
        elif kind == "load_row":
            nisa.dma_copy(dst=x[0:32, :], src=between[0:32, 0 : x.shape[1]])
        elif kind == "replace":
            tiles[first] = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tiles[first], src=a[0:ROWS, 0 : x.shape[1]])
        elif kind == "add":
            nisa.tensor_tensor(dst=x[:, 0:width], data1=x[:, 0:width], data2=y[:, 0:width], op=nl.add)
        elif kind == "activate":
            nisa.activation(dst=x[:, 0:width], op=nl.exp if second % 2 else nl.tanh, data=y[:, 0:width])
        elif kind == "copy":
            nisa.tensor_copy(dst=x[:, 0:width], src=y[:, 0:width], engine=nisa.engine.gpsimd)
        elif kind == "store":
            nisa.dma_copy(dst=out[0:ROWS, 0 : x.shape[1]], src=x)
        elif kind == "park":
            nisa.dma_copy(dst=between[0:ROWS, 0 : x.shape[1]], src=x)
        elif kind == "multiply":
            columns = min(width, 128)
            sums = nl.ndarray((columns, columns), dtype=nl.float32, buffer=nl.psum)
            for step in range(3):
                nisa.nc_matmul(dst=sums, stationary=x[:, 0:columns], moving=y[:, 0:columns], accumulate=step > 0)
            nisa.tensor_copy(dst=x[0 : min(ROWS, columns), 0:columns], src=sums[0 : min(ROWS, columns), :])
        else:
            with nl.no_reorder():
                nisa.tensor_scalar(dst=x, data=x, op0=nl.add, operand0=1.0)
                nisa.dma_copy(dst=out[0:ROWS, 0 : x.shape[1]], src=x)
    nisa.dma_copy(dst=out[0:ROWS, 0 : tiles[0].shape[1]], src=tiles[0])
    return out


KINDS = ("load", "load_row", "replace", "add", "activate", "copy", "store", "park", "multiply", "ordered")
place = st.integers(0, TILES - 1)
all_steps = st.lists(st.tuples(st.sampled_from(KINDS), place, place), min_size=1, max_size=30)
small = st.lists(st.integers(8, 600), min_size=TILES, max_size=TILES)
large = st.lists(st.sampled_from([2000, 6000, 11000, 12500]), min_size=TILES, max_size=TILES)  # SBUF is full soon
targets = st.sampled_from(["trn1", "trn2", "trn3"])


def walk(steps: Any, widths: Any, target: str, dge: bool = True) -> simulator.Run:
    spec = simulator.TensorSpec((128, 12500), "float32")
    parameters = {"steps": tuple(steps), "widths": tuple(widths)}
    try:
        return simulator.run(program, spec, target=target, dge=dge, functional=False, **parameters)
    except simulator.CapacityError:  # the program itself holds more than there is
        reject()


def contains(outer: Access, inner: Access) -> bool:
    """For rectangles without gaps."""
    same_pitch = outer.pitch == inner.pitch and not outer.step
    return (
        same_pitch
        and outer.row <= inner.row
        and inner.row_end <= outer.row_end
        and outer.byte <= inner.byte
        and inner.byte_end <= outer.byte_end
    )


def writers(instructions: list[Instruction], index: int, access: Access) -> list[int]:
    """The instructions before `index` whose results it reads there, latest first."""
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
def test_nothing_is_read_before_it_is_written(steps: Any, widths: Any, target: str) -> None:
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
def test_nothing_is_overwritten_in_hbm_before_it_is_read(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    times = run.prediction.schedule
    for index, instruction in enumerate(run.program):
        for written in instruction.writes:
            if written.allocation.region not in (SBUF, PSUM):
                for reader in range(index):
                    if any(access.overlaps(written) for access in run.program[reader].reads):
                        assert times.start[index] >= times.done[reader] - 1e-6


def versions(program: list[Instruction], times: Schedule) -> list[tuple[float, float, int]]:
    """(from, to, bytes of a partition) of each tile in SBUF, a new one wherever a tile is replaced as a whole."""
    found: list[tuple[float, float, int]] = []
    current: dict[Any, tuple[float, float, int]] = {}
    for index, instruction in enumerate(program):
        span = times.start[index], times.done[index]
        for access in (*instruction.reads, *instruction.writes):
            tile = access.allocation
            if tile.region is not SBUF:
                continue
            written = any(w is access for w in instruction.writes)
            own = any(r.allocation is tile for r in instruction.reads)
            if written and access.covers and not own and not instruction.ordered and tile in current:
                found.append(current.pop(tile))
            start, end, size = current.get(tile, (*span, tile.row_bytes))
            current[tile] = min(start, span[0]), max(end, span[1]), size
    return [*found, *current.values()]


@settings(max_examples=60)
@given(all_steps, large, targets)
def test_sbuf_never_holds_more_than_there_is(steps: Any, widths: Any, target: str) -> None:
    run = walk(steps, widths, target)
    times = run.prediction.schedule
    held = sorted(
        (time, change)
        for start, end, size in versions(run.program, times)
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
def test_walking_and_computing_give_one_timeline(steps: Any, widths: Any, target: str) -> None:
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
