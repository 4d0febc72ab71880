"""Determine which tiles SBUF and PSUM contain over the course of a schedule, and which tiles are live at the peak.

A tile occupies its bytes in each partition from its first write to its last access. If the compiler renames tiles, a
tile that is completely rewritten moves to another buffer (dependencies.py). Tiles at explicit addresses occupy their
space for the whole program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..machine.chip import Target
from ..machine.instruction import Allocation, Instruction
from ..machine.memory import PSUM, SBUF
from .scheduled import Schedule

REGIONS = {"sbuf": SBUF, "psum": PSUM}


class TileLife(NamedTuple):
    """The lifetime of a tile's buffer.

    `bytes` is its size per partition, `start_ns` and `end_ns` are the times of its first write and last access, and
    `line` is the source line that allocates the tile. `idle_ns` is the length of the interval around the peak in which
    no instruction accesses the tile, if the tile is live at the peak.
    """

    name: str
    line: tuple[str, int]
    bytes: int
    start_ns: float
    end_ns: float
    position: int
    idle_ns: float = 0.0


class MemoryUse(NamedTuple):
    """The usage of one memory over time.

    `points` contains (time, bytes): starting at each time, this many bytes per partition are in use. `owners` are the
    tiles that are live at the peak, the largest first.
    """

    capacity: int
    points: tuple[tuple[float, int], ...]
    peak_bytes: int
    peak_ns: float
    owners: tuple[TileLife, ...]


class _Life:
    def __init__(self, tile: Allocation, position: int) -> None:
        self.tile = tile
        self.position = position
        self.touched: list[tuple[float, float]] = []


def memory_use(
    program: Sequence[Instruction], schedule: Schedule, target: Target, region: str, renames: bool = False
) -> MemoryUse:
    """Return the usage of "sbuf" or "psum" over one core's schedule. For `renames`, see dependencies.py."""
    capacity = target.usable_sbuf_bytes if region == "sbuf" else target.psum_bytes
    lives = _lives(program, schedule, REGIONS[region], renames)
    changes: dict[float, int] = {0.0: 0}
    for life in lives:
        start, end = _span(life, schedule.makespan)
        changes[start] = changes.get(start, 0) + life.tile.row_bytes
        changes[end] = changes.get(end, 0) - life.tile.row_bytes
    bytes_held, points = 0, []
    for time in sorted(changes):
        bytes_held += changes[time]
        points.append((time, bytes_held))
    peak_ns, peak = max(points, key=lambda point: point[1])
    alive = [life for life in lives if _span(life, schedule.makespan)[0] <= peak_ns < _span(life, schedule.makespan)[1]]
    owners = sorted((_tile_life(life, peak_ns, schedule.makespan) for life in alive), key=lambda tile: -tile.bytes)
    return MemoryUse(capacity, tuple(points), peak, peak_ns, tuple(owners))


def _lives(program: Sequence[Instruction], schedule: Schedule, region: object, renames: bool) -> list[_Life]:
    lifetimes: list[_Life] = []
    current: dict[Allocation, _Life] = {}
    for index, instruction in enumerate(program):
        span = schedule.start[index], schedule.done[index]
        for number, access in enumerate((*instruction.reads, *instruction.writes)):
            tile = access.allocation
            if tile.region is not region:
                continue
            written = number >= len(instruction.reads)
            replaced = renames and written and region is SBUF and access.covers
            replaced = replaced and not tile.placed and not instruction.ordered
            if replaced and not any(read.allocation is tile for read in instruction.reads):
                current.pop(tile, None)
            life = current.get(tile)
            if life is None:
                life = current[tile] = _Life(tile, index)
                lifetimes.append(life)
            life.touched.append(span)
    return lifetimes


def _span(life: _Life, makespan: float) -> tuple[float, float]:
    if life.tile.placed:
        return 0.0, makespan
    return min(start for start, _ in life.touched), max(end for _, end in life.touched)


def _tile_life(life: _Life, at: float, makespan: float) -> TileLife:
    start, end = _span(life, makespan)
    before = max((last_use for _, last_use in life.touched if last_use <= at), default=start)
    after = min((begin for begin, _ in life.touched if begin >= at), default=end)
    idle = 0.0 if any(begin <= at < last_use for begin, last_use in life.touched) else after - before
    tile = life.tile
    return TileLife(
        name=_name(tile),
        line=tile.at,
        bytes=tile.row_bytes,
        start_ns=start,
        end_ns=end,
        position=life.position,
        idle_ns=idle,
    )


def _name(tile: Allocation) -> str:
    """Return the tile's name or, if the kernel did not specify one, its shape and dtype: `128x3136 bfloat16`."""
    name, _, shape, dtype = tile.identity
    return name or (f"{'x'.join(map(str, shape))} {dtype}" if shape else "buffer")
