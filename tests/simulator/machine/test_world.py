"""Meetings of ranks: results, order, and ranks that pass something else or never arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.world import Contribution, World


def bring(terms, values):
    return Contribution((terms,), f"{terms} of {values}", values)


@settings(max_examples=10)
@given(st.integers(1, 8), st.integers(0, 4))
def test_all_get_what_all_bring_each_time(size, times):
    world = World(size)
    group = tuple(range(size))

    def program(rank):
        return [world.meet(rank, group, bring("sum", (rank, n))) for n in range(times)]

    assert world.run(program) == [[[(rank, n) for rank in group] for n in range(times)]] * size


def test_groups_are_ordered_and_independent():
    world = World(4)

    def program(rank):
        own = (2, 0) if rank % 2 == 0 else (1, 3)
        return world.meet(rank, own, bring("sum", rank)), world.meet(rank, (3, 2, 1, 0), bring("all", -rank))

    even, odd = ([2, 0], [-3, -2, -1, 0]), ([1, 3], [-3, -2, -1, 0])
    assert world.run(program) == [even, odd, even, odd]


def test_one_rank_runs_at_a_time():
    """A rank runs until it must wait, without interleaving."""
    world, steps = World(3), []

    def program(rank):
        for _ in range(3):
            steps.append(rank)
        world.meet(rank, (0, 1, 2), bring("sum", rank))

    world.run(program)
    assert [len(set(steps[first : first + 3])) for first in (0, 3, 6)] == [1, 1, 1] and len(steps) == 9


def other_terms(world, rank):
    world.meet(rank, (0, 1, 2), bring("sum" if rank else "largest", rank))


def never_comes(world, rank):
    if rank:
        world.meet(rank, (0, 1, 2), bring("sum", rank))


def in_a_circle(world, rank):
    for turn in range(3):
        world.meet(rank, ((0, 1), (1, 2), (2, 0))[(turn + rank) % 3], bring("sum", rank))


@pytest.mark.parametrize(
    "program, message",
    [
        (other_terms, r"rank \d calls .*, but rank \d calls .*: ranks of a group must call the same collectives in"),
        (never_comes, r"rank \d waits in sum of \d for rank 0, which has ended"),
        (in_a_circle, "deadlock: ranks wait for each other: rank 0 in sum of 0; rank 1 in sum of 1; rank 2 in"),
    ],
)
def test_ranks_that_wait_in_vain_are_named(program, message):
    world = World(3)
    with pytest.raises(NkiValidationError, match=message):
        world.run(lambda rank: program(world, rank))


def test_an_error_of_one_rank_ends_all():
    """That error is raised, rather than its effects on other ranks."""
    world, ended = World(3), []

    def program(rank):
        if rank == 2:
            raise ValueError("no luck")
        try:
            world.meet(rank, (0, 1, 2), bring("sum", rank))
        except Exception:  # written by the kernel's author
            ended.append(rank)

    with pytest.raises(ValueError, match="no luck"):
        world.run(program)
    assert not ended
