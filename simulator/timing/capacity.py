"""Peak use of SBUF and PSUM, in program order, and the error if it exceeds the capacity.

A compiler may reorder independent instructions. So a program that does not fit as written is checked again with every
tile in PSUM read as soon as its sum is complete, and with tiles in SBUF filled when they are needed. The latter may use
all of SBUF, although the compiler reserves a part.

A tile lives from its first write to its last access; one that nothing reads lives until the kernel lets go of it. Tiles
that a kernel placed by address take what it chose, for the whole program.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from ..machine.chip import PSUM_BANK_BYTES, PSUM_BANKS, Target
from ..machine.errors import CapacityError
from ..machine.instruction import Allocation, Instruction, engine
from ..machine.memory import PSUM, SBUF
from .dependencies import analyse

_QUADRANTS = 4  # of 32 partitions
_ALL = range(_QUADRANTS)
_SHOWN = 4  # biggest tiles that an error names


class Memory(NamedTuple):
    """Peaks of a program: bytes of one SBUF partition, and PSUM banks."""

    sbuf_bytes: int
    psum_banks: int


class Life(NamedTuple):
    """One tile's life in instructions: [start, end]."""

    start: int
    end: int
    allocation: Allocation


def lives(program: list[Instruction]) -> list[Life]:
    """The lives of the tiles on chip, by their start."""
    first: dict[Allocation, int] = {}
    last: dict[Allocation, int] = {}
    read: set[Allocation] = set()
    for index, instruction in enumerate(program):
        for access in instruction.writes:
            allocation = access.allocation
            last[allocation] = index
            if allocation not in first:
                first[allocation] = index
        for access in instruction.reads:
            last[access.allocation] = index
            read.add(access.allocation)
    found = []
    for allocation, start in first.items():
        if allocation.region is SBUF or allocation.region is PSUM:
            end = last[allocation]
            if allocation not in read:
                end = max(end, len(program) if allocation.dropped is None else allocation.dropped - 1)
            if allocation.placed:
                start, end = 0, len(program)
            found.append(Life(start, end, allocation))
    found.sort(key=lambda life: (life.start, life.allocation.uid))
    return found


def check(program: list[Instruction], target: Target) -> Memory:
    """The peaks of a program; CapacityError where the target does not have that much."""
    try:
        return _peaks(program, target, target.usable_sbuf_bytes)
    except CapacityError:
        early = read_early(program)
        for order, first in ((early, early), (load_late(program), program), (load_late(early), early)):
            try:
                _peaks(first, target, target.sbuf_bytes)
                return _peaks(order, target, target.usable_sbuf_bytes)
            except CapacityError:
                pass
        raise


def read_early(program: list[Instruction]) -> list[Instruction]:
    """The program with readers of PSUM moved up to where their operands are complete; all else keeps its order."""
    successors = analyse(program).successors
    places = [0] * len(program)  # after which instruction each may come
    for index, instruction in enumerate(program):
        evicts = places[index] and any(access.allocation.region is PSUM for access in instruction.reads)
        places[index] = place = places[index] if evicts else max(index, places[index])
        for successor in successors[index]:
            later = successor >> 2
            places[later] = max(places[later], place)
    return [program[index] for index in sorted(range(len(program)), key=lambda index: (places[index], index))]


def load_late(program: list[Instruction]) -> list[Instruction]:
    """The program with DMAs into SBUF and memsets moved down to the first use of their tiles."""
    position = {instruction.index: place for place, instruction in enumerate(program)}
    successors = analyse(sorted(program, key=lambda instruction: instruction.index)).successors
    places = list(range(len(program)))  # before which instruction each must come
    for place in range(len(program) - 1, -1, -1):
        instruction = program[place]
        brings = instruction.engine is engine.dma or instruction.op == "memset"
        if brings and all(access.allocation.region is SBUF for access in instruction.writes):
            needed = [places[position[later >> 2]] for later in successors[instruction.index]]
            places[place] = min(needed, default=place)
    return [program[place] for place in sorted(range(len(program)), key=lambda place: (places[place], place))]


