"""Buffers in SBUF and PSUM, assigned in program order as space permits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.simulator.machine.chip import PSUM_BANK_BYTES, PSUM_BANKS
from trninfer.simulator.timing.buffers import Buffers
from trninfer.simulator.timing.dependencies import Version

BANK = PSUM_BANK_BYTES


def waiting(sizes: list[int], psum: bool = False, placed: int = 0, room: int = 100) -> tuple[Buffers, list[Version]]:
    """Return buffers for versions whose first instructions are 0, 10, 20 and so on."""
    versions = [Version(size, psum) for size in sizes]
    births = [(10 * number, version) for number, version in enumerate(versions)]
    return Buffers(births, 0 if psum else placed, placed if psum else 0, room), versions


def given_at(buffers: Buffers, time: float) -> list[int]:
    return [index for index, _ in buffers.give(time)]


def free(buffers: Buffers, version: Version, time: float) -> None:
    version.free_at = time
    buffers.release(version)


def test_buffers_of_sbuf_are_given_in_order_as_far_as_they_fit() -> None:
    """The third would fit beside the first, but the second precedes it."""
    buffers, versions = waiting([60, 50, 10], room=100)
    assert buffers.give(0.0) == [(0, None)] and buffers.next_release == math.inf
    free(buffers, versions[0], 7.0)
    assert buffers.next_release == 7.0
    assert buffers.give(6.9) == []
    assert buffers.give(7.0) == [(10, versions[0]), (20, versions[0])]
    assert buffers.sbuf_peak == 60 and buffers.psum_peak == 0


def test_a_buffer_may_fill_all_that_is_left() -> None:
    buffers, _ = waiting([50, 30, 1], placed=20)
    assert given_at(buffers, 0.0) == [0, 10] and buffers.sbuf_peak == 100
    assert waiting([])[0].sbuf_peak == 0 and waiting([], placed=20)[0].sbuf_peak == 20


def test_buffer_that_is_freed_first_is_reused_first() -> None:
    buffers, versions = waiting([50, 50, 40, 60])
    assert given_at(buffers, 0.0) == [0, 10]
    free(buffers, versions[0], 9.0)
    free(buffers, versions[1], 5.0)
    assert buffers.next_release == 5.0
    assert buffers.give(5.0) == [(20, versions[1])] and buffers.next_release == 9.0
    assert buffers.give(20.0) == [(30, versions[0])]
    assert buffers.sbuf_peak == 100


def test_one_buffer_may_wait_for_several() -> None:
    buffers, versions = waiting([40, 40, 90])
    assert given_at(buffers, 0.0) == [0, 10]
    for version, time in zip(versions, (3.0, 4.0)):
        free(buffers, version, time)
    assert buffers.give(4.0) == [(20, versions[1])]  # the last of them freed the space


def test_a_tile_in_psum_takes_a_bank_however_small() -> None:
    buffers, versions = waiting([4] * 10, psum=True)
    assert given_at(buffers, 0.0) == [10 * number for number in range(PSUM_BANKS)]
    assert [version.bank for version in versions[:PSUM_BANKS]] == list(range(PSUM_BANKS))
    assert buffers.psum_peak == 4 * PSUM_BANKS and buffers.sbuf_peak == 0
    free(buffers, versions[3], 1.0)
    assert buffers.give(1.0) == [(80, versions[3])] and versions[8].bank == 3


def test_a_tile_larger_than_a_bank_takes_whole_empty_ones() -> None:
    buffers, versions = waiting([4, 2 * BANK + 4, 4 * BANK, BANK + 1], psum=True)
    assert given_at(buffers, 0.0) == [0, 10, 20]
    assert [list(version.whole) for version in versions] == [[], [1, 2, 3], [4, 5, 6, 7], []]
    assert buffers.psum_peak == 4 + 7 * BANK
    free(buffers, versions[1], 1.0)
    assert given_at(buffers, 1.0) == [30] and versions[3].whole == [1, 2]


def test_a_bank_that_a_large_tile_has_left_takes_a_small_one() -> None:
    buffers, versions = waiting([8 * BANK, BANK, BANK], psum=True)
    assert given_at(buffers, 0.0) == [0]
    free(buffers, versions[0], 1.0)
    assert given_at(buffers, 1.0) == [10, 20] and [v.bank for v in versions[1:]] == [0, 1]


@pytest.mark.parametrize(
    ("placed", "size", "bank"),
    [(0, BANK, 0), (4, BANK, 1), (4, BANK - 4, 0), (4, BANK - 3, 1), (BANK, 4, 1), (3 * BANK + 8, BANK - 4, 4)],
)
def test_tiles_at_chosen_addresses_take_the_first_bytes_of_psum(placed: int, size: int, bank: int) -> None:
    buffers, (version,) = waiting([size], psum=True, placed=placed)
    assert given_at(buffers, 0.0) == [0] and version.bank == bank
    assert buffers.psum_peak == placed + size


def test_a_stalled_program_puts_two_tiles_into_the_emptiest_bank() -> None:
    buffers, versions = waiting([BANK - 8] * 7 + [100, 50, 60, BANK], psum=True)
    assert len(buffers.give(0.0)) == 8
    assert buffers.force(0.0) == 80 and versions[8].bank == 7  # next to the 100 bytes
    assert buffers.psum_peak == 7 * (BANK - 8) + 150
    assert buffers.force(0.0) == 90 and versions[9].bank == 7
    assert buffers.force(0.0) == 100 and versions[10].bank == PSUM_BANKS  # it fits nowhere
    free(buffers, versions[10], 1.0)
    assert buffers.give(5.0) == [] and buffers.next_release == math.inf


def test_shared_bank_is_free_when_both_tiles_are() -> None:
    buffers, versions = waiting([BANK // 2] * 9 + [BANK], psum=True)
    buffers.give(0.0)
    assert buffers.force(0.0) == 80
    free(buffers, versions[8], 1.0)
    assert buffers.give(1.0) == []
    shared = versions[8].bank
    free(buffers, versions[shared], 2.0)
    assert given_at(buffers, 2.0) == [90] and versions[9].bank == shared


def test_forced_allocations_of_sbuf_are_freed() -> None:
    buffers, versions = waiting([80, 50, 40])
    assert given_at(buffers, 0.0) == [0]
    assert buffers.force(0.0) == 10
    free(buffers, versions[0], 1.0)
    assert given_at(buffers, 1.0) == [20]  # 50 and 40 fit next to each other


sizes = st.lists(st.tuples(st.booleans(), st.integers(1, 300)), max_size=40)


@given(sizes, st.randoms(use_true_random=False))
def test_no_more_is_given_at_a_time_than_there_is(tiles: list[tuple[bool, int]], chance: object) -> None:
    """Tiles are freed one at a time in any order; all are eventually assigned, in order within each memory."""
    versions = [Version(size * (20 if psum else 1), psum) for psum, size in tiles]
    buffers = Buffers(list(enumerate(versions)), 0, 0, 500)
    held: list[int] = []
    order: list[int] = []
    time = 0.0
    while True:
        for index, freed in buffers.give(time):
            assert freed is None or freed.free_at <= time
            held.append(index)
            order.append(index)
        in_sbuf = sum(versions[i].size for i in held if not versions[i].psum)
        banks = [b for i in held if versions[i].psum for b in (versions[i].whole or [versions[i].bank])]
        assert in_sbuf <= 500 and len(set(banks)) == len(banks) <= PSUM_BANKS
        if not held:
            break
        time += 1
        gone = held.pop(chance.randrange(len(held)))  # type: ignore[attr-defined]
        versions[gone].free_at = time
        buffers.release(versions[gone])
    for psum in (False, True):
        assert [i for i in order if versions[i].psum is psum] == [i for i, v in enumerate(versions) if v.psum is psum]
