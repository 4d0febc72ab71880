"""Few channels on all partitions: rows of an image lie side by side where a layer has 64 channels, or 32 and less.

A value of C channels and H rows is held as F C channels and H / F rows, groups: group r has the rows from F r - o to
F r - o + F - 1, o being its offset, 0 to F - 1; F is 2 for 64 channels (pairs) and 4 for up to 32. A convolution of
such values is again a convolution, whose filters take groups of rows to groups of rows: 3x3 filters become two rows of
taps instead of three where the offset changes from input to output, and compute F rows of outputs at once. A filter for
each channel becomes one for all of them: what is zero costs nothing that was not idle. The Tensor Engine then has all
its rows and columns in use, which also keeps its clock up, and the engines that finish the sums have all their lanes.

Rows above and below the image, which groups of an offset have, are blanked: they are padding to whatever reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.tiling.packing import PARTITIONS, ceil_div, filter_steps, taps_in_partitions
from .filters import ungrouped
from .program import CONVOLUTIONS, Planned, readers_of

PAIRED_CHANNELS = 64  # of a row: two fill the partitions, and the second begins at one that engines can address
FOUR_CHANNELS = 32  # and less: four
FEWEST_GROUPS = 2  # of rows, below which there is little to gain
MOST_COMBINATIONS = 64  # of offsets that are tried

Offsets = dict[int, int]  # of the layers whose rows lie in groups


def fold(layers: Sequence[Planned]) -> list[Planned]:
    """The layers, those of few channels with their rows in groups, by the offsets that take the fewest matmuls."""
    apart = _pools_apart(layers)
    folded = _candidates(apart)
    if not folded:
        return list(layers)
    combinations: list[Offsets] = [{}]
    for n in sorted(folded):
        rows = rows_of(apart[n])
        if not _follows(apart, folded, n) and len(combinations) * rows <= MOST_COMBINATIONS:
            combinations = [{**chosen, n: offset} for chosen in combinations for offset in range(rows)]
    choices = [_offsets(apart, folded, chosen) for chosen in combinations]
    depending = [n for n, layer in enumerate(apart) if n in folded or layer.sources[0][0] in folded]
    fewest = min(choices, key=lambda offsets: sum(_work(apart, offsets, n) for n in depending))
    return [_folded(apart, fewest, n) for n in range(len(apart))]


def rows_of(layer: Planned) -> int:
    """How many rows of what a layer gives would lie side by side; 1 for none."""
    if layer.channels == PAIRED_CHANNELS:
        return 2
    return 4 if layer.channels <= FOUR_CHANNELS else 1


def _pools_apart(layers: Sequence[Planned]) -> list[Planned]:
    """Convolutions of few channels that pool, as a convolution and a pool of the same name."""
    apart: list[Planned] = []
    place: dict[int, int] = {-1: -1}
    for n, layer in enumerate(layers):
        layer = replace(layer, sources=tuple(tuple(place[part] for part in parts) for parts in layer.sources))
        if layer.pool_size == 2 and layer.channels == PAIRED_CHANNELS and _is_plain(layer) and _is_positive(layer):
            between = (layer.channels, 2 * layer.after[1], 2 * layer.after[2])
            pool = Planned("max_pool", layer.name, ((len(apart),),), layer.channels, (2, 2), (2, 2))
            apart.append(replace(layer, pool_size=1, after=between, in_hbm=False))
            layer = replace(pool, in_hbm=layer.in_hbm, before=between, after=layer.after)
        apart.append(layer)
        place[n] = len(apart) - 1
    return apart


def _is_plain(layer: Planned) -> bool:
    """Whether it is a convolution that a change of its filters can fold."""
    single = all(len(parts) == 1 for parts in layer.sources)
    return layer.kind == "conv2d" and layer.dilation[0] == 1 and single and _is_large(layer)


def _is_large(layer: Planned) -> bool:
    return layer.after[1] >= FEWEST_GROUPS * rows_of(layer)


def _is_positive(layer: Planned) -> bool:
    """Whether what it gives is never below 0, so that a blank row is no maximum."""
    return layer.kind == "max_pool" or layer.activation == "relu"


def _candidates(layers: Sequence[Planned]) -> set[int]:
    """The layers that can give groups of rows, and all of whose readers can take them."""
    found = {
        n
        for n, layer in enumerate(layers)
        if rows_of(layer) > 1
        and not layer.in_hbm
        and ((_is_plain(layer) and layer.pool_size == 1) or (_is_large(layer) and (_pools(layer) or _gates(layers, n))))
    }
    while True:
        kept = {n for n in found if _can_give(layers, found, n) and _can_be_read(layers, found, n)}
        if kept == found:
            return found
        found = kept


def _pools(layer: Planned) -> bool:
    """Whether it is a pool that takes pairs of rows."""
    of_rows = layer.kernel[0] in (2, 3) and layer.stride[0] == 2 and len(layer.sources[0]) == 1
    plain = layer.kind == "max_pool" and layer.dilation[0] == 1 and not layer.ceil_mode
    return plain and of_rows and layer.channels == PAIRED_CHANNELS


def _can_give(layers: Sequence[Planned], folded: set[int], number: int) -> bool:
    layer = layers[number]
    if layer.kind in ("max_pool", "combine") or layer.groups > 1:
        return layer.sources[0][0] in folded
    return all(parts[0] in folded for parts in layer.sources[1:])


def _can_be_read(layers: Sequence[Planned], folded: set[int], number: int) -> bool:
    readers = readers_of(layers, number)
    blanks = layers[number].channels in (FOUR_CHANNELS, PAIRED_CHANNELS)  # of which each row begins where engines write
    return bool(readers) and all(
        (blanks or layers[n].kernel[0] == 1) and _can_read(layers, n in folded, n, number) for n, _ in readers
    )


def _gates(layers: Sequence[Planned], number: int) -> bool:
    """Whether it is a product with a number for each channel, which a convolution gives to it alone."""
    layer = layers[number]
    if (layer.kind, layer.operation) != ("combine", "multiply") or any(len(parts) > 1 for parts in layer.sources):
        return False
    gate = layer.sources[1][0]
    given = layers[gate]
    alone = gate >= 0 and len(readers_of(layers, gate)) == 1
    return alone and _is_squeezed(given) and given.kind == "conv2d" and not given.in_hbm


def _is_squeezed(layer: Planned) -> bool:
    """Whether it is a convolution of a number for each channel."""
    plain = layer.kind in CONVOLUTIONS and (layer.groups, layer.pool_size, layer.before[1:]) == (1, 1, (1, 1))
    return plain and len(layer.sources) == 1 and len(layer.sources[0]) == 1 and not any(layer.padding)


def _is_mean(layers: Sequence[Planned], number: int) -> bool:
    """Whether it is the mean of a whole image, and only convolutions read it."""
    layer = layers[number]
    whole = layer.kind == "average_pool" and layer.kernel == layer.before[1:] and not any(layer.padding)
    return whole and all(_is_squeezed(layers[n]) for n, _ in readers_of(layers, number))


def _can_read(layers: Sequence[Planned], is_folded: bool, reader: int, number: int) -> bool:
    """Whether a layer can take groups of rows, and give them or (where not folded) single rows."""
    layer = layers[reader]
    if _pools(layer):
        return _is_positive(layers[number])
    if layer.kind == "combine":
        return is_folded and layer.sources[0] == (number,)
    if layer.kind == "average_pool":
        return layer.sources == ((number,),) and _is_mean(layers, reader)
    if layer.kind != "conv2d" or layer.dilation[0] > 1 or any(len(p) > 1 for p in layer.sources):
        return False
    rows, stride = rows_of(layers[number]), layer.stride[0]
    if is_folded:
        return stride * rows_of(layer) % rows == 0
    if layer.groups > 1 or any(parts == (number,) for parts in layer.sources[1:]):
        return False
    if stride % rows == 0:
        return True
    whole_tiles = layer.channels <= PARTITIONS or layer.channels % PARTITIONS == 0
    single = layer.pool_size == 1 and len(layer.sources) == 1 and not layer.in_hbm
    return rows % stride == 0 and whole_tiles and single and layer.after[1] % (rows // stride) == 0


def _follows(layers: Sequence[Planned], folded: set[int], number: int) -> bool:
    """Whether a layer's offset comes from what it reads."""
    layer = layers[number]
    return layer.kind != "max_pool" and (layer.sources[0][0] in folded or len(layer.sources) > 1)


