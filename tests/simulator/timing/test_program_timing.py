"""The timing of hand-written programs on one core and on two: timeline, engine utilisation, FLOPs of the PE array."""

from __future__ import annotations

from itertools import combinations

import nki.isa as nisa
import pytest
from made_by_hand import Listing, part, tensor
from nki_tensors import new, on, psum
from trninfer.simulator.machine.chip import TARGETS
from trninfer.simulator.machine.instruction import Transfer
from trninfer.simulator.machine.memory import MemoryRegion
from trninfer.simulator.timing.capacity import Memory
from trninfer.simulator.timing.constants import changed, machine
from trninfer.simulator.timing.program_timing import PairTiming, ProgramTiming, array_flops, peak_flops

TRN2, NOTHING = TARGETS["trn2"], Memory(0, 0)
M = machine("trn2")


def timing(program: Listing) -> ProgramTiming:
    return ProgramTiming(program, TRN2, NOTHING)


def chain(*takes: float, unit: str = "vector", flops: int = 0) -> Listing:
    """Return instructions of an engine, each of which reads the result of the previous one."""
    program, before = Listing(), None
    for time in takes:
        tile = part(tensor())
        program.add(unit, (tile,), (before,) if before else (), takes=time).flops = flops
        before = tile
    return program


def moves(loads: int, stores: int = 0, **more: bool) -> Listing:
    """Return independent DMAs of 1 MiB; stores go to tensors that nobody reads."""
    program = Listing()
    for load in [True] * loads + [False] * stores:
        place = tensor(row_bytes=8192) if load else tensor(MemoryRegion.shared_hbm, 8192)
        dma = Transfer(8192 * 128, 128, 128, load=load, dge=bool(more), **more)
        program.add("dma", (part(place),), dma=dma)
    return program


def test_a_program_of_nothing_takes_no_time() -> None:
    empty = timing(Listing())
    assert (empty.makespan, empty.timeline, empty.critical_path, empty.flops, empty.hbm_bytes) == (0, (), (), 0, 0)
    assert {(use.busy_ns, use.share) for use in empty.engines.values()} == {(0, 0)}


def test_transfers_by_the_second_generator_of_descriptors_are_on_the_timeline() -> None:
    found = timing(moves(1, 1, second=True)).timeline
    assert sorted(event.engine for event in found) == ["dma load 0", "dma store 0"]


def test_the_timeline_has_an_event_for_each_instruction() -> None:
    found = timing(chain(100, 250, flops=7)).timeline
    assert [(e.engine, e.op, e.position, e.flops, e.line) for e in found] == [
        ("vector", "op", 0, 7, ("kernel.py", 1)),
        ("vector", "op", 1, 7, ("kernel.py", 2)),
    ]
    assert [e.end_ns - e.start_ns for e in found] == [100, 250]
    assert all(e.issued_ns == e.start_ns and e.bytes == 0 and not e.load for e in found)


def test_dmas_that_overlap_are_on_queues_of_their_own() -> None:
    found = timing(moves(loads=6, stores=3)).timeline
    queues = {e.engine for e in found}
    assert {name for name in queues if "store" in name} <= {f"dma store {n}" for n in range(3)}
    assert {"dma load 0", "dma store 0"} <= queues
    for one, other in combinations(found, 2):
        assert one.engine != other.engine or one.end_ns <= other.start_ns
    most = max(sum(e.start_ns <= at.start_ns < e.end_ns and e.load for e in found) for at in found)
    assert len({name for name in queues if "load" in name}) == most > 1  # no more queues than needed
    assert [e.load for e in sorted(found, key=lambda e: e.position)] == [True] * 6 + [False] * 3
    assert all(e.bytes == 1 << 20 and e.issued_ns < e.start_ns for e in found)


def test_a_queue_that_has_ended_is_used_again() -> None:
    """The second load waits for an instruction that reads the first."""
    program, tile = Listing(), tensor(row_bytes=64)
    for _ in range(2):
        program.add("dma", (part(tile),), dma=Transfer(8192, 128, 128, load=True, dge=False))
        program.add("vector", (), (part(tile),))
    assert {e.engine for e in timing(program).timeline} == {"dma load 0", "vector"}


def test_descriptors_by_gpsimd_are_on_its_timeline() -> None:
    found = timing(moves(loads=2, software=True)).timeline
    made = [e for e in found if e.op == "descriptors"]
    assert [(e.engine, e.position, e.bytes) for e in made] == [("gpsimd", -1, 0)] * 2
    assert [e.end_ns - e.start_ns for e in made] == pytest.approx([M.swdge_ns] * 2)
    assert timing(moves(loads=2)).engines["gpsimd"].busy_ns == 0


def test_engines_are_busy_for_their_share_of_the_time() -> None:
    found = timing(chain(100, 300))
    assert found.makespan >= 400 and found.engines["vector"].busy_ns == 400
    assert found.engines["vector"].share == pytest.approx(400 / found.makespan)
    assert {name for name, use in found.engines.items() if use.busy_ns} == {"vector"}
    moved = timing(moves(loads=4))
    assert moved.engines["dma"].share == pytest.approx(moved.engines["dma"].busy_ns / moved.makespan)
    assert moved.engines["dma"].busy_ns <= moved.makespan
    assert moved.engines["dma_issue"].busy_ns == pytest.approx(4 * M.trigger_ns)
    assert moved.hbm_bytes == 4 << 20


