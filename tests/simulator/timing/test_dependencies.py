"""Dependencies of instructions, compared with a memory that records the writer and readers of each byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_by_hand import ROWS, Listing, part, tensor
from trninfer.simulator.machine.instruction import Access, Allocation, Instruction
from trninfer.simulator.machine.memory import PSUM, SBUF, MemoryRegion
from trninfer.simulator.timing.dependencies import BUCKETS, ORDER, RAW, WAR, WAW, analyse

HBM = MemoryRegion.shared_hbm
Edge = tuple[int, int, int]  # producer, consumer, and reason


def edges(program: list[Instruction], renames: bool = False) -> set[Edge]:
    """Return the edges of the analysis, without duplicates."""
    graph = analyse(program, renames)
    found = [
        (producer, packed >> 2, packed & 3) for producer, all_of in enumerate(graph.successors) for packed in all_of
    ]
    counts = [sum(waiting == index for _, waiting, _ in found) for index in range(len(program))]
    assert counts == graph.waits
    return set(found)


def program_of(*steps: tuple[str, Any, Any]) -> Listing:
    """Return instructions of the Vector Engine: (kind, write, read), where each access may be None."""
    program = Listing()
    for unit, written, read in steps:
        program.add(unit, (written,) if written else (), (read,) if read else ())
    return program


@pytest.mark.parametrize("region", [SBUF, PSUM])
def test_reads_wait_for_the_write_and_writes_for_both(region: Any) -> None:
    tile, other = part(tensor(region)), part(tensor(region))
    program = program_of(
        ("vector", tile, None),
        ("scalar", other, tile),
        ("gpsimd", None, tile),
        ("vector", tile, None),
        ("scalar", None, tile),
    )
    assert edges(program) == {(0, 1, RAW), (0, 2, RAW), (1, 3, WAR), (2, 3, WAR), (0, 3, WAW), (3, 4, RAW)}


def test_instruction_that_overwrites_its_operand_waits_for_the_write_once() -> None:
    tile = part(tensor())
    program = program_of(("vector", tile, None), ("scalar", None, tile), ("vector", tile, tile))
    assert edges(program) == {(0, 1, RAW), (0, 2, RAW), (1, 2, WAR)}


def test_unwritten_memory_causes_no_dependency() -> None:
    tile, other = part(tensor()), part(tensor())
    assert edges(program_of(("vector", other, tile), ("scalar", tile, None), ("vector", tile, None))) == {(1, 2, WAW)}


def test_bytes_that_are_written_apart_have_dependencies_apart() -> None:
    """A stack of two rows, each with a separate buffer in SBUF; a read of both waits for both."""
    stack = tensor(row_bytes=64)
    low, high = part(stack, 0, 32), part(stack, 32, 64)
    program = program_of(
        ("vector", low, None),
        ("vector", high, None),
        ("scalar", None, part(stack, 28, 32)),
        ("scalar", None, part(stack, 32, 36)),
        ("scalar", None, part(stack, 28, 36)),
        ("vector", high, None),
    )
    assert edges(program) == {
        *((0, 2, RAW), (1, 3, RAW), (0, 4, RAW), (1, 4, RAW)),
        *((1, 5, WAW), (3, 5, WAR), (4, 5, WAR)),
    }
    graph = analyse(program)
    assert [(index, version.size) for index, version in graph.births] == [(0, 32), (1, 32)]
    assert [[graph.births.index(b) for b in graph.births if b[1] in uses] for uses in graph.uses] == [
        *([0], [1], [0], [1], [0, 1], [1])
    ]
    assert [version.left for _, version in graph.births] == [3, 4]


def test_a_tile_in_psum_has_one_buffer_however_it_is_written() -> None:
    bank = tensor(PSUM, 64)
    program = program_of(
        ("tensor", part(bank, 0, 32), None), ("tensor", part(bank, 32, 64), None), ("vector", None, part(bank, 0, 32))
    )
    assert edges(program) == {(0, 2, RAW)}
    graph = analyse(program)
    ((index, version),) = graph.births
    assert (index, version.size, version.psum, version.left) == (0, 64, True, 3)


def test_a_read_waits_for_all_that_wrote_what_it_reads() -> None:
    """The second write keeps the first bytes of the first; the third overwrites the second completely."""
    bank = tensor(PSUM, 64)
    program = program_of(
        ("tensor", part(bank, 0, 32), None),
        ("tensor", part(bank, 16, 48), None),
        ("tensor", part(bank, 16, 64), None),
        ("vector", None, part(bank, 0, 8)),
        ("vector", None, part(bank, 40, 64)),
    )
    assert edges(program) == {(0, 1, WAW), (1, 2, WAW), (0, 2, WAW), (0, 3, RAW), (2, 4, RAW)}


def test_combs_that_interlock_do_not_meet() -> None:
    """Every other float of a row, and those between."""
    row = tensor(PSUM, 64)
    even, odd = (Access(row, 0, ROWS, first, first + 60, 64, False, 8, 4) for first in (0, 4))
    program = program_of(
        ("vector", even, None),
        ("vector", odd, None),
        ("scalar", None, even),
        ("vector", even, None),
        ("vector", odd, None),
    )
    assert edges(program) == {(0, 2, RAW), (0, 3, WAW), (2, 3, WAR), (1, 4, WAW)}


def test_tensors_in_hbm_have_dependencies_if_they_are_read() -> None:
    kept, returned, given = tensor(HBM), tensor(HBM), tensor(HBM, argument=True)
    program = program_of(
        ("dma", part(kept), None),
        ("dma", None, part(kept, rows=(5, 6))),
        ("dma", part(kept, rows=(5, 9)), None),
        ("dma", part(returned), None),
        ("dma", part(returned), None),
        ("dma", None, part(given, rows=(0, 64))),
        ("dma", part(given, rows=(64, 128)), None),
        ("dma", part(given, rows=(0, 1)), None),
    )
    assert edges(program) == {(0, 1, RAW), (0, 2, WAW), (1, 2, WAR), (5, 7, WAR)}


def test_a_write_of_some_rows_leaves_those_who_wrote_the_others() -> None:
    kept = tensor(HBM)
    program = program_of(
        ("dma", part(kept, rows=(0, 64)), None),
        ("dma", part(kept, rows=(8, 9)), None),
        ("dma", part(kept, rows=(0, 64), end=8), None),
        ("dma", None, part(kept, rows=(20, 30))),
        ("dma", part(kept), None),
        ("dma", None, part(kept, rows=(8, 9))),
    )
    waited = {(producer, kind) for producer, index, kind in edges(program) if index == 3}
    assert waited == {(0, RAW), (2, RAW)}
    assert {producer for producer, index, _ in edges(program) if index == 5} == {4}  # all others are overwritten


def test_overlapping_writes_turn_a_stack_into_one_buffer() -> None:
    """The third write covers half of the second."""
    stack = tensor(row_bytes=64)
    program = program_of(
        ("vector", part(stack, 0, 32), None),
        ("vector", part(stack, 32, 64), None),
        ("vector", part(stack, 48, 64), None),
        ("scalar", None, part(stack, 32, 40)),
    )
    assert edges(program) == {(1, 2, WAW), (1, 3, RAW)} and len(analyse(program).births) == 1


@pytest.mark.parametrize(
    ("span", "waited"), [((0, 16), {0}), ((16, 32), set()), ((20, 40), {1}), ((12, 40), {0, 1}), ((48, 80), {2})]
)
def test_a_read_between_the_parts_of_a_stack_waits_for_those_that_it_reaches(
    span: tuple[int, int], waited: set[int]
) -> None:
    stack = tensor(row_bytes=80)
    writes = [("vector", part(stack, start, start + 16), None) for start in (0, 32, 64)]
    program = program_of(*writes, ("scalar", None, part(stack, *span)))
    assert edges(program) == {(producer, 3, RAW) for producer in waited}


def test_ordered_instructions_are_sequential_on_an_engine() -> None:
    program = Listing()
    for unit, ordered in (("vector", True), ("scalar", True), ("vector", False), ("vector", True), ("scalar", True)):
        program.add(unit, ordered=ordered)
    assert edges(program) == {(0, 3, ORDER), (1, 4, ORDER)}


def test_an_instruction_waits_for_what_it_is_reported_to() -> None:
    program = Listing()
    first, second, last = (program.add(unit) for unit in ("vector", "scalar", "gpsimd"))
    last.depends_on(first, second)
    assert edges(program) == {(0, 2, RAW), (1, 2, RAW)}


def test_tiles_at_chosen_addresses_take_their_place_for_good() -> None:
    placed, in_psum, free = tensor(row_bytes=640, placed=True), tensor(PSUM, 96, placed=True), tensor()
    program = program_of(("vector", part(placed), None), ("vector", part(in_psum), None), ("vector", part(free), None))
    graph = analyse(program)
    assert graph.placed == {SBUF: 640, PSUM: 96} and [index for index, _ in graph.births] == [2]
    assert [len(uses) for uses in graph.uses] == [0, 0, 1]


def rewritten(region: Any, **more: Any) -> Listing:
    """A tile that is written, read, overwritten, and read again."""
    tile, program = part(tensor(region)), Listing()
    program.add("vector", (tile,))
    program.add("scalar", (), (tile,))
    program.add("vector", (tile,), **more)
    program.add("scalar", (), (tile,))
    return program


def test_renaming_assigns_another_buffer_to_a_rewritten_tile() -> None:
    plain = {(0, 1, RAW), (0, 2, WAW), (1, 2, WAR), (2, 3, RAW)}
    renamed = rewritten(SBUF)
    assert edges(renamed) == plain and len(analyse(renamed).births) == 1
    assert edges(renamed, renames=True) == {(0, 1, RAW), (2, 3, RAW)}
    graph = analyse(renamed, renames=True)
    assert [index for index, _ in graph.births] == [0, 2]
    assert [version.left for _, version in graph.births] == [2, 2]
    for program in (rewritten(PSUM), rewritten(SBUF, ordered=True)):
        assert edges(program, renames=True) == plain and len(analyse(program, renames=True).births) == 1


def test_renaming_leaves_a_tile_that_is_read_or_written_in_part() -> None:
    tile = tensor()
    reading = program_of(("vector", part(tile), None), ("vector", part(tile), part(tile)))
    in_part = program_of(("vector", part(tile), None), ("vector", part(tile, 0, 8), None))
    for program, kind in ((reading, RAW), (in_part, WAW)):
        assert edges(program, renames=True) == {(0, 1, kind)}
        assert len(analyse(program, renames=True).births) == 1


SIZE = 16  # bytes per row of the tensors below


class Memory:
    """Records the last writer of each byte, and its readers since."""

    def __init__(self) -> None:
        self.writer: dict[tuple[Allocation, int, int], int] = {}
        self.readers: dict[tuple[Allocation, int, int], list[int]] = {}

    def expected(self, program: list[Instruction]) -> set[Edge]:
        """Return all dependencies of a program's instructions, byte by byte."""
        found = set()
        for index, instruction in enumerate(program):
            for place in (place for access in instruction.reads for place in _places(access)):
                if place in self.writer:
                    found.add((self.writer[place], index, RAW))
                if place in self.writer or place[0].argument:
                    self.readers.setdefault(place, []).append(index)
            for place in (place for access in instruction.writes for place in _places(access)):
                if place in self.writer:
                    found.add((self.writer[place], index, WAW))
                found |= {(reader, index, WAR) for reader in self.readers.pop(place, ())}
                self.writer[place] = index
        return {(before, index, kind) for before, index, kind in found if before != index}


