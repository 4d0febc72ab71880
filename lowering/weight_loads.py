"""The loads in which an operation's weights come into SBUF.

A unit is the weights of one tile of input channels for one tile of output channels: [partitions, steps, output
channels]. A load is one DMA of several units: each partition reads one contiguous run of HBM, long enough for the DMA
engines, short enough that the next one comes while this one is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from ..kernels.program import Unit, WeightLoad

LOAD_BYTES = 16 * 1024  # of a partition: 2 MiB a load
ADDED_BYTES = 64 * 1024  # zeros that tiles of fewer channels get for all to come by one load


def placed(loads: Sequence[WeightLoad], offset: int) -> tuple[WeightLoad, ...]:
    """Return loads whose weights follow one another from number `offset` on."""
    found = []
    for load in loads:
        found.append(replace(load, offset=offset))
        offset += load.numbers
    return tuple(found)


def tiles_read(rows: Sequence[int], channels: tuple[int, int], groups: int, outputs: tuple[int, int]) -> range:
    """Return the input tiles that output channels [first, end) read.

    `rows`: channels of each input tile. `channels`: (Cin, Cout), of which a group of output channels reads its part.
    """
    if groups == 1:
        return range(len(rows))
    each_in, each_out = channels[0] // groups, channels[1] // groups
    start = outputs[0] // each_out * each_in
    stop = ((outputs[1] - 1) // each_out + 1) * each_in
    ends = [sum(rows[: t + 1]) for t in range(len(rows))]
    reading = [t for t in range(len(rows)) if ends[t] > start and ends[t] - rows[t] < stop]
    return range(reading[0], reading[-1] + 1)


def weight_loads(
    rows: Sequence[int],
    columns: Sequence[int],
    reads: Sequence[range],
    matrices: int,
    item_bytes: int,
    are_diagonal: Sequence[bool] = (),
) -> list[WeightLoad]:
    """Return the loads of an operation's weights in the order in which they are needed.

    `rows`: partitions of each input tile. `columns`: channels of each output tile. `reads`: the input tiles that each
    output tile reads. `matrices`: of a filter. `are_diagonal`: of each output tile, whether its units are one
    number for each channel and matrix, of which the chip makes diagonals; empty for none.
    """
    sizes = [matrices * (1 if made else size) for size, made in zip_longest(columns, are_diagonal, fillvalue=False)]
    most = LOAD_BYTES // item_bytes
    loads: list[WeightLoad] = []
    first = 0
    while first < len(columns):
        end, elements = first, 0
        while end < len(columns) and (end == first or elements <= most):
            elements += len(reads[end]) * sizes[end]
            end += 1
        if end > first + 1 and elements > most:
            end -= 1
        together = [(tile, t) for tile in range(first, end) for t in reads[tile]]
        highest = max(rows[t] for _, t in together)
        added = sum((highest - rows[t]) * sizes[tile] for tile, t in together) * item_bytes
        heights = [highest if added <= ADDED_BYTES else rows[t] for _, t in together]
        for height in dict.fromkeys(heights):
            units: list[Unit] = []
            filled = 0
            for (tile, t), own in zip(together, heights):
                if own != height:
                    continue
                if units and filled + sizes[tile] > most:
                    loads.append(WeightLoad(first, height, tuple(units)))
                    units, filled = [], 0
                units.append(Unit(tile, t, filled, sizes[tile], rows[t], bool(are_diagonal) and are_diagonal[tile]))
                filled += sizes[tile]
            loads.append(WeightLoad(first, height, tuple(units)))
        first = end
    return loads