def _offsets(layers: Sequence[Planned], folded: set[int], chosen: Offsets) -> Offsets:
    offsets: Offsets = {}
    for n in sorted(folded):
        layer = layers[n]
        if n in chosen or not _follows(layers, folded, n):
            offsets[n] = chosen.get(n, 0)
        elif len(layer.sources) > 1:
            offsets[n] = offsets[layer.sources[layer.kind == "conv2d"][0]]
        else:  # so that a group of outputs reads as few groups as it can
            taken, rows = offsets[layer.sources[0][0]], rows_of(layers[layer.sources[0][0]])
            spans = [_span(layer, rows, taken, rows_of(layer), offset) for offset in range(rows_of(layer))]
            offsets[n] = min(range(len(spans)), key=lambda offset: spans[offset][1] - spans[offset][0])
    return offsets


def _span(layer: Planned, rows: int, taken: int, given_rows: int, given: int) -> tuple[int, int]:
    """(first, last) group, of `rows` with the offset `taken`, that the first group of outputs reads."""
    start = taken - layer.stride[0] * given - layer.padding[0]  # row of group 0 of the first tap of the first output
    return start // rows, (start + (given_rows - 1) * layer.stride[0] + layer.kernel[0] - 1) // rows


def _work(layers: Sequence[Planned], offsets: Offsets, number: int) -> int:
    """Columns that move through the Tensor Engine."""
    layer = _folded(layers, offsets, number, with_filters=False)
    if layer.kind != "conv2d":
        return 0
    taps = taps_in_partitions(layer.before[0], *layer.kernel) if layer.sources[0] == (-1,) else (1, 1, 1)
    steps = len(filter_steps(*layer.kernel, taps[0], taps[1]))
    outputs = ceil_div(layer.channels, PARTITIONS) * layer.after[1] * layer.after[2] * layer.pool_size**2
    return steps * ceil_div(layer.before[0], PARTITIONS) * outputs


