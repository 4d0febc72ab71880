"""Softmax over the channels of each pixel or over the pixels of each row.

A row is along the free axis, so its maximum and its sum require one instruction each. The channels of a pixel are on
the partitions. Therefore the Tensor Engine transposes up to 128 pixels onto the partitions, and transposes the results
back. If the channels in a run occupy the same partition in several tiles, no transpose is needed.

    for some blocks of pixels:
        turned[pixel, block, channel] = data[channel, pixel]^T              # PSUM; SBUF if a bank is too small
        shares[pixel, block, channel] = exp(turned - largest) / sum         # over each run of channels; SBUF
        result[channel, pixel] = shares^T                                   # PSUM, then SBUF

| tile | shape | bounds |
|---|---|---|
| turned | [pixels, blocks, channels] | 128 pixels; a PSUM bank, or SBUF |
| shares | [pixels, blocks, channels] | in the dtype of the launch |
| result | [channels, images, rows, columns] | 128 channels |
"""

import math
from itertools import groupby

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import exp_by_powers
from ..program import ChannelSoftmax, RowSoftmax
from ..tiling.tiles import PARTITIONS, even_tiles, evict, itemsize, tiles, transposed_dtype

BANK_BYTES = nl.tile_size.psum_bank_fmax * 4  # bytes of a PSUM bank per partition
ROW_ELEMENTS = 1024  # number of elements of a partition in rows that are computed together
FEW_POWERS = 512  # up to this many elements per partition, powers are faster than loading a table
MOST_TILES = 8  # maximum number of tiles in a softmax that spans tiles


def soften_channels(launch, number, operation: ChannelSoftmax, operands):
    """Compute the softmax of each pixel over runs of its channels."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    heights = value.heights
    if operation.length <= MOST_TILES and len(set(heights)) == 1 and operation.inner % heights[0] == 0:
        per_partition = operation.inner // heights[0]
        for first in range(0, len(heights), operation.length * per_partition):
            for t in range(first, first + per_partition):
                _soften_tiles(
                    output, value, range(t, t + operation.length * per_partition, per_partition), operation.log
                )
        return output
    work = _ChannelSoftmax(launch, operation, value, output)
    for _, alike in groupby(_blocks(value), key=lambda block: block[3]):
        blocks = list(alike)
        for group in tiles(len(blocks), work.blocks_at_once):
            work.compute(blocks[group.start : group.end])
    return output


def soften_rows(launch, number, operation: RowSoftmax, operands):
    """Compute the softmax of each row. Several rows of several images are processed together."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    most = max(1, ROW_ELEMENTS // value.columns)
    for t in range(len(value.tiles)):
        target, source = output.inside(t), value.inside(t)
        for down in even_tiles(value.rows, most):
            for images in even_tiles(value.images, max(1, most // down.size)):
                window = (slice(None), slice(images.start, images.end), slice(down.start, down.end))
                _soften(target[window], source[window], operation.log)
    return output


def _soften_tiles(output, value, own, is_log):
    """Compute a softmax across tiles, separately for each partition and pixel."""
    for images, down, across, _ in _blocks(value, ROW_ELEMENTS):
        block = (images, down, across)
        data = [_block_of(value.inside(t), block) for t in own]
        shape = data[0].shape
        largest = _over_tiles(data, nl.maximum)
        lower, grown = ([nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf) for _ in own] for _ in range(2))
        for tile, difference, power in zip(data, lower, grown):
            nisa.tensor_tensor(dst=difference, data1=tile, data2=largest, op=nl.subtract)
            nisa.activation(dst=power, op=nl.exp, data=difference)
        sums = _over_tiles(grown, nl.add)
        last = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        if is_log:
            nisa.activation(dst=last, op=nl.log, data=sums)
            ends, combine = lower, nl.subtract
        else:
            nisa.reciprocal(dst=last, data=sums)
            ends, combine = grown, nl.multiply
        for t, tile in zip(own, ends):
            nisa.tensor_tensor(dst=_block_of(output.inside(t), block), data1=tile, data2=last, op=combine)


def _over_tiles(parts, op):
    """Reduce tiles elementwise by an operation, in float32."""
    total = nl.ndarray(parts[0].shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=total, src=parts[0], engine=nisa.engine.vector)
    for part in parts[1:]:
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=op)
    return total


def _soften(dst, data, is_log):
    """Compute dst, the softmax of data [partitions, ..., columns] over its last axis."""
    last = len(data.shape) - 1
    width = data.shape[last]
    reduced_shape = (*data.shape[0:last], 1)
    largest = nl.ndarray(reduced_shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=data, axis=last, keepdims=True)
    lower = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=lower, data1=data, data2=largest.broadcast(last, width), op=nl.subtract)
    grown = nl.ndarray(data.shape, dtype=nl.float32, buffer=nl.sbuf)
    if not is_log and math.prod(data.shape[1:]) <= FEW_POWERS:
        exp_by_powers(grown, lower)
    else:
        nisa.activation(dst=grown, op=nl.exp, data=lower)
    sums = nl.ndarray(reduced_shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=sums, op=nl.add, data=grown, axis=last, keepdims=True)
    if is_log:
        nisa.activation(dst=sums, op=nl.log, data=sums)
        nisa.tensor_tensor(dst=dst, data1=lower, data2=sums.broadcast(last, width), op=nl.subtract)
    else:
        nisa.reciprocal(dst=sums, data=sums)
        nisa.tensor_tensor(dst=dst, data1=grown, data2=sums.broadcast(last, width), op=nl.multiply)


