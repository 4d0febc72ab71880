"""Ports of SBUF and PSUM: which engines share them, on which generation, at which banks."""

import pytest
from made_by_hand import part, tensor
from trninfer.simulator.machine.chip import PSUM_BANK_BYTES
from trninfer.simulator.machine.instruction import Access, Cost, Instruction, engine
from trninfer.simulator.machine.memory import PSUM, SBUF
from trninfer.simulator.timing.dependencies import Version
from trninfer.simulator.timing.ports import Ports

IN_SBUF, IN_PSUM = (part(tensor(region)) for region in (SBUF, PSUM))


def copy(index: int, unit: engine, into: Access, source: Access) -> Instruction:
    """Return an instruction that reads one tile and writes another."""
    return Instruction(index, "copy", unit, (into,), (source,), Cost(1, 1), None, 0, 0, ("k.py", 1), None, False)


def in_bank(bank: int) -> Version:
    """Return the buffer of a tile in one bank of PSUM."""
    version = Version(512, True)
    version.bank = bank
    return version


def starts(ports: Ports, *taken: tuple[engine, Access, Access, Version | None]) -> list[float]:
    """Return the start times of instructions of 100 ns that could all start at 10."""
    found = []
    for index, (unit, into, source, version) in enumerate(taken):
        instruction = copy(index, unit, into, source)
        found.append(ports.take(instruction, unit, [version] if version else [], 10.0, 100.0))
    return found


@pytest.mark.parametrize(
    ("first", "second", "place", "turns"),
    [
        (engine.vector, engine.scalar, IN_PSUM, True),
        (engine.scalar, engine.vector, IN_PSUM, True),
        (engine.vector, engine.gpsimd, IN_PSUM, False),
        (engine.vector, engine.gpsimd, IN_SBUF, True),
        (engine.vector, engine.scalar, IN_SBUF, False),
        (engine.scalar, engine.gpsimd, IN_SBUF, False),
    ],
)
def test_which_engines_of_trn1_take_turns(first: engine, second: engine, place: Access, turns: bool) -> None:
    found = starts(Ports(2, False), (first, place, place, None), (second, place, place, None))
    assert found == [10, 110 if turns else 10]


def test_an_instruction_between_memories_holds_the_ports_of_both() -> None:
    """It reads or writes PSUM, and also accesses SBUF."""
    for into, source in ((IN_SBUF, IN_PSUM), (IN_PSUM, IN_SBUF)):
        ports = Ports(2, False)
        found = starts(
            ports,
            (engine.vector, into, source, None),
            (engine.scalar, IN_SBUF, IN_PSUM, None),
            (engine.gpsimd, IN_SBUF, IN_SBUF, None),
        )
        assert found == [10, 110, 110] and ports.held_by == 0


def test_the_later_of_two_ports_counts_and_is_reported() -> None:
    ports = Ports(2, False)
    ports.take(copy(5, engine.scalar, IN_PSUM, IN_PSUM), engine.scalar, [], 0.0, 300.0)
    ports.take(copy(6, engine.gpsimd, IN_SBUF, IN_SBUF), engine.gpsimd, [], 0.0, 200.0)
    assert ports.take(copy(7, engine.vector, IN_SBUF, IN_PSUM), engine.vector, [], 10.0, 1.0) == 300
    assert ports.held_by == 5
    assert ports.take(copy(8, engine.gpsimd, IN_SBUF, IN_SBUF), engine.gpsimd, [], 10.0, 1.0) == 301  # both were held


@pytest.mark.parametrize("generation", [3, 4])
@pytest.mark.parametrize(("bank", "turns"), [(0, True), (1, False), (7, False)])
def test_later_generations_take_turns_at_one_bank_of_psum(generation: int, bank: int, turns: bool) -> None:
    found = starts(
        Ports(generation, False),
        (engine.vector, IN_SBUF, IN_PSUM, in_bank(0)),
        (engine.scalar, IN_SBUF, IN_PSUM, in_bank(bank)),
    )
    assert found == [10, 110 if turns else 10]


def test_later_generations_have_a_port_of_sbuf_for_each_engine() -> None:
    taken = [(unit, IN_SBUF, IN_SBUF, None) for unit in (engine.vector, engine.scalar, engine.gpsimd)]
    assert starts(Ports(3, False), *taken) == [10, 10, 10]
    of_gpsimd = (engine.gpsimd, IN_SBUF, IN_PSUM, in_bank(0))  # it has a separate PSUM port
    assert starts(Ports(3, False), (engine.vector, IN_SBUF, IN_PSUM, in_bank(0)), of_gpsimd) == [10, 10]


def test_a_tile_without_a_bank_of_its_own_is_at_none() -> None:
    forced = in_bank(8)  # without free space
    assert starts(Ports(3, False), *[(engine.vector, IN_SBUF, IN_PSUM, forced)] * 2) == [10, 10]


@pytest.mark.parametrize(
    ("first", "second", "turns"),
    [((0, 512), (2000, 2048), True), ((0, 2048), (2048, 4096), False), ((0, 2052), (2048, 4096), True)],
)
def test_tiles_at_chosen_addresses_are_at_the_banks_of_their_bytes(
    first: tuple[int, int], second: tuple[int, int], turns: bool
) -> None:
    placed = tensor(PSUM, 8 * PSUM_BANK_BYTES, placed=True)
    taken = [
        (unit, IN_SBUF, part(placed, *span), None) for unit, span in ((engine.vector, first), (engine.scalar, second))
    ]
    assert starts(Ports(3, True), *taken) == [10, 110 if turns else 10]


def test_a_tile_larger_than_a_bank_is_at_the_banks_that_it_was_given() -> None:
    """Its second bank is 5: readers of its last bytes wait for accesses to bank 5, not to banks 1 or 2."""
    large = tensor(PSUM, 2 * PSUM_BANK_BYTES)
    version = Version(large.row_bytes, True)
    version.whole = [2, 5]
    last = part(large, PSUM_BANK_BYTES, PSUM_BANK_BYTES + 4)
    for bank, start in ((1, 10), (2, 10), (5, 110)):
        found = starts(
            Ports(3, False),
            (engine.vector, IN_SBUF, IN_PSUM, in_bank(bank)),
            (engine.scalar, IN_SBUF, last, version),
        )
        assert found == [10, start]