def _places(access: Access) -> list[tuple[Allocation, int, int]]:
    rows, columns = range(access.row, access.row_end), range(access.byte, access.byte_end, 4)
    return [(access.allocation, row, column) for row in rows for column in columns]


def _meet(first: Access, second: Access) -> bool:
    if first.allocation.region in (SBUF, PSUM):
        return first.allocation is second.allocation
    return first.overlaps(second)


spans = st.tuples(st.integers(0, 3), st.integers(1, 4)).map(lambda drawn: (4 * drawn[0], min(SIZE, 4 * sum(drawn))))
rows = st.tuples(st.sampled_from([0, 2, 126]), st.sampled_from([1, 2, ROWS])).map(lambda d: (d[0], min(ROWS, sum(d))))
touches = st.tuples(st.integers(0, 3), st.one_of(st.just((0, SIZE)), spans), st.one_of(st.just((0, ROWS)), rows))
steps = st.lists(st.tuples(st.lists(touches, max_size=2), st.lists(touches, max_size=1)), max_size=12)


@settings(max_examples=100)
@given(steps)
def test_an_instruction_waits_for_all_that_it_must_and_for_nothing_else(drawn: Any) -> None:
    """Dependencies may be indirect. On the chip, reading unwritten parts of a tile counts as reading the rest of it."""
    tensors = [tensor(SBUF, SIZE), tensor(PSUM, SIZE), tensor(HBM, SIZE), tensor(HBM, SIZE, argument=True)]
    program = Listing()
    for reads, writes in drawn:
        program.add(
            "vector", *[tuple(part(tensors[n], *span, over) for n, span, over in each) for each in (writes, reads)]
        )
    found = edges(program)
    before: list[set[int]] = []  # all dependencies of each instruction
    for index in range(len(program)):
        direct = {producer for producer, waiting, _ in found if waiting == index}
        before.append(direct.union(*(before[producer] for producer in direct)))
    unread = {access.allocation for i in program for access in i.writes} - {
        access.allocation for i in program for access in i.reads
    }
    for producer, index, kind in Memory().expected(program):
        if kind == WAW and any(access.allocation in unread for access in program[index].writes):
            continue  # a tensor in HBM that is only written is an output of the kernel
        assert producer in before[index], (producer, index, kind)
    for producer, index, kind in found:
        first, second = program[producer], program[index]
        pairs = {
            RAW: (first.writes, second.reads),
            WAR: (first.reads, second.writes),
            WAW: (first.writes, second.writes),
        }[kind]
        assert any(_meet(a, b) for a in pairs[0] for b in pairs[1]), (producer, index, kind)


few = st.sampled_from([1, 3, 60, 250, 499])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0, 1, 63, 250, 500, 749]), few), min_size=6, max_size=25))
def test_overlaps_in_large_tensors_are_found_wherever_they_begin(drawn: list[tuple[bool, int, int]]) -> None:
    """Flat views of a tensor with 1,000 floats, which is searched in pieces of a given number of bytes."""
    large, program, size = tensor(HBM, 4), Listing(), 1000
    assert 4 * size > BUCKETS
    for writes, first, length in drawn:
        access = Access(large, 0, 1, 4 * first, 4 * min(size, first + length), 4 * size, False)
        program.add("dma", *(((access,), ()) if writes else ((), (access,))))
    writer = [-1] * size
    for index, instruction in enumerate(program):
        for access in instruction.writes:
            writer[access.byte // 4 : access.byte_end // 4] = [index] * ((access.byte_end - access.byte) // 4)
        for access in instruction.reads:
            wanted = set(writer[access.byte // 4 : access.byte_end // 4]) - {-1}
            waited = {producer for producer, waiting, _ in edges(program[: index + 1]) if waiting == index}
            assert wanted <= waited
            assert all(program[producer].writes[0].overlaps(access) for producer in waited)