def test_the_critical_path_is_as_long_as_the_program() -> None:
    for program in (chain(100, 300), moves(loads=3)):
        found = timing(program)
        assert sum(step.end_ns - step.start_ns for step in found.critical_path) == pytest.approx(found.makespan)


def test_a_faster_engine_shortens_only_its_own_instructions() -> None:
    found = timing(chain(1000, 3000))
    assert found.makespan == 4000 + M.hop_vector_ns
    assert found.faster_makespan("vector", 2.0) == 2000 + M.hop_vector_ns
    assert found.faster_makespan("scalar", 2.0) == found.makespan
    assert found.makespan == timing(chain(1000, 3000)).makespan  # unchanged


def test_another_machine_is_one_whose_constants_are_overridden() -> None:
    assert not timing(chain(1)).changed
    with changed("trn2", {"trigger_ns": 1000.0}):
        assert timing(chain(1)).changed and not ProgramTiming(chain(1), TARGETS["trn3"], NOTHING).changed
        slower = timing(moves(loads=4))
    assert slower.engines["dma_issue"].busy_ns == 4000  # determined by the constants at construction


@pytest.mark.parametrize(("target", "teraflops"), [("trn1", 91.75), ("trn2", 78.64), ("trn3", 78.64)])
def test_the_peak_of_the_array_is_a_product_for_each_of_its_cells_and_cycles(target: str, teraflops: float) -> None:
    assert peak_flops(TARGETS[target]) / 1000 == pytest.approx(teraflops, rel=1e-3)


def test_a_transpose_multiplies_with_the_identity() -> None:
    with on("trn2") as core:
        nisa.nc_transpose(dst=psum((96, 32)), data=new((32, 96)))
        nisa.nc_matmul(dst=psum((96, 64)), stationary=new((32, 96)), moving=new((32, 64)))
    turned, multiplied = core.program
    assert turned.flops == 0 and array_flops(turned, TRN2) == 2 * 32 * 32 * 96
    assert array_flops(multiplied, TRN2) == multiplied.flops == 2 * 32 * 96 * 64
    both = timing(core.program)
    assert both.flops == both.matmul_flops == multiplied.flops
    assert both.hardware_flops == multiplied.flops + 2 * 32 * 32 * 96


def test_the_array_multiplies_no_more_than_its_peak() -> None:
    program = chain(10, unit="tensor", flops=10**9)
    assert array_flops(program[0], TRN2) == int(peak_flops(TRN2) * 10)
    found = timing([*program, *chain(10, flops=5)])  # type: ignore[arg-type]
    assert (found.flops, found.matmul_flops) == (10**9 + 5, 10**9)
    assert found.hardware_flops == int(peak_flops(TRN2) * 10)


def pair(first: Listing, second: Listing, *meetings: tuple[int, int]) -> PairTiming:
    return PairTiming((first, second), list(meetings), TRN2, NOTHING)


def test_two_cores_take_as_long_as_the_later_one() -> None:
    for takes in ((100, 200), (100, 5)):
        found = pair(chain(50, takes[0]), chain(*takes))
        assert found.makespan == max(timing(chain(50, takes[0])).makespan, timing(chain(*takes)).makespan)
        assert found.makespan == max(each.makespan for each in found.schedules)
    assert found.cores == 2 and len(found.program) == 4
    assert pair(chain(1, 1, flops=3), chain(1, flops=5)).flops == 2 * 3 + 5


def test_engines_of_two_cores_are_busy_for_the_mean_of_both() -> None:
    found = pair(chain(100, 300), chain(200))
    assert found.engines["vector"].busy_ns == 300
    assert found.engines["vector"].share == pytest.approx(300 / found.makespan)
    assert pair(Listing(), Listing()).engines["vector"].share == 0


def test_the_timeline_of_two_cores_names_the_core() -> None:
    found = pair(chain(100, 10), chain(20, 30)).timeline
    assert [e.start_ns for e in found] == sorted(e.start_ns for e in found)
    by_core = {core: [e.position for e in found if e.engine == f"core {core} vector"] for core in (0, 1)}
    assert by_core == {0: [0, 1], 1: [0, 1]}


def test_cores_that_meet_are_timed_together() -> None:
    found = pair(chain(1000, 100), chain(10, 2000), (1, 1))
    assert found.schedules[0].start[1] == found.schedules[1].start[1] >= 1000
    assert found.makespan >= 3000
    assert sum(s.end_ns - s.start_ns for s in found.critical_path) == pytest.approx(found.makespan)
    long = {step.position for step in found.critical_path if step.end_ns - step.start_ns > M.hop_vector_ns}
    assert long == {0, 3}  # core 0 until they meet, then core 1
    assert found.faster_makespan("vector", 2.0) == pytest.approx(found.makespan - 1500)
