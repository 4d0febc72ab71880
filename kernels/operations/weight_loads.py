"""The loads in which an operation's weights come into SBUF, for the host that lays them out and for kernels.

Plain arithmetic without `nki`, as in tiling/packing.py.

A unit is the weights of one tile of input channels for one tile of output channels: [partitions, steps, output
channels]. A load is one DMA of several units: each partition reads one contiguous run of HBM, long enough for the DMA
engines, short enough that the next one comes while this one is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..convolution.forms import Form

LOAD_BYTES = 16 * 1024  # of a partition: 2 MiB a load


@dataclass(frozen=True)
class Unit:
    """Weights of an input tile for an output tile: `elements` of a partition, from `first` on in their load."""

    out_tile: int
    in_tile: int
    first: int
    elements: int


@dataclass
class WeightLoad:
    """One DMA of units that output tiles from `out_tile` on need, `elements` on each of `rows` partitions."""

    out_tile: int
    rows: int
    elements: int = 0
    units: list[Unit] = field(default_factory=list)

    def add(self, out_tile: int, in_tile: int, elements: int) -> None:
        """Append a unit."""
        self.units.append(Unit(out_tile, in_tile, self.elements, elements))
        self.elements += elements


def made_on_chip(form: Form, tiles: int) -> list[bool]:
    """Return of each output tile whether its diagonals are made on the chip: two of three by the form of that name."""
    return [form is Form.MADE and tile % 3 > 0 for tile in range(tiles)]


def tiles_read(rows: list[int], channels: tuple[int, int], groups: int, outputs: tuple[int, int]) -> range:
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
    rows: list[int], columns: list[int], reads: list[range], matrices: int, item_bytes: int
) -> list[WeightLoad]:
    """Return the loads of an operation's weights in the order in which they are needed.

    `rows`: partitions of each input tile. `columns`: channels of each output tile. `reads`: the input tiles that each
    output tile reads. `matrices`: of a filter.
    """
    most = LOAD_BYTES // item_bytes
    loads: list[WeightLoad] = []
    first = 0
    while first < len(columns):
        end, elements = first, 0
        while end < len(columns) and (end == first or elements <= most):
            elements += len(reads[end]) * matrices * columns[end]
            end += 1
        if end > first + 1 and elements > most:
            end -= 1
        together = [(tile, t) for tile in range(first, end) for t in reads[tile]]
        for height in dict.fromkeys(rows[t] for _, t in together):
            load = WeightLoad(first, height)
            for tile, t in together:
                if rows[t] != height:
                    continue
                size = matrices * columns[tile]
                if load.elements and load.elements + size > most:
                    loads.append(load)
                    load = WeightLoad(first, height)
                load.add(tile, t, size)
            loads.append(load)
        first = end
    return loads
