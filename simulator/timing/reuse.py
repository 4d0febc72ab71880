"""Find tiles whose reuse costs time, and predict the gain from allocating a separate tile for each use.

A tile has one address, so a write waits for the last reader of the previous contents (dependencies.py). To compute the
gain, the recorded program is scheduled again with a separate allocation for each use of the tile, as if the kernel had
allocated a new tile for each use. The data flow is unchanged, because a tile is split only at points where no value
that was written before is read afterwards. Run in program order, the program therefore needs no additional memory; if
memory is full, the schedule waits until some is freed. Tiles at explicit addresses are not split.
"""

from __future__ import annotations

import linecache
import os
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from ..machine.instruction import Access, Allocation, Instruction
from ..machine.memory import PSUM, SBUF
from .dependencies import contains

LEAST_SHARE = 0.03  # smallest share of the makespan that is worth reporting
_NEEDED_SHARE = 0.01  # a tile is listed with others only if the gain without it is smaller by at least this share
_MOST_TILES = 8  # maximum number of tiles that are tried, beginning with the tiles that have the most uses
_MOST_SCHEDULED = 300_000  # maximum number of scheduled instructions for one launch, summed over all trials
_ASSIGNED = re.compile(r"\s*(\w+)\s*(?::[^=]+)?=[^=]")

Programs = tuple[list[Instruction], ...]


class ReusedTile(NamedTuple):
    """A tile that is reused.

    `line` is the file and line that allocates the tile. `waits` is the number of writes that wait for the last reader
    of the previous contents, and `are_loads` is True if all these writes are DMAs.
    """

    name: str
    memory: str
    line: tuple[str, int]
    waits: int
    are_loads: bool

    @property
    def shown(self) -> str:
        """Return the name and source line, such as "t (k.py:12)"."""
        return f"{self.name} ({os.path.basename(self.line[0])}:{self.line[1]})" if self.line[0] else self.name


class Reuse(NamedTuple):
    """Tiles that are reused, and the predicted gain in microseconds from allocating a separate tile for each use."""

    tiles: tuple[ReusedTile, ...]
    gain_us: float

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        tiles = [{**tile._asdict(), "line": f"{tile.line[0]}:{tile.line[1]}"} for tile in self.tiles]
        return {"tiles": tiles, "gain_us": round(self.gain_us, 3)}

    def describe(self, latency_us: float) -> str:
        """Return a one-line description: "tile t (k.py:7) is reused: 31 loads wait for its last reader; ..."."""
        count = sum(tile.waits for tile in self.tiles)
        is_single, is_one = len(self.tiles) == 1, count == 1
        writes = ("load" if all(tile.are_loads for tile in self.tiles) else "write") + "s" * (not is_one)
        names = ", ".join(tile.shown for tile in self.tiles)
        head = f"tile {names} is reused" if is_single else f"tiles {names} are reused"
        reader = "its last reader" if is_single else "their last readers"
        saved = f"{self.gain_us:.1f} of {latency_us:.1f} us"
        return f"{head}: {count:,} {writes} wait{'s' * is_one} for {reader}; a new tile for each use would save {saved}"


def find_reuse(programs: Programs, now_ns: float, makespan: Callable[[Programs], float]) -> Reuse | None:
    """Return the tiles whose reuse costs at least `LEAST_SHARE` of the makespan, or None if the cost is smaller.

    Args:
        programs: the instructions of each core.
        now_ns: the makespan of the unmodified programs, in nanoseconds.
        makespan: a function that returns the makespan of modified programs.
    """
    uses = [_uses(program) for program in programs]
    candidates = sorted(
        ((tile, splits) for tile_splits in uses for tile, splits in tile_splits.items()),
        key=lambda pair: (-len(pair[1]), pair[0].uid),
    )[:_MOST_TILES]
    size = sum(len(program) for program in programs)
    if not candidates or (len(candidates) + 1) * size > _MOST_SCHEDULED:
        return None

    def time(tiles: Collection[Allocation]) -> float:
        """Return the makespan if the given tiles are split."""
        selected = [{tile: splits for tile, splits in tile_splits.items() if tile in tiles} for tile_splits in uses]
        return makespan(tuple(map(_renamed, programs, selected)))

    splits = dict(candidates)
    if now_ns - time(splits) < LEAST_SHARE * now_ns:
        return None
    tiles, best = _needed(list(splits), time, _NEEDED_SHARE * now_ns)
    reused = tuple(sorted((_shown(tile, splits[tile], programs) for tile in tiles), key=lambda tile: tile.line))
    return Reuse(reused, (now_ns - best) / 1000)


