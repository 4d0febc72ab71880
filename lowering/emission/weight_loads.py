"""Group the weights of an operation into DMAs to SBUF.

A unit consists of the weights between one tile of input channels and one tile of output channels: [partitions, steps,
output channels]. A load is one DMA of several units: each partition reads one contiguous run of HBM that is long enough
for the DMA engines to be efficient, and short enough that the next load arrives while this one is multiplied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ...kernels.operation_fields import with_fields
from ...kernels.program import Unit, WeightLoad, WeightRun

LOAD_BYTES = 16 * 1024  # per partition: 2 MiB per load
SHARED_BYTES = 1024  # per partition of small loads that share a DMA, which takes longer to issue than to transfer


def placed(loads: Sequence[WeightLoad], offset: int, shared_elements: int = 0) -> tuple[WeightLoad, ...]:
    """Return the loads at consecutive positions in the array of weights, the first of which is `offset`.

    Consecutive loads share a DMA of up to `shared_elements` per partition, even if they belong to different operations.
    """
    loads_with_offsets: list[WeightLoad] = []
    for together in _small_together(loads, shared_elements):
        run = WeightRun(offset, max(load.rows for load in together), sum(load.elements for load in together))
        first = 0
        for load in together:
            loads_with_offsets.append(with_fields(load, run=run, first=first))
            first += load.elements
        offset = run.end
    return tuple(loads_with_offsets)


def _small_together(loads: Sequence[WeightLoad], most: int) -> Iterator[list[WeightLoad]]:
    """Yield groups of consecutive loads, each with at most `most` elements per partition but at least one load."""
    group: list[WeightLoad] = []
    for load in loads:
        if group and sum(member.elements for member in group) + load.elements > most:
            yield group
            group = []
        group.append(load)
    if group:
        yield group


def tiles_read(
    rows: Sequence[int], channels: tuple[int, int], groups: int, outputs: tuple[int, int], reach: int | None = None
) -> range:
    """Return the input tiles that output channels [first, end) read.

    `rows`: the number of channels in each input tile. `channels`: (Cin, Cout); each group of output channels reads only
    the input channels of its group. `reach`: if it is not None, each output channel of an ungrouped convolution reads
    only input channels at this distance or less.
    """
    if groups == 1 and reach is None:
        return range(len(rows))
    if reach is not None:
        start, stop = outputs[0] - reach, outputs[1] + reach
    else:
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
    """Return the DMAs that load an operation's weights, in the order in which they are needed.

    `rows`: the number of partitions of each input tile. `columns`: the number of channels of each output tile. `reads`:
    the input tiles that each output tile reads. `matrices`: the number of matrices per filter. `are_diagonal`: whether,
    for each output tile, the weights are stored as one number per channel and matrix, which the chip expands to a
    diagonal matrix. Empty if it is false for every tile.
    """
    sizes = [
        matrices * (1 if is_diagonal else size)
        for size, is_diagonal in zip_longest(columns, are_diagonal, fillvalue=False)
    ]
    most = LOAD_BYTES // item_bytes
    loads: list[WeightLoad] = []
    for outputs in _output_tiles_together([len(read) * size for read, size in zip(reads, sizes)], most):
        by_height: dict[int, list[Unit]] = {}
        for tile in outputs:
            for t in reads[tile]:
                unit = Unit(tile, t, 0, sizes[tile], bool(are_diagonal) and are_diagonal[tile])
                by_height.setdefault(rows[t], []).append(unit)
        for height, units in by_height.items():
            loads += [WeightLoad(outputs.start, height, unit_range) for unit_range in _consecutive(units, most)]
    return loads


def _consecutive(units: Sequence[Unit], most: int) -> Iterator[tuple[Unit, ...]]:
    """Yield groups of consecutive units, each with at most `most` elements but at least one unit."""
    group: list[Unit] = []
    filled = 0
    for unit in units:
        if group and filled + unit.elements > most:
            yield tuple(group)
            group, filled = [], 0
        group.append(with_fields(unit, first=filled))
        filled += unit.elements
    yield tuple(group)


def _output_tiles_together(elements: Sequence[int], most: int) -> Iterator[range]:
    """Yield the output tiles whose weights are loaded together: at least one, and as many as `most` elements allow."""
    first = 0
    while first < len(elements):
        end = first + 1
        while end < len(elements) and sum(elements[first : end + 1]) <= most:
            end += 1
        yield range(first, end)
        first = end
