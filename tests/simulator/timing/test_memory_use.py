"""Memory use over a schedule: tiles from first write to last access, and the tiles that determine the peak."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
from hypothesis import given, settings
from made_by_hand import Listing, part, tensor
from random_programs import all_steps, large, small, walk
from trninfer import simulator
from trninfer.simulator.machine.chip import TARGETS
from trninfer.simulator.machine.instruction import Allocation
from trninfer.simulator.machine.memory import PSUM
from trninfer.simulator.timing.constants import machine
from trninfer.simulator.timing.memory_use import MemoryUse, memory_use
from trninfer.simulator.timing.schedule import schedule

TRN2 = TARGETS["trn2"]
Step = tuple[tuple[float, float], Allocation | None, Allocation | None]


def use_of(*steps: Step, region: str = "sbuf", renames: bool = False, ordered: bool = False) -> MemoryUse:
    """Return the memory use of instructions with given start and end times, each of which writes and reads a whole
    tensor."""
    program = Listing()
    for _, written, read in steps:
        program.add("vector", (part(written),) if written else (), (part(read),) if read else (), ordered=ordered)
    times = schedule(program, TRN2)._replace(
        start=[span[0] for span, _, _ in steps],
        done=[span[1] for span, _, _ in steps],
        makespan=max(span[1] for span, _, _ in steps),
    )
    return memory_use(program, times, TRN2, region, renames)


def test_tiles_take_their_bytes_from_first_write_to_last_access() -> None:
    a, b = tensor(row_bytes=100), tensor(row_bytes=40)
    use = use_of(((10, 20), a, None), ((30, 50), b, a), ((60, 70), None, b))
    assert use.points == ((0, 0), (10, 100), (30, 140), (50, 40), (70, 0))
    assert (use.peak_bytes, use.peak_ns, use.capacity) == (140, 30, TRN2.usable_sbuf_bytes)
    assert [(tile.bytes, tile.start_ns, tile.end_ns, tile.position) for tile in use.owners] == [
        (100, 10, 50, 0),
        (40, 30, 70, 1),
    ]
    assert use.owners[0].line == ("kernel.py", 1) and use.owners[0].name == "128x25 float32"


def test_tiles_of_the_peak_are_sorted_by_size_and_dead_tiles_are_omitted() -> None:
    gone, little, much = tensor(row_bytes=500), tensor(row_bytes=10), tensor(row_bytes=700)
    use = use_of(((0, 5), gone, None), ((5, 9), little, None), ((7, 9), much, little))
    assert [tile.bytes for tile in use.owners] == [700, 10] and use.peak_ns == 7


def test_psum_and_sbuf_are_apart() -> None:
    a, bank = tensor(row_bytes=100), tensor(PSUM, 64)
    steps: tuple[Step, ...] = (((0, 10), a, None), ((10, 20), bank, a), ((20, 30), None, bank))
    of_psum = use_of(*steps, region="psum")
    assert of_psum.points == ((0, 0), (10, 64), (30, 0)) and of_psum.capacity == TRN2.psum_bytes
    assert use_of(*steps).points == ((0, 100), (20, 0))


def test_tile_without_access_near_the_peak_is_idle() -> None:
    """The first tile is written until 10 and read from 90 on; the peak begins at 50, when the second is written."""
    a, b = tensor(row_bytes=100), tensor(row_bytes=40)
    use = use_of(((0, 10), a, None), ((50, 60), b, None), ((90, 95), None, a), ((95, 99), None, b))
    assert use.peak_ns == 50 and [tile.idle_ns for tile in use.owners] == [80, 0]


def test_a_rewritten_tile_keeps_its_buffer_unless_tiles_are_renamed() -> None:
    a = tensor(row_bytes=100)
    steps: tuple[Step, ...] = (((0, 10), a, None), ((10, 20), None, a), ((50, 60), a, None), ((60, 70), None, a))
    once, anew = ((0, 100), (70, 0)), ((0, 100), (20, 0), (50, 100), (70, 0))
    assert use_of(*steps).points == once
    assert use_of(*steps, renames=True).points == anew
    assert use_of(*steps, renames=True, ordered=True).points == once
    bank = tensor(PSUM, 100)
    in_psum = [(span, written and bank, read and bank) for span, written, read in steps]
    assert use_of(*in_psum, region="psum", renames=True).points == once
    reading: tuple[Step, ...] = (*steps[:2], ((50, 60), a, a), steps[3])
    assert use_of(*reading, renames=True).points == once


def test_tiles_at_chosen_addresses_take_what_they_chose_for_all_the_time() -> None:
    a, placed = tensor(row_bytes=100), tensor(row_bytes=640, placed=True)
    use = use_of(((5, 10), a, None), ((20, 30), placed, a), ((40, 50), None, placed))
    assert use.points == ((0, 640), (5, 740), (30, 640), (50, 0))


def test_a_program_that_takes_nothing_has_no_peak() -> None:
    use = use_of(((0, 10), None, None))
    assert (use.points, use.peak_bytes, use.owners) == (((0, 0),), 0, ())


@settings(max_examples=25)
@given(all_steps, small | large)
def test_no_more_is_held_than_the_schedule_gave(steps: Any, widths: Any) -> None:
    run = walk(steps, widths, "trn2")
    for region, peak in (
        ("sbuf", run.prediction.schedule.sbuf_peak),
        ("psum", run.prediction.schedule.psum_peak),
    ):
        use = run.memory_use(region)
        assert use.peak_bytes <= peak
        assert use.peak_bytes == max(held for _, held in use.points) == sum(tile.bytes for tile in use.owners)
        assert use.points[-1][1] == 0 and [time for time, _ in use.points] == sorted({time for time, _ in use.points})


def test_a_run_knows_whether_its_machine_renames() -> None:
    @nki.jit
    def twice(a: Any) -> Any:
        out = nl.ndarray((2, *a.shape), a.dtype, nl.shared_hbm)
        tile = nl.ndarray(a.shape, a.dtype)
        for n in range(2):
            nisa.dma_copy(tile, a)
            nisa.dma_copy(out[n], tile)
        return out

    spec = simulator.TensorSpec((128, 64), "float32")
    one = simulator.run(twice, spec, functional=False)
    renamed = simulator.run(twice, spec, functional=False, constants={"tile_renaming": 1})
    assert (one.memory_use().peak_bytes, renamed.memory_use().peak_bytes) == (256, 512)
    assert machine("trn2").tile_renaming == 0
    with pytest.raises(simulator.NkiValidationError, match="must be one of sbuf, psum, got 'hbm'"):
        one.memory_use("hbm")