def _needed(
    tiles: list[Allocation], time: Callable[[Collection[Allocation]], float], tolerance: float
) -> tuple[list[Allocation], float]:
    """Return the tiles that have to be split to reach the shortest makespan, and the makespan.

    A tile is not needed if the makespan is at most `tolerance` longer without splitting it.
    """
    best = time(tiles)
    for tile in reversed(tiles):
        others = [other for other in tiles if other is not tile]
        if others and (without := time(others)) <= best + tolerance:
            tiles, best = others, without
    return tiles, best


def _uses(program: Sequence[Instruction]) -> dict[Allocation, list[int]]:
    """Return the instructions at which the second and later uses of tiles begin, for tiles with several uses.

    A write begins a new use if no value that was written before it is read after it.
    """
    live: dict[Allocation, _Contents] = {}
    for index, instruction in enumerate(program):
        for access in instruction.reads:
            if access.allocation in live:
                live[access.allocation].read(access, index)
        for access in instruction.writes:
            tile = access.allocation
            if (tile.region is SBUF or tile.region is PSUM) and not tile.placed:
                live.setdefault(tile, _Contents()).write(access, index)
    return {tile: splits for tile, contents in live.items() if (splits := contents.splits())}


class _Contents:
    """The regions of a tile that contain values, with the instructions that wrote them."""

    def __init__(self) -> None:
        self._segments: list[tuple[Access, int]] = []
        self._writes: list[int] = []
        self._spans: list[tuple[int, int]] = []  # (write, last read) of values that were read

    def read(self, access: Access, index: int) -> None:
        self._spans += [(writer, index) for written, writer in self._segments if written.overlaps(access)]

    def write(self, access: Access, index: int) -> None:
        self._segments = [segment for segment in self._segments if not contains(access, segment[0])]
        self._segments.append((access, index))
        self._writes.append(index)

    def splits(self) -> list[int]:
        """Return the writes that begin a new use: no value is live across them, and the previous use was read."""
        indices: list[int] = []
        reached, spans, at = -1, sorted(self._spans), 0
        for write in self._writes:
            while at < len(spans) and spans[at][0] < write:
                reached = max(reached, spans[at][1])
                at += 1
            is_read = reached > (indices[-1] if indices else -1)
            if is_read and reached < write:
                indices.append(write)
        return indices


def _renamed(program: list[Instruction], splits: dict[Allocation, list[int]]) -> list[Instruction]:
    """Return a program in which each use of the tiles has a separate allocation."""
    if not splits:
        return program
    current: dict[Allocation, Allocation] = {}
    begins: dict[int, list[Allocation]] = {}
    for tile, places in splits.items():
        for position in places:
            begins.setdefault(position, []).append(tile)
    renamed = []
    for index, instruction in enumerate(program):
        for tile in begins.get(index, ()):
            current[tile] = _copy(tile)
        accesses = (*instruction.reads, *instruction.writes)
        is_renamed = current and any(access.allocation in current for access in accesses)
        renamed.append(_moved(instruction, current) if is_renamed else instruction)
    return renamed


def _copy(tile: Allocation) -> Allocation:
    copy = Allocation(tile.uid, tile.region, tile.row_bytes, tile.identity, tile.at, tile.argument)
    copy.dropped = tile.dropped
    return copy


def _moved(instruction: Instruction, current: dict[Allocation, Allocation]) -> Instruction:
    def moved(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(
            access._replace(allocation=current.get(access.allocation, access.allocation)) for access in accesses
        )

    return instruction.replace(reads=moved(instruction.reads), writes=moved(instruction.writes))


def _shown(tile: Allocation, splits: list[int], programs: Programs) -> ReusedTile:
    program = next(p for p in programs if any(a.allocation is tile for a in p[splits[0]].writes))
    loads = all(program[index].dma is not None for index in splits)
    return ReusedTile(name_of(tile), tile.region.value, tile.at, len(splits), loads)


def name_of(tile: Allocation) -> str:
    """Return the tile's name.

    If it has none, return the variable that its source line assigns, or else its shape and dtype.
    """
    name, _, shape, dtype = tile.identity
    assigned = _ASSIGNED.match(linecache.getline(*tile.at)) if tile.at[0] else None
    return name or (assigned.group(1) if assigned else f"{'x'.join(map(str, shape))} {dtype}")
