"""Where the weights of a network's layers lie for the kernel that runs them in one launch: all in one array, load by
load, and biases, scales and shifts as columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ...kernels.convolution.forms import DIRECT, VECTOR_NS, matmuls_ns, matrices
from ...kernels.networks.output_order import OutputOrder
from ...kernels.networks.weight_loads import Load, tiles_read, weight_loads
from ...kernels.tiling.packing import (
    PARTITIONS,
    ceil_div,
    copies_in_partitions,
    filter_steps,
    packed_rows,
    taps_in_partitions,
)
from ...models.layout import pack_side_by_side
from .filters import as_multiplied, ungrouped
from .program import CONVOLUTIONS, Parts, Planned, readers_of

LYING_ANEW = (*CONVOLUTIONS, "folded_pool", "taps")  # kinds that cut their channels into tiles anew
COPY_NS = 300  # that copying on the Vector Engine takes beside the elements until the Tensor Engine can read them


def heights_of(layers: Sequence[Planned], parts: Parts, channels: int, together: int) -> list[int]:
    """Partitions of each tile of what a layer reads; `channels` and `together` are those of the input."""
    return [size for part in parts for size in _given(layers, part, channels, together)]


def _given(layers: Sequence[Planned], part: int, channels: int, together: int) -> list[int]:
    if part < 0:
        return tile_heights(channels * together)
    layer = layers[part]
    if layer.kind in LYING_ANEW:
        return tile_heights(layer.channels * layer.together)
    return heights_of(layers, layer.sources[0], channels, together)


def leaves(layers: Sequence[Planned], parts: Parts, channels: int) -> list[int]:
    """Channels of each piece that lies by itself, with all images that lie side by side, of what a layer reads."""
    pieces: list[int] = []
    for part in parts:
        own = part < 0 or layers[part].kind in LYING_ANEW
        pieces += (
            [channels if part < 0 else layers[part].channels]
            if own
            else leaves(layers, layers[part].sources[0], channels)
        )
    return pieces


def _lying(pieces: Sequence[int], together: int) -> np.ndarray:
    """Of each row of what images side by side give, (piece, image, channel), its number as (image, channel)."""
    numbers = np.arange(together * sum(pieces)).reshape(together, -1)
    ends = np.cumsum(pieces)
    return np.concatenate([numbers[:, end - size : end].ravel() for end, size in zip(ends, pieces)])


def tile_heights(rows: int) -> list[int]:
    """Partitions of each tile of so many rows that begin a tile of their own."""
    return [min(PARTITIONS, rows - first) for first in range(0, rows, PARTITIONS)]


def read_together(layers: Sequence[Planned], layer: Planned, together: int) -> int:
    """Images side by side in what a layer reads; `together` are those of the input."""
    part = layer.sources[0][0]
    return together if part < 0 else layers[part].together


def from_hbm(layers: Sequence[Planned], layer: Planned) -> bool:
    """Whether a layer reads what lies in HBM."""
    part = layer.sources[0][0]
    return layer.kind in CONVOLUTIONS and (part < 0 or layers[part].in_hbm)


class LaidOut:
    """Layers with their places in the array of weights and among the columns; `rows` are those of the loads.

    `itemsize` is that of the weights. Nothing is copied before `weights` is asked for.
    """

    def __init__(self, layers: Sequence[Planned], channels: int, together: int, itemsize: int) -> None:
        self.layers: list[Planned] = []
        self._loads: list[list[Load]] = []
        self._together = together
        self._all, self._itemsize = layers, itemsize
        self.numbers = self.columns = 0
        for layer in layers:
            of_input = read_together(layers, layer, together)
            if layer.kind in CONVOLUTIONS:
                rows = heights_of(layers, layer.sources[0], channels, together)
                taps = self._taps(layer, rows)
                if taps[0] * taps[1] > 1:
                    rows = [packed_rows(rows[0], *taps)]
                count = matrices(layer.form, steps_of(layer, taps))
                loads = weight_loads(rows, *_reads(layer, rows, of_input), count, itemsize)
                layer = replace(layer, taps=taps)
            else:
                loads = []
            self.layers.append(replace(layer, weights=self.numbers, constants=self.columns))
            self._loads.append(loads)
            self.numbers += sum(rows * size for _, rows, size, _ in loads)
            self.columns += _columns(layer, heights_of(layers, layer.sources[0], channels, together))
        self._channels = channels

    def _taps(self, layer: Planned, rows: list[int]) -> tuple[int, int, int]:
        """The taps of a convolution that share the partitions; what gives its input then gives copies of it."""
        part = layer.sources[0][0]
        if from_hbm(self.layers, layer) and len(rows) == 1:
            return taps_in_partitions(rows[0], *layer.kernel)
        alone = (1, 1, rows[0])
        if part < 0 or len(rows) > 1:
            return alone
        loaded = self.layers[part].kind == "taps"
        taps = taps_in_partitions(rows[0], *layer.kernel) if loaded else copies_in_partitions(rows[0], layer.kernel[0])
        copies = (taps[0], layer.dilation[0], taps[2])
        if not loaded and not (self._may_give(part, copies) and self._are_worth_copies(layer, taps)):
            return alone
        self.layers[part] = replace(self.layers[part], copies=copies)
        return taps

    def _may_give(self, number: int, copies: tuple[int, int, int]) -> bool:
        """Whether a layer is a convolution that can give such copies, and all that read it go by partitions."""
        given = self.layers[number]
        readers = [self._all[n] for n, _ in readers_of(self._all, number)]
        plain = all(other.kind == "conv2d" and (number,) in other.sources for other in readers)
        return given.kind == "conv2d" and not given.in_hbm and plain and given.copies in ((1, 0, 0), copies)

    def _are_worth_copies(self, layer: Planned, taps: tuple[int, int, int]) -> bool:
        """Whether a convolution is faster by the matmuls that copies of its input spare it, of an image (and those
        beside it)."""
        if layer.kind != "conv2d" or layer.form != DIRECT:
            return False
        spared = steps_of(layer, (1, 1, taps[2])) - steps_of(layer, taps)
        columns = layer.after[1] * layer.after[2] * layer.pool_size**2 // layer.unfold
        outputs = read_together(self._all, layer, self._together) * layer.channels * layer.unfold
        matmuls = ceil_div(outputs, PARTITIONS) * matmuls_ns(self._itemsize, columns, 1, outputs)
        copied = prod(layer.before[1:]) * VECTOR_NS / (2 if self._itemsize == 4 else 4)
        return spared * matmuls > COPY_NS + copied

    @property
    def arrangement(self) -> Hashable:
        """What of the same layers' weights and constants may differ: equal for equal arrays."""
        return self._together, tuple(
            (layer.taps, layer.together, layer.form, layer.kernel, layer.channels) for layer in self.layers
        )

    def run_bytes(self, number: int) -> tuple[int, int]:
        """Elements of a partition that a layer's weights take: all, and the most that must be there at a time."""
        loads = self._loads[number]
        by_tile: dict[int, int] = {}
        for first, _, size, _ in loads:
            by_tile[first] = by_tile.get(first, 0) + size
        return sum(by_tile.values()), max(by_tile.values(), default=0)

    def loads(self, number: int) -> int:
        """How many DMAs bring a layer's weights."""
        return len(self._loads[number])

    def weights(self, dtype: np.dtype[Any]) -> np.ndarray:
        """All weights, one load after the other."""
        whole = np.zeros(max(1, self.numbers), dtype)
        for layer, loads in zip(self.layers, self._loads, strict=True):
            if loads:
                self._fill(whole[layer.weights :], as_multiplied(layer), loads)
        return whole

    def constants(self) -> np.ndarray:
        """The columns: [128, columns] float32."""
        whole = np.zeros((PARTITIONS, max(1, self.columns)), np.float32)
        for layer in self.layers:
            rows = heights_of(self.layers, layer.sources[0], self._channels, self._together)
            lying = _lying(leaves(self.layers, layer.sources[0], self._channels), layer.together)
            for number, column in enumerate(_constants(layer, rows, lying)):
                whole[: len(column), layer.constants + number] = column
        return whole

    def _fill(self, room: np.ndarray, layer: Planned, loads: Sequence[Load]) -> None:
        of_input = read_together(self.layers, layer, self._together)
        heights = heights_of(self.layers, layer.sources[0], self._channels, self._together)
        starts = np.cumsum([0, *heights])
        block = _block(layer, of_input)
        dense = _dense(layer, of_input, block) if of_input > 1 or layer.taps[0] * layer.taps[1] > 1 else None
        pieces = leaves(self.layers, layer.sources[0], self._channels)
        if dense is not None and len(pieces) > 1:
            dense = [tile[_lying(pieces, of_input)] for tile in dense]
        start = 0
        for _, rows, size, units in loads:
            load = room[start : start + rows * size].reshape(rows, size)
            for tile, t, first, elements in units:
                outputs = slice(tile * block, tile * block + block)
                if dense is not None:
                    unit = dense[tile][starts[t] : starts[t] + rows]
                else:
                    unit = _unit(layer, outputs, slice(starts[t], starts[t + 1]))
                load[:, first : first + elements] = unit
            start += rows * size