def _folded(layers: Sequence[Planned], offsets: Offsets, number: int, with_filters: bool = True) -> Planned:
    """A layer as it takes and gives groups of rows, or single ones."""
    layer = layers[number]
    given, source = offsets.get(number), layer.sources[0][0]
    if layer.kind == "max_pool" and source in offsets:
        return _fold_pool(layer, offsets[source], given)
    if layer.kind in ("combine", "average_pool") and source in offsets:
        return _fold_values(layer, rows_of(layers[source]), offsets[source])
    if _is_squeezed(layer):
        return _fold_squeezed(layers, offsets, number)
    if layer.kind != "conv2d":
        return layer
    if given is None and source not in offsets:
        return layer
    if not with_filters:
        layer = replace(layer, filters=None)
    if source not in offsets:
        return _from_rows(layer, given or 0)
    return _from_groups(_dense(layer), rows_of(layers[source]), offsets[source], given)


def _groups(rows: int, each: int, offset: int) -> int:
    return ceil_div(rows + offset, each)


def _dense(layer: Planned) -> Planned:
    """A convolution of groups of channels as one of all of them."""
    filters = layer.filters if layer.filters is None else ungrouped(layer.filters, layer.groups)
    return replace(layer, groups=1, filters=filters)


def _in_groups(layer: Planned, offset: int) -> Planned:
    """With outputs in groups: what is told of them."""
    channels, rows, columns = layer.after
    each = rows_of(layer)
    groups = _groups(rows, each, offset)
    return replace(
        layer,
        channels=each * channels,
        after=(each * channels, groups, columns),
        numbers=tuple(np.tile(numbers, each) for numbers in layer.numbers),
        blank=(offset, groups * each - offset - rows, each) if channels % FOUR_CHANNELS == 0 else (0, 0, each),
    )


def _from_rows(layer: Planned, given: int) -> Planned:
    """Single rows in, groups out: filters that move on by a group of outputs, each row of them further down."""
    each, stride, (height, width) = rows_of(layer), layer.stride[0], layer.kernel
    tall = height + (each - 1) * stride
    top = layer.padding[0] + stride * given
    bottom = each * stride * (_groups(layer.after[1], each, given) - 1) - top + tall - layer.before[1]
    filters = layer.filters
    if filters is not None:
        outputs, inputs = filters.shape[:2]
        whole = np.zeros((each, outputs, inputs, tall, width), filters.dtype)
        for row in range(each):
            whole[row, :, :, row * stride : row * stride + height] = filters
        filters = whole.reshape(each * outputs, inputs, tall, width)
    return replace(
        _in_groups(layer, given),
        kernel=(tall, width),
        stride=(each * stride, layer.stride[1]),
        padding=(top, layer.padding[1], max(0, bottom), layer.padding[3]),
        filters=filters,
    )


