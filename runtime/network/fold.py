"""Few channels on all partitions: two rows of an image lie side by side where a layer has 64 channels.

A value of C channels and H rows is held as 2 C channels and half as many rows: row r of the pair image has rows 2r - o
and 2r - o + 1, o being its offset, 0 or 1. A convolution of such values is again a convolution, whose filters take
pairs of rows to pairs of rows: 3x3 filters become two rows of taps instead of three where the offset changes from
input to output, and compute two rows of outputs at once. The Tensor Engine then has all its rows and columns in use,
which also keeps its clock up, and the engines that finish the sums have all their lanes.

Rows above and below the image, which pairs of an offset have, are blanked: they are padding to whatever reads them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kernels.tiling.packing import PARTITIONS, ceil_div, filter_steps, taps_in_partitions
from .program import Planned

FOLDED_CHANNELS = 64  # of a row: two fill the partitions, and the second begins at one that engines can address
FEWEST_ROWS = 16  # of an image, below which there is little to gain
MOST_FREE = 4  # offsets that are tried in all combinations

Offsets = dict[int, int]  # of the layers whose rows lie in pairs


def fold(layers: Sequence[Planned]) -> list[Planned]:
    """The layers, those of few channels with their rows in pairs, by the offsets that take the fewest matmuls."""
    apart = _pools_apart(layers)
    folded = _candidates(apart)
    free = [n for n in sorted(folded) if not _follows(apart, folded, n)][:MOST_FREE]
    if not folded:
        return list(layers)
    combinations = itertools.product((0, 1), repeat=len(free))
    choices = [_offsets(apart, folded, dict(zip(free, choice))) for choice in combinations]
    fewest = min(choices, key=lambda offsets: sum(_work(apart, offsets, n) for n in range(len(apart))))
    return [_folded(apart, fewest, n) for n in range(len(apart))]


def _pools_apart(layers: Sequence[Planned]) -> list[Planned]:
    """Convolutions of few channels that pool, as a convolution and a pool of the same name."""
    apart: list[Planned] = []
    place: dict[int, int] = {-1: -1}
    for n, layer in enumerate(layers):
        layer = replace(layer, sources=tuple(tuple(place[part] for part in parts) for parts in layer.sources))
        if layer.pool_size == 2 and layer.channels == FOLDED_CHANNELS and _is_plain(layer):
            between = (layer.channels, 2 * layer.after[1], 2 * layer.after[2])
            pool = Planned("max_pool", layer.name, ((len(apart),),), layer.channels, (2, 2), (2, 2))
            apart.append(replace(layer, pool_size=1, after=between, in_hbm=False))
            layer = replace(pool, in_hbm=layer.in_hbm, before=between, after=layer.after)
        apart.append(layer)
        place[n] = len(apart) - 1
    return apart


def _is_plain(layer: Planned) -> bool:
    """Whether it is a convolution that a change of its filters can fold, and whose output is never below 0."""
    plain = layer.kind == "conv2d" and layer.groups == 1 and layer.dilation[0] == 1 and layer.activation == "relu"
    return plain and layer.after[1] >= FEWEST_ROWS and all(len(parts) == 1 for parts in layer.sources)


def _candidates(layers: Sequence[Planned]) -> set[int]:
    """The layers that can give pairs of rows, and all of whose readers can take them."""
    found = {
        n
        for n, layer in enumerate(layers)
        if layer.channels == FOLDED_CHANNELS
        and not layer.in_hbm
        and layer.after[1] >= FEWEST_ROWS
        and ((_is_plain(layer) and layer.pool_size == 1) or _pools(layer))
    }
    while True:
        kept = {n for n in found if _can_give(layers, found, n) and _can_be_read(layers, found, n)}
        if kept == found:
            return found
        found = kept


def _pools(layer: Planned) -> bool:
    """Whether it is a pool that takes pairs of rows."""
    of_rows = layer.kernel[0] in (2, 3) and layer.stride[0] == 2 and len(layer.sources[0]) == 1
    return layer.kind == "max_pool" and of_rows and layer.dilation[0] == 1 and not layer.ceil_mode


def _can_give(layers: Sequence[Planned], folded: set[int], number: int) -> bool:
    layer = layers[number]
    if layer.kind == "max_pool":
        return layer.sources[0][0] in folded
    return all(parts[0] in folded for parts in layer.sources[1:])


def _can_be_read(layers: Sequence[Planned], folded: set[int], number: int) -> bool:
    readers = [(n, layer) for n, layer in enumerate(layers) for parts in layer.sources if number in parts]
    return bool(readers) and all(_can_read(layer, n in folded, number) for n, layer in readers)


def _can_read(layer: Planned, is_folded: bool, number: int) -> bool:
    """Whether a layer can take pairs of rows, and give them or (where not folded) single rows."""
    if _pools(layer):
        return True
    if layer.kind != "conv2d" or layer.groups > 1 or layer.dilation[0] > 1 or any(len(p) > 1 for p in layer.sources):
        return False
    if is_folded or layer.stride[0] == 2:
        return is_folded or all(parts != (number,) for parts in layer.sources[1:])
    whole_tiles = layer.channels <= PARTITIONS or layer.channels % PARTITIONS == 0
    single = layer.pool_size == 1 and len(layer.sources) == 1 and not layer.in_hbm
    return layer.stride[0] == 1 and whole_tiles and single and layer.after[1] % 2 == 0


def _follows(layers: Sequence[Planned], folded: set[int], number: int) -> bool:
    """Whether a layer's offset comes from what it reads."""
    layer = layers[number]
    return layer.kind == "conv2d" and (layer.sources[0][0] in folded or len(layer.sources) > 1)