def _peaks(program: list[Instruction], target: Target, sbuf_bytes: int) -> Memory:
    """`check` of a program in this order, with `sbuf_bytes` of a partition of SBUF."""
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
        held = quadrants.take(allocation)
        if held > usable:
            raise CapacityError(
                f"SBUF of {target.name} is full: {allocation.label} (allocated at {allocation.line}) takes "
                f"{allocation.row_bytes} bytes a partition where {usable - held + allocation.row_bytes} of "
                f"{usable} are left; alive: {_biggest(alive, allocation)}"
            )
        peak = max(peak, held)
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
                f"PSUM of {target.name} is full: {allocation.label} (allocated at {allocation.line}) takes "
                f"{allocation.row_bytes} bytes a partition, for which no bank of {PSUM_BANK_BYTES} has room (there are "
                f"{PSUM_BANKS}); alive: {_biggest(alive, allocation)}"
            )
        peak = max(peak, banks.used())
    return peak


class Quadrants:
    """SBUF in four times 32 partitions: a tile of up to 32 partitions may lie in any, one of up to 64 in either half
    (trainium_inferentia2_arch.rst, "start_partition"); each goes where the most bytes are free."""

    def __init__(self) -> None:
        self._held = [0] * _QUADRANTS
        self._places: dict[int, range] = {}

    def take(self, tile: Allocation) -> int:
        """Find room for a tile; bytes that its partitions then hold."""
        held, size = self._held, tile.row_bytes
        if tile.partitions > 64:
            held[0] += size
            held[1] += size
            held[2] += size
            held[3] += size
            return max(held)
        width = 1 if tile.partitions <= 32 else 2
        places = [range(first, first + width) for first in range(0, _QUADRANTS, width)]
        place = min(places, key=lambda quadrants: max(held[q] for q in quadrants))
        self._places[tile.uid] = place
        for quadrant in place:
            held[quadrant] += size
        return max(held[quadrant] for quadrant in place)

    def free(self, tile: Allocation) -> None:
        for quadrant in self._places.pop(tile.uid, _ALL):
            self._held[quadrant] -= tile.row_bytes


class Banks:
    """The banks of PSUM, first fit: a tile of up to a bank lies in one, a larger one takes consecutive whole banks."""

    def __init__(self) -> None:
        self._taken: list[list[tuple[int, int, int]]] = [[] for _ in range(PSUM_BANKS)]  # (start, end, uid) by start
        self._places: dict[int, range] = {}

    def take(self, tile: Allocation) -> bool:
        """Allocate a tile; False if there is no room."""
        size = tile.row_bytes
        if size > PSUM_BANK_BYTES:
            count = -(-size // PSUM_BANK_BYTES)
            for bank in range(PSUM_BANKS - count + 1):
                if not any(self._taken[bank : bank + count]):
                    for part in range(bank, bank + count):
                        self._taken[part].append((0, PSUM_BANK_BYTES, tile.uid))
                    self._places[tile.uid] = range(bank, bank + count)
                    return True
            return False
        for bank, taken in enumerate(self._taken):
            start = 0
            for position, (begin, end, _) in enumerate([*taken, (PSUM_BANK_BYTES, PSUM_BANK_BYTES, -1)]):
                if begin - start >= size:
                    taken.insert(position, (start, start + size, tile.uid))
                    self._places[tile.uid] = range(bank, bank + 1)
                    return True
                start = end
        return False

    def free(self, tile: Allocation) -> None:
        for bank in self._places.pop(tile.uid, ()):
            self._taken[bank] = [entry for entry in self._taken[bank] if entry[2] != tile.uid]

    def used(self) -> int:
        """Banks with anything in them."""
        return sum(1 for taken in self._taken if taken)


def _biggest(alive: list[tuple[int, int, Allocation]], newest: Allocation) -> str:
    others = sorted((a for _, _, a in alive if a is not newest), key=lambda a: (-a.row_bytes, a.uid))
    shown = [f"{a.label} of {a.line or 'explicit addresses'} ({a.row_bytes} bytes)" for a in others[:_SHOWN]]
    more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
    return (", ".join(shown) + more) or "nothing else"