def steps_of(layer: Planned, taps: tuple[int, int, int]) -> int:
    """Matmuls of a filter for one tile of input channels."""
    return len(filter_steps(*layer.kernel, taps[0], taps[1]))


def _block(layer: Planned, of_input: int) -> int:
    """Output channels of a tile."""
    return of_input * layer.channels if layer.kind == "scores" else min(PARTITIONS, layer.together * layer.channels)


def output_order(layer: Planned, of_input: int) -> OutputOrder:
    """Return the order of a convolution's outputs, `of_input` images being packed along the partitions of its input."""
    return OutputOrder(of_input // layer.together, layer.unfold, layer.together, layer.channels)


def _reads(layer: Planned, rows: list[int], of_input: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Channels of each output tile, and the input tiles that it reads."""
    of_scores = [of_input * layer.channels]
    columns = of_scores if layer.kind == "scores" else output_order(layer, of_input).tile_sizes()
    ends = np.cumsum(columns)
    channels = (layer.before[0], layer.channels)
    reads = [tiles_read(rows, channels, layer.groups, end - size, end) for end, size in zip(ends, columns)]
    return columns, reads


def _dense(layer: Planned, of_input: int, block: int) -> list[np.ndarray]:
    """The filters of images side by side, groups on the diagonal, in blocks of outputs: [rows, steps * outputs]."""
    assert layer.filters is not None
    filters = layer.filters
    if layer.groups > 1:
        filters = ungrouped(filters, layer.groups)
    packed = pack_side_by_side(filters, output_order(layer, of_input), layer.taps, block)
    width = block * steps_of(layer, layer.taps)
    return [packed[:, first : first + width] for first in range(0, packed.shape[1], width)]


def _unit(layer: Planned, outputs: slice, inputs: slice) -> np.ndarray:
    """What some input channels give to some output channels: [channels, steps * outputs]."""
    assert layer.filters is not None
    part = layer.filters[outputs, inputs] if layer.groups == 1 else _of_channels(layer, outputs, inputs)
    count = part.shape[1]
    return part.reshape(part.shape[0], count, -1).transpose(1, 2, 0).reshape(count, -1)


def _of_channels(layer: Planned, outputs: slice, inputs: slice) -> np.ndarray:
    """The filters [outputs, inputs, kh, kw] of a grouped convolution, zeros where a channel is of another group."""
    assert layer.filters is not None
    count, each_in = layer.filters.shape[0], layer.filters.shape[1]
    each_out = count // layer.groups
    last = min(count, outputs.stop)
    part = np.zeros((last - outputs.start, inputs.stop - inputs.start, *layer.kernel), layer.filters.dtype)
    for output in range(outputs.start, last):
        first = output // each_out * each_in
        begin, end = max(first, inputs.start), min(first + each_in, inputs.stop)
        if begin < end:
            part[output - outputs.start, begin - inputs.start : end - inputs.start] = layer.filters[
                output, begin - first : end - first
            ]
    return part


def _columns(layer: Planned, rows: list[int]) -> int:
    if layer.kind == "scores":
        return layer.channels
    if layer.kind == "conv2d":
        return ceil_div(layer.channels, PARTITIONS)
    return len(rows) * sum(numbers.size // len(numbers) for numbers in layer.numbers)


def _constants(layer: Planned, rows: list[int], lying: np.ndarray) -> list[np.ndarray]:
    """The columns of a layer, up to 128 numbers each: biases by partition, or of the last layer by column."""
    if layer.kind == "scores":
        return [np.full(PARTITIONS, number) for number in layer.numbers[0]]
    if layer.kind == "conv2d":
        side_by_side = np.tile(layer.numbers[0], layer.together)
        return [side_by_side[first : first + PARTITIONS] for first in range(0, len(side_by_side), PARTITIONS)]
    ends = np.cumsum(rows)
    tiled = [np.tile(numbers.reshape(len(numbers), -1), (layer.together, 1))[lying] for numbers in layer.numbers]
    return [column for end, size in zip(ends, rows) for numbers in tiled for column in numbers[end - size : end].T]
