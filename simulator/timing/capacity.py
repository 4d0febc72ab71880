"""Determine the peak usage of SBUF and PSUM in program order, and raise an error if it exceeds the capacity.

A compiler may reorder independent instructions. A program that does not fit as written is therefore checked again, in
an order that reads every tile in PSUM as soon as its sum is complete, and fills every tile in SBUF just before its
first use. Even then, the original order must fit in all of SBUF, including the part that the compiler reserves.

A tile is live from its first write to its last access. A tile that is never read is live until the kernel releases it.
Tiles at explicit addresses occupy their space for the whole program.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from ..machine.chip import PSUM_BANK_BYTES, PSUM_BANKS, Target
from ..machine.errors import CapacityError
from ..machine.instruction import Allocation, Instruction, engine
from ..machine.memory import PSUM, SBUF
from .dependencies import analyse

_QUADRANTS = 4  # number of quadrants, each with 32 partitions
_ALL = range(_QUADRANTS)
_SHOWN = 4  # number of the largest tiles that an error message lists


class Memory(NamedTuple):
    """The peak memory use of a program: bytes per SBUF partition, and number of PSUM banks."""

    sbuf_bytes: int
    psum_banks: int


class Life(NamedTuple):
    """The lifetime of a tile as an inclusive range of instruction indices [start, end]."""

    start: int
    end: int
    allocation: Allocation


def lives(program: list[Instruction]) -> list[Life]:
    """Return the lifetimes of on-chip tiles, sorted by start."""
    first: dict[Allocation, int] = {}
    last_write: dict[Allocation, int] = {}
    last_read: dict[Allocation, int] = {}
    for index, instruction in enumerate(program):
        for access in instruction.writes:
            first.setdefault(access.allocation, index)
            last_write[access.allocation] = index
        for access in instruction.reads:
            last_read[access.allocation] = index
    lifetimes = []
    for allocation, start in first.items():
        if allocation.region is not SBUF and allocation.region is not PSUM:
            continue
        if allocation.placed:
            start, end = 0, len(program)
        else:
            unread = len(program) if allocation.dropped is None else allocation.dropped - 1
            end = max(last_write[allocation], last_read.get(allocation, unread))
        lifetimes.append(Life(start, end, allocation))
    lifetimes.sort(key=lambda life: (life.start, life.allocation.uid))
    return lifetimes


def check(program: list[Instruction], target: Target) -> Memory:
    """Return the peak memory use of a program. Raise CapacityError if it exceeds the capacity of the target."""
    try:
        return _peaks(program, target, target.usable_sbuf_bytes)
    except CapacityError:
        successors = analyse(program).successors
        early = read_early(program, successors)
        for first, is_late in ((early, False), (program, True), (early, True)):
            try:
                _peaks(first, target, target.sbuf_bytes)
                order = load_late(first, successors) if is_late else first
                return _peaks(order, target, target.usable_sbuf_bytes)
            except CapacityError:
                pass
        raise


def read_early(program: list[Instruction], successors: list[list[int]]) -> list[Instruction]:
    """Return the program with the instructions that read PSUM moved up to where their operands are complete.

    The order of the other instructions is unchanged. `successors`: see `Dependencies`.
    """
    places = [0] * len(program)  # for each instruction, the instruction that it must follow
    for index, instruction in enumerate(program):
        evicts = places[index] and any(access.allocation.region is PSUM for access in instruction.reads)
        places[index] = position = places[index] if evicts else max(index, places[index])
        for successor in successors[index]:
            later = successor >> 2
            places[later] = max(places[later], position)
    return [program[index] for index in sorted(range(len(program)), key=lambda index: (places[index], index))]


def load_late(program: list[Instruction], successors: list[list[int]]) -> list[Instruction]:
    """Return the program with memsets and DMAs into SBUF moved down to the first use of their tiles.

    `successors`: see `Dependencies`.
    """
    position = {instruction.index: number for number, instruction in enumerate(program)}
    places = list(range(len(program)))  # for each instruction, the instruction that it must precede
    for number in range(len(program) - 1, -1, -1):
        instruction = program[number]
        brings = instruction.engine is engine.dma or instruction.op == "memset"
        if brings and all(access.allocation.region is SBUF for access in instruction.writes):
            needed = [places[position[later >> 2]] for later in successors[instruction.index]]
            places[number] = min(needed, default=number)
    return [program[number] for number in sorted(range(len(program)), key=lambda number: (places[number], number))]


def _peaks(program: list[Instruction], target: Target, sbuf_bytes: int) -> Memory:
    """Check the program in the given order, as `check` does, with `sbuf_bytes` available per SBUF partition."""
    tiles = lives(program)
    sbuf = [life for life in tiles if life.allocation.region is SBUF]
    psum = [life for life in tiles if life.allocation.region is PSUM]
    return Memory(_check_sbuf(sbuf, target, sbuf_bytes), _check_psum(psum, target))


def _check_sbuf(tiles: list[Life], target: Target, usable: int) -> int:
    peak = 0
    alive: list[tuple[int, int, Allocation]] = []
    quadrants = Quadrants()
    for start, end, allocation in tiles:
        while alive and alive[0][0] < start:
            quadrants.free(heapq.heappop(alive)[2])
        heapq.heappush(alive, (end, allocation.uid, allocation))
        in_use = quadrants.take(allocation)
        if in_use > usable:
            raise CapacityError(
                f"SBUF of {target.name} is full: {allocation.label} (allocated at {allocation.line}) needs "
                f"{allocation.row_bytes} bytes per partition; {usable - in_use + allocation.row_bytes} of {usable} are "
                f"available; alive: {_biggest(alive, allocation)}"
            )
        peak = max(peak, in_use)
    return peak


def _check_psum(tiles: list[Life], target: Target) -> int:
    peak = 0
    alive: list[tuple[int, int, Allocation]] = []
    banks = Banks()
    for start, end, allocation in tiles:
        while alive and alive[0][0] < start:
            banks.free(heapq.heappop(alive)[2])
        heapq.heappush(alive, (end, allocation.uid, allocation))
        if not banks.take(allocation):
            raise CapacityError(
                f"PSUM of {target.name} is full: {allocation.label} (allocated at {allocation.line}) needs "
                f"{allocation.row_bytes} bytes per partition, but no bank of {PSUM_BANK_BYTES} has room (there are "
                f"{PSUM_BANKS}); alive: {_biggest(alive, allocation)}"
            )
        peak = max(peak, banks.used())
    return peak


class Quadrants:
    """SBUF as four quadrants of 32 partitions.

    A tile of up to 32 partitions may be in any quadrant, and one of up to 64 partitions in either half
    (trainium_inferentia2_arch.rst, "start_partition"). Each tile is allocated in the position with the most free bytes.
    """

    def __init__(self) -> None:
        self._held = [0] * _QUADRANTS
        self._places: dict[int, range] = {}

    def take(self, tile: Allocation) -> int:
        """Allocate a tile, and return the number of bytes that are then in use in its partitions."""
        held_bytes, size = self._held, tile.row_bytes
        if tile.partitions > 64:
            held_bytes[0] += size
            held_bytes[1] += size
            held_bytes[2] += size
            held_bytes[3] += size
            return max(held_bytes)
        width = 1 if tile.partitions <= 32 else 2
        places = [range(first, first + width) for first in range(0, _QUADRANTS, width)]
        start = min(places, key=lambda quadrants: max(held_bytes[q] for q in quadrants))
        self._places[tile.uid] = start
        for quadrant in start:
            held_bytes[quadrant] += size
        return max(held_bytes[quadrant] for quadrant in start)

    def free(self, tile: Allocation) -> None:
        for quadrant in self._places.pop(tile.uid, _ALL):
            self._held[quadrant] -= tile.row_bytes


class Banks:
    """The banks of PSUM, with first-fit allocation.

    A tile no larger than a bank is placed within one bank; a larger tile occupies consecutive whole banks.
    """

    def __init__(self) -> None:
        # (start, end, uid), sorted by start
        self._taken: list[list[tuple[int, int, int]]] = [[] for _ in range(PSUM_BANKS)]
        self._places: dict[int, range] = {}

    def take(self, tile: Allocation) -> bool:
        """Allocate a tile. Return False if there is no space."""
        size = tile.row_bytes
        if size > PSUM_BANK_BYTES:
            return self._take_whole(tile, -(-size // PSUM_BANK_BYTES))
        for bank, tiles in enumerate(self._taken):
            start = 0
            for position, (begin, end, _) in enumerate([*tiles, (PSUM_BANK_BYTES, PSUM_BANK_BYTES, -1)]):
                if begin - start >= size:
                    tiles.insert(position, (start, start + size, tile.uid))
                    self._places[tile.uid] = range(bank, bank + 1)
                    return True
                start = end
        return False

    def _take_whole(self, tile: Allocation, count: int) -> bool:
        """Allocate `count` consecutive empty banks. Return False if there are no such banks."""
        for bank in range(PSUM_BANKS - count + 1):
            if not any(self._taken[bank : bank + count]):
                for tiles in self._taken[bank : bank + count]:
                    tiles.append((0, PSUM_BANK_BYTES, tile.uid))
                self._places[tile.uid] = range(bank, bank + count)
                return True
        return False

    def free(self, tile: Allocation) -> None:
        for bank in self._places.pop(tile.uid, ()):
            self._taken[bank] = [entry for entry in self._taken[bank] if entry[2] != tile.uid]

    def used(self) -> int:
        """Return the number of banks in use."""
        return sum(1 for tiles in self._taken if tiles)


def _biggest(alive: list[tuple[int, int, Allocation]], newest: Allocation) -> str:
    others = sorted((a for _, _, a in alive if a is not newest), key=lambda a: (-a.row_bytes, a.uid))
    descriptions = [f"{a.label} of {a.line or 'explicit addresses'} ({a.row_bytes} bytes)" for a in others[:_SHOWN]]
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return (", ".join(descriptions) + more) or "nothing else"