def _offsets(layers: Sequence[Planned], folded: set[int], chosen: Offsets) -> Offsets:
    offsets: Offsets = {}
    for n in sorted(folded):
        layer = layers[n]
        if n in chosen or not _follows(layers, folded, n):
            offsets[n] = chosen.get(n, 0)
        elif len(layer.sources) > 1:
            offsets[n] = offsets[layer.sources[1][0]]
        else:  # so that the first row that a pair of outputs reads is the first of a pair
            offsets[n] = (offsets[layer.sources[0][0]] - layer.padding[0]) % 2 if layer.stride[0] % 2 else 0
    return offsets


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
    """A layer as it takes and gives pairs of rows, or single ones."""
    layer = layers[number]
    given = offsets.get(number)
    if layer.kind == "max_pool" and layer.sources[0][0] in offsets:
        return _fold_pool(layer, offsets[layer.sources[0][0]], given)
    if layer.kind != "conv2d":
        return layer
    taken = offsets.get(layer.sources[0][0])
    if taken is None:
        return layer if given is None else _from_rows(layer, given, with_filters)
    return _from_pairs(layer, taken, given, with_filters)


def _pairs(rows: int, offset: int) -> int:
    return ceil_div(rows + offset, 2)


def _in_pairs(layer: Planned, offset: int) -> Planned:
    """With outputs in pairs: what is told of them."""
    channels, rows, columns = layer.after
    return replace(
        layer,
        channels=2 * channels,
        after=(2 * channels, _pairs(rows, offset), columns),
        numbers=tuple(np.tile(numbers, 2) for numbers in layer.numbers),
        blank=(offset == 1, (rows + offset) % 2 == 1),
    )


def _from_rows(layer: Planned, given: int, with_filters: bool) -> Planned:
    """Single rows in, pairs out: filters that move on by two outputs, the second of them further down."""
    stride, (height, width) = layer.stride[0], layer.kernel
    pairs = _pairs(layer.after[1], given)
    top = layer.padding[0] + stride * given
    bottom = 2 * stride * (pairs - 1) - top + height + stride - layer.before[1]
    filters = layer.filters
    if with_filters and filters is not None:
        outputs, inputs = filters.shape[:2]
        filters = np.zeros((2, outputs, inputs, height + stride, width), filters.dtype)
        for second in (0, 1):
            filters[second, :, :, second * stride : second * stride + height] = layer.filters
        filters = filters.reshape(2 * outputs, inputs, height + stride, width)
    return replace(
        _in_pairs(layer, given),
        kernel=(height + stride, width),
        stride=(2 * stride, layer.stride[1]),
        padding=(top, layer.padding[1], max(0, bottom), layer.padding[3]),
        filters=filters,
    )


def _from_pairs(layer: Planned, taken: int, given: int | None, with_filters: bool) -> Planned:
    """Pairs in; pairs out, or single rows where `given` is None: every second filter then gives every second row."""
    stride, (height, width) = layer.stride[0], layer.kernel
    single = given is None and stride == 2
    offset, outputs_of_step = given or 0, 1 if single else 2
    start = taken - stride * offset - layer.padding[0]  # row of its pair that the first tap of the first output is
    first, last = start // 2, (start + (outputs_of_step - 1) * stride + height - 1) // 2
    moved = 1 if single else stride
    steps = layer.after[1] * layer.pool_size if single else _pairs(layer.after[1], offset)
    bottom = moved * (steps - 1) + last - (_pairs(layer.before[1], taken) - 1)
    filters = layer.filters
    if with_filters and filters is not None:
        outputs, inputs = filters.shape[:2]
        filters = np.zeros((outputs_of_step, outputs, 2, inputs, last - first + 1, width), filters.dtype)
        for output, side, down in itertools.product(range(outputs_of_step), (0, 1), range(last - first + 1)):
            tap = 2 * (first + down) + side - start - stride * output
            if 0 <= tap < height and layer.filters is not None:
                filters[output, :, side, :, down] = layer.filters[:, :, tap]
        filters = filters.reshape(outputs_of_step * outputs, 2 * inputs, last - first + 1, width)
    channels, rows, columns = layer.before
    return replace(
        layer if given is None else _in_pairs(layer, given),
        kernel=(last - first + 1, width),
        stride=(moved, layer.stride[1]),
        padding=(-first, layer.padding[1], max(0, bottom), layer.padding[3]),
        before=(2 * channels, _pairs(rows, taken), columns),
        filters=filters,
        unfold=2 if given is None and not single else 1,
    )


def _fold_pool(layer: Planned, taken: int, given: int | None) -> Planned:
    """A pool of pairs; the rows of its padding count pairs."""
    start = taken - layer.padding[0]
    pairs = _pairs(layer.before[1], taken)
    bottom = layer.after[1] - 1 + (start + layer.kernel[0] - 1) // 2 - (pairs - 1)
    return replace(
        layer if given is None else _in_pairs(layer, given),
        kind="folded_pool",
        padding=(-(start // 2), layer.padding[1], max(0, bottom), layer.padding[3]),
        before=(2 * layer.before[0], pairs, layer.before[2]),
        fold=(start, -1 if given is None else given, layer.after[1]),
    )
