"""How the weights of a layer come into SBUF when a whole network runs, for the host that lays them out and for kernels.

Plain arithmetic in the Python subset of NKI kernels, and no import of `nki`, as in packing.py.

A unit is what one tile of input channels gives to one tile of output channels: [partitions, steps, output channels]. A
load is one DMA of several units: each partition reads one contiguous run of HBM, long enough for the DMA engines, short
enough that the next one comes while this one is multiplied.
"""

LOAD_BYTES = 16 * 1024  # of a partition: 2 MiB a load, which all DMA engines together move in some 6 us

Unit = tuple[int, int, int, int]  # output tile, input tile, first element in the partition's run, elements
Load = tuple[int, int, int, list[Unit]]  # first output tile, partitions, elements of each, units


def tiles_read(rows: list[int], channels: tuple[int, int], groups: int, first: int, end: int) -> tuple[int, int]:
    """(first, end) of the input tiles that output channels [first, end) read.

    `rows`: channels of each input tile; `channels`: (Cin, Cout), of which a group of output channels reads its part.
    """
    if groups == 1:
        return 0, len(rows)
    each_in = channels[0] // groups
    each_out = channels[1] // groups
    start = first // each_out * each_in
    stop = ((end - 1) // each_out + 1) * each_in
    first_tile = 0
    end_tile = 0
    channel = 0
    for t in range(len(rows)):
        if channel + rows[t] <= start:
            first_tile = t + 1
        if channel < stop:
            end_tile = t + 1
        channel += rows[t]
    return first_tile, end_tile


def weight_loads(
    rows: list[int], columns: list[int], reads: list[tuple[int, int]], steps: int, item_bytes: int
) -> list[Load]:
    """The loads of a layer's weights in the order in which they are needed.

    `rows`: partitions of each input tile; `columns`: channels of each output tile; `reads`: the input tiles that each
    output tile reads, as `tiles_read` gives them; `steps`: matmuls of a filter.
    """
    most = LOAD_BYTES // item_bytes
    loads = []
    first = 0
    while first < len(columns):
        end = first
        elements = 0
        while end < len(columns) and (end == first or elements <= most):
            elements += (reads[end][1] - reads[end][0]) * steps * columns[end]
            end += 1
        if end > first + 1 and elements > most:
            end -= 1
        heights = []
        for tile in range(first, end):
            for t in range(reads[tile][0], reads[tile][1]):
                if rows[t] not in heights:
                    heights.append(rows[t])
        for height in heights:
            units: list[Unit] = []
            start = 0
            for tile in range(first, end):
                for t in range(reads[tile][0], reads[tile][1]):
                    size = steps * columns[tile]
                    if rows[t] == height:
                        if start > 0 and start + size > most:
                            loads.append((first, height, start, units))
                            units = []
                            start = 0
                        units.append((tile, t, start, size))
                        start += size
            loads.append((first, height, start, units))
        first = end
    return loads