def _blocks(value, most=PARTITIONS):
    """Return blocks of up to `most` pixels as (images, rows, columns, pixels). Blocks of equal size are adjacent."""
    blocks = []
    for across in even_tiles(value.columns, most):
        for down in even_tiles(value.rows, max(1, most // across.size)):
            for images in even_tiles(value.images, max(1, most // (down.size * across.size))):
                blocks.append((images, down, across, images.size * down.size * across.size))
    return sorted(blocks, key=lambda block: -block[3])


class _ChannelSoftmax:
    """The softmax over the channels of a value.

    Transposes have the dtype of the launch. If that dtype has 16 bits and the number of channels or pixels is odd, they
    are float32, because the Tensor Engine writes whole words of PSUM.
    """

    def __init__(self, launch, operation: ChannelSoftmax, value, output) -> None:
        self._operation, self._dtype = operation, launch.dtype
        self._heights = value.heights
        self._lanes = sum(self._heights)
        self._sources = [value.inside(t) for t in range(len(self._heights))]
        self._targets = [output.inside(t) for t in range(len(self._heights))]
        is_odd = any(size % 2 for size in self._heights) or value.images * value.rows * value.columns == 1
        self._turned_dtype = nl.float32 if is_odd else launch.dtype
        bytes_of_block = self._lanes * itemsize(transposed_dtype(self._turned_dtype))
        self.blocks_at_once = max(1, BANK_BYTES // bytes_of_block)
        self._fits_bank = bytes_of_block <= BANK_BYTES
        self._turn = 0

    def compute(self, blocks):
        """Compute the softmax of blocks of equal size."""
        pixels = blocks[0][3]
        block_shape = (pixels, len(blocks), self._lanes)
        is_odd = pixels % 2 == 1
        result = nl.ndarray(block_shape, dtype=nl.float32 if is_odd else self._dtype, buffer=nl.sbuf)
        length, inner = self._operation.length, self._operation.inner
        runs = len(blocks) * self._lanes // (length * inner)
        dst, data = (
            tile.flatten_dims(1, 2).reshape_dim(1, (runs, length, inner)).permute((0, 1, 3, 2))
            for tile in (result, self._turned(blocks))
        )
        _soften(dst, data, self._operation.log)
        for n, block in enumerate(blocks):
            first = 0
            for t, size in enumerate(self._heights):
                bank = nl.ndarray((size, pixels), dtype=transposed_dtype(result.dtype), buffer=nl.psum)
                nisa.nc_transpose(dst=bank, data=result[:, n, first : first + size], engine=nisa.engine.tensor)
                target = _block_of(self._targets[t], block)
                self._evict(target, _as_pixels(bank, target))
                first += size

    def _turned(self, blocks):
        """Return the pixels of several blocks: [pixels, blocks, channels]."""
        block_shape = (blocks[0][3], len(blocks), self._lanes)
        dtype = transposed_dtype(self._turned_dtype)
        transposed = nl.ndarray(block_shape, dtype=dtype, buffer=nl.psum if self._fits_bank else nl.sbuf)
        for n, block in enumerate(blocks):
            first = 0
            for t, size in enumerate(self._heights):
                block_tile = transposed[:, n, first : first + size]
                bank = (
                    block_tile if self._fits_bank else nl.ndarray((block_shape[0], size), dtype=dtype, buffer=nl.psum)
                )
                nisa.nc_transpose(dst=bank, data=self._pixels(t, block), engine=nisa.engine.tensor)
                if not self._fits_bank:
                    self._evict(block_tile, bank)
                first += size
        return transposed

    def _pixels(self, t, block):
        """Return the pixels of a block, [channels, pixels], in the dtype of the transpose."""
        data = _block_of(self._sources[t], block)
        if self._turned_dtype == self._dtype and max(data.shape[1:3]) == 1:
            return data[:, 0, 0]
        copy = nl.ndarray(data.shape, dtype=self._turned_dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copy, src=data, engine=nisa.engine.gpsimd)
        return copy.flatten_dims(1, 3)

    def _evict(self, dst, src):
        self._turn += 1
        evict(dst=dst, src=src, turn=self._turn)


def _block_of(tile, block):
    """Return a block of a tile [channels, images, rows, columns]."""
    images, down, across = block[:3]
    part = tile[:, images.start : images.end, down.start : down.end]
    return part[:, :, :, across.start : across.end]


def _as_pixels(bank, target):
    """View [channels, pixels] in PSUM in the shape of a target [channels, images, rows, columns]."""
    return bank.reshape_dim(1, tuple(target.shape[1:]))