def _from_groups(layer: Planned, rows: int, taken: int, given: int | None) -> Planned:
    """Groups in; groups out, or single rows where `given` is None: the filters then come again for each row that a
    group of inputs gives."""
    stride, (height, width) = layer.stride[0], layer.kernel
    unfold = max(1, rows // stride) if given is None else 1
    each, offset = (unfold, 0) if given is None else (rows_of(layer), given)
    first, last = _span(layer, rows, taken, each, offset)
    start = taken - stride * offset - layer.padding[0]
    moved = each * stride // rows
    steps = _groups(layer.after[1] * layer.pool_size, each, offset)
    bottom = moved * (steps - 1) + last - (_groups(layer.before[1], rows, taken) - 1)
    filters = layer.filters
    if filters is not None:
        outputs, inputs = filters.shape[:2]
        whole = np.zeros((each, outputs, rows, inputs, last - first + 1, width), filters.dtype)
        for output, side, down in itertools.product(range(each), range(rows), range(last - first + 1)):
            tap = rows * (first + down) + side - start - stride * output
            if 0 <= tap < height:
                whole[output, :, side, :, down] = filters[:, :, tap]
        filters = whole.reshape(each * outputs, rows * inputs, last - first + 1, width)
    channels, high, columns = layer.before
    return replace(
        layer if given is None else _in_groups(layer, given),
        kernel=(last - first + 1, width),
        stride=(moved, layer.stride[1]),
        padding=(-first, layer.padding[1], max(0, bottom), layer.padding[3]),
        before=(rows * channels, _groups(high, rows, taken), columns),
        filters=filters,
        unfold=unfold,
    )


def _fold_values(layer: Planned, rows: int, taken: int) -> Planned:
    """A product with a number for each channel, or the mean of each row of the groups."""
    channels, high, columns = layer.before
    before = (rows * channels, _groups(high, rows, taken), columns)
    if layer.kind == "combine":
        return replace(layer, channels=before[0], before=before, after=before)
    return replace(layer, channels=before[0], kernel=before[1:], before=before, after=(before[0], 1, 1))


def _fold_squeezed(layers: Sequence[Planned], offsets: Offsets, number: int) -> Planned:
    """A convolution of the means of folded rows, of each of which it takes its share, or that gives a gate for each."""
    layer = layers[number]
    pool = layers[layer.sources[0][0]]
    source = pool.sources[0][0]
    if pool.kind == "average_pool" and source in offsets:
        rows, (_, high, _) = rows_of(layers[source]), pool.before
        share = _groups(high, rows, offsets[source]) / high
        filters = None if layer.filters is None else np.tile(layer.filters * np.float32(share), (1, rows, 1, 1))
        layer = replace(layer, before=(rows * layer.before[0], 1, 1), filters=filters)
    gated = [other for n, other in enumerate(layers) if n in offsets and other.sources[1:] == ((number,),)]
    if gated and gated[0].kind == "combine":
        rows = rows_of(gated[0])
        layer = replace(
            layer,
            channels=rows * layer.channels,
            after=(rows * layer.channels, 1, 1),
            filters=None if layer.filters is None else np.tile(layer.filters, (rows, 1, 1, 1)),
            numbers=tuple(np.tile(numbers, rows) for numbers in layer.numbers),
        )
    return layer


def _fold_pool(layer: Planned, taken: int, given: int | None) -> Planned:
    """A pool of pairs; the rows of its padding count pairs."""
    start = taken - layer.padding[0]
    pairs = _groups(layer.before[1], 2, taken)
    bottom = layer.after[1] - 1 + (start + layer.kernel[0] - 1) // 2 - (pairs - 1)
    return replace(
        layer if given is None else _in_groups(layer, given),
        kind="folded_pool",
        padding=(-(start // 2), layer.padding[1], max(0, bottom), layer.padding[3]),
        before=(2 * layer.before[0], pairs, layer.before[2]),
        fold=(start, -1 if given is None else given, layer.after[1]),
    )
