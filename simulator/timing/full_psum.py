"""Find kernels that wait for banks of PSUM while small tiles occupy whole banks, and predict the gain from packing.

A tile in PSUM starts at a bank boundary, so eight tiles fill PSUM, however small they are (buffers.py). Attention
kernels are an example: each transposed 128x128 block of weights takes a quarter of a bank. A kernel can write several
results to one tile of a whole bank, and copy them together. To compute the gain, the program is scheduled again with
tiles that share banks.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..machine.chip import PSUM_BANK_BYTES, PSUM_BANKS
from ..machine.instruction import Allocation, Instruction
from ..machine.memory import PSUM
from .reuse import name_of

_LEAST_SHARE = 0.1  # smallest share of the makespan worth reporting, because packing delays the first copy
_MOST_INSTRUCTIONS = 100_000  # longer programs are not scheduled again


class FullPsum(NamedTuple):
    """Small tiles that fill PSUM, and the predicted gain in microseconds from sharing banks.

    `name` and `line` identify the allocation that creates most of the tiles, and `row_bytes` is the size of these
    tiles.
    """

    name: str
    line: tuple[str, int]
    row_bytes: int
    gain_us: float

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        where = {"name": self.name, "line": f"{self.line[0]}:{self.line[1]}", "bytes": self.row_bytes}
        return {**where, "gain_us": round(self.gain_us, 3)}

    def describe(self, latency_us: float) -> str:
        """Return a one-line description with the number of tiles that fit in a bank."""
        label = f"{self.name} ({os.path.basename(self.line[0])}:{self.line[1]})" if self.line[0] else self.name
        share = f"{self.row_bytes:,} of the {PSUM_BANK_BYTES:,} bytes of its bank"
        saved = f"{self.gain_us:.1f} of {latency_us:.1f} us"
        return (
            f"PSUM is full: tile {label} takes {share}; writing {PSUM_BANK_BYTES // self.row_bytes} of them to one "
            f"tile, and copying them together, would save up to {saved}"
        )


def find_full_psum(program: Sequence[Instruction], now_ns: float, shared: Callable[[], float]) -> FullPsum | None:
    """Return the small tiles that make a program wait for banks, or None if the wait costs less than `_LEAST_SHARE` of
    the makespan.

    Args:
        program: the instructions.
        now_ns: the makespan, in nanoseconds.
        shared: a function that returns the makespan with tiles that share banks.
    """
    small = _small_tiles(program)
    if not small or len(program) > _MOST_INSTRUCTIONS:
        return None
    gain = now_ns - shared()
    if gain < _LEAST_SHARE * now_ns:
        return None
    lines = Counter(tile.at for tile in small)
    most = max(lines.values())
    tile = next(tile for tile in small if lines[tile.at] == most)
    return FullPsum(name_of(tile), tile.at, tile.row_bytes, gain / 1000)


def _small_tiles(program: Sequence[Instruction]) -> list[Allocation]:
    """Return the tiles in PSUM that are at most half a bank in size, in the order of their first write.

    The list is empty if the program has no more tiles in PSUM than there are banks.
    """
    written = dict.fromkeys(access.allocation for instruction in program for access in instruction.writes)
    tiles = [tile for tile in written if tile.region is PSUM and not tile.placed]
    return [tile for tile in tiles if 2 * tile.row_bytes <= PSUM_BANK_BYTES] if len(tiles) > PSUM_BANKS else []
