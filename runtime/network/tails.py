"""The last channels of an expansion as layers of their own, where they fill a part of a tile alone.

A filter for each channel multiplies by diagonals: of a tile of 16 channels an eighth of the Tensor Engine's rows, which
takes as long as 128 and keeps the clock low. Where that tile is a layer of its own, with the part of the convolution
that feeds it, it may have copies of itself on the partitions below, so that a matmul takes several taps (layout.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...kernels.tiling.packing import PARTITIONS, copies_in_partitions
from .program import Planned, readers_of


def with_tails(layers: Sequence[Planned]) -> list[Planned]:
    """The layers; those that feed filters for each channel, and these, in two parts of the same name each."""
    apart: list[Planned] = []
    places: dict[int, tuple[int, ...]] = {-1: (-1,)}
    cut = {n for pair in _pairs(layers) for n in pair}
    for n, layer in enumerate(layers):
        sources = tuple(tuple(new for part in parts for new in places[part]) for parts in layer.sources)
        place = len(apart)
        border = layer.channels // PARTITIONS * PARTITIONS
        whole, tail = slice(0, border), slice(border, layer.channels)
        if n not in cut:
            apart.append(replace(layer, sources=sources))
        elif layer.groups > 1:
            apart += [_part(layer, whole, sources[0][:1]), _part(layer, tail, sources[0][1:])]
        else:  # the tail is copied while the rest goes through the layer after it
            apart += [_part(layer, whole, sources[0]), _part(layer, tail, sources[0])]
        places[n] = tuple(range(place, len(apart)))
    return apart


def _pairs(layers: Sequence[Planned]) -> list[tuple[int, int]]:
    """A convolution and the filters for each of its channels, all that reads it."""
    pairs = []
    for n, layer in enumerate(layers):
        source = layer.sources[0][0]
        if (
            layer.kind == "conv2d"
            and layer.is_depthwise
            and copies_in_partitions(layer.channels % PARTITIONS or PARTITIONS, layer.kernel[0])[0] > 1
            and layer.channels > PARTITIONS
            and layer.sources == ((source,),)
            and source >= 0
            and _may_be_cut(layers, source)
        ):
            pairs.append((source, n))
    return pairs


def _may_be_cut(layers: Sequence[Planned], number: int) -> bool:
    layer = layers[number]
    readers = readers_of(layers, number)
    return (layer.kind, layer.groups, len(layer.sources), len(readers)) == ("conv2d", 1, 1, 1) and not layer.in_hbm


def _part(layer: Planned, channels: slice, parts: tuple[int, ...]) -> Planned:
    count = channels.stop - channels.start
    grouped = layer.groups > 1
    return replace(
        layer,
        sources=(parts,),
        channels=count,
        groups=count if grouped else 1,
        before=(count, *layer.before[1:]) if grouped else layer.before,
        after=(count, *layer.after[1:]),
        filters=None if layer.filters is None else layer.filters[channels],
        numbers=tuple(numbers[channels] for numbers in layer.numbers),
    )
