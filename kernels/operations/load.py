"""Load the input of a launch into SBUF, and store values to HBM."""

import nki.isa as nisa
import nki.language as nl

from ..convolution.input import load_input
from ..program import Load, Store, TapsLoad
from ..tiling.packing import ceil_div
from ..tiling.tiles import (
    PARTITIONS,
    copy_by_hardware,
    evict,
    itemsize,
    load_early,
    load_rows_in_words,
    reshaped,
    tiles,
    transposed_dtype,
    whole_words,
)
from .value import Value, store_value, stored_value

MOST_AXES = 5  # maximum number of axes of an access pattern
FEW_ROWS = 1  # for up to this many rows of features, a descriptor per number is cheaper than transposing the rows


def load(seen, plan):
    """Return the input [images, channels, rows, columns] in HBM as the tiles that matmuls read."""
    images, features, rows, columns = seen.shape
    kernel = plan.problem.filters.kernel
    only = rows * columns * kernel[0] * kernel[1] == 1 and max(plan.problem.movement.padding) == 0
    if images > FEW_ROWS and only and itemsize(seen.dtype) > 1:
        return _load_features(seen.reshape((images, features)))
    return load_input(seen, plan)


def load_plain(launch, number, operation: Load, operands):
    """Load a value without changing it."""
    (value,) = operands
    output = launch.output_of(operation, value.heights)
    load_tiles(output, value)
    return output


def load_tiles(output, value):
    """Load a value from HBM into the tiles of a buffer."""
    first = 0
    for t, size in enumerate(value.heights):
        copy_by_hardware(dst=output.inside(t), src=value.hbm[:, first : first + size].permute((1, 0, 2, 3)))
        first += size


def store(launch, number, operation: Store, operands):
    """Store a value to a buffer in HBM.

    If it has no buffer, as when it is timed in isolation, store it to a new tensor in HBM.
    """
    (value,) = operands
    if operation.into is None:
        stored_value(launch, value)
        return value
    output = launch.output_of(operation, value.heights)
    store_value(value, output.hbm)
    return output


def load_taps(launch, number, operation: TapsLoad, operands):
    """Load a small image, which is stored with its padding, into the layout of the first convolution.

    The partitions are ordered (image, filter column, channel), followed by copies shifted by rows, one for each filter
    row.

    The image is loaded either by one DMA per filter row, in which each partition reads one run per image, or by a
    single DMA for all filter rows, which also fills the partitions between them. In the first pass, the matmuls wait
    only for a single image or half an image.
    """
    (value,) = operands
    image = value.hbm
    images, channels, rows, columns = image.shape
    width, dilation, copies, packed = operation.kernel_columns, operation.dilation, operation.copies, operation.packed
    early = launch.is_starting
    lanes = operation.channels * packed
    taps = [[channels // packed * rows * columns, packed], [dilation, width], [rows * columns, channels // packed]]
    filling = _without_ones([[copies.shift * columns, copies.count], [0, copies.stride // max(1, lanes)], *taps])
    fills = operation.fills and len(filling) <= MOST_AXES - 2
    partitions = copies.count * copies.stride if fills else (copies.count - 1) * copies.stride + lanes
    tile = nl.ndarray((partitions, images, rows * columns), dtype=image.dtype, buffer=nl.sbuf)
    if not fills and copies.count > 1 and copies.stride > lanes:
        half = rows * columns // 2
        nisa.memset(dst=tile[:, :, 0:half], value=0.0, engine=nisa.engine.gpsimd)
        nisa.memset(dst=tile[:, :, half : rows * columns], value=0.0, engine=nisa.engine.vector)
    for part in tiles(images, 1 if early else images):
        target, source = tile[:, part.start : part.end], image[part.start : part.end]
        of_images = [channels * rows * columns, part.size]
        if fills:
            run = (rows - (copies.count - 1) * copies.shift) * columns - (width - 1) * dilation
            half = run // columns // 2 * columns if early and part.index == 0 else 0
            for start, end in ([(0, half)] if half > 0 else []) + [(half, run)]:
                window = target[:, :, start:end]
                moved = source[:, :, start // columns : rows].ap([*filling, of_images, [1, end - start]])
                if end < run:
                    load_early(window, moved)
                    launch.loads_early = False  # the filters are then first in the other queue
                else:
                    copy_by_hardware(dst=window, src=moved)
            continue
        for copy in range(copies.count):
            run = (rows - copy * copies.shift) * columns - (width - 1) * dilation
            window = target[copy * copies.stride : copy * copies.stride + lanes, :, 0:run]
            moved = source[:, :, copy * copies.shift : rows].ap([*taps, of_images, [1, run]])
            if early and part.index == 0 and copy % 2 == 1:
                load_early(window, moved)
            else:
                copy_by_hardware(dst=window, src=moved)
    return Value(
        tiles=(reshaped(tile, (tile.shape[0], images, rows, columns)),),
        margins=((0, 0, 0, 0),),
        hbm=None,
        images=images,
        channels=operation.channels,
        rows=rows,
        columns=columns,
        packed=packed,
        pictures=value.pictures,
    )


def _without_ones(pattern):
    """Return an access pattern of [step, extent] pairs without the axes of extent 1."""
    return [pair for pair in pattern if pair[1] > 1]


def _load_features(seen):
    """Return rows of features [images, F], transposed by the Tensor Engine: tiles [up to 128 features, images, 1, 1].

    A DMA that moves each number to its partition would need a descriptor for each number.
    """
    images, features = seen.shape
    rows = nl.ndarray((PARTITIONS, ceil_div(images, PARTITIONS), features), dtype=seen.dtype, buffer=nl.sbuf)
    load_rows_in_words(rows, seen)
    dtype = transposed_dtype(seen.dtype)
    transposed = []
    for part in tiles(features, PARTITIONS):
        tile = nl.ndarray((part.size, images, 1, 1), dtype=seen.dtype, buffer=nl.sbuf)
        for filling in tiles(images, nl.tile_size.psum_bank_fmax_bytes // itemsize(dtype)):
            bank = nl.ndarray((part.size, whole_words(filling.size, dtype)), dtype=dtype, buffer=nl.psum)
            for block in tiles(bank.shape[1], PARTITIONS):
                data = rows[0 : block.size, filling.start // PARTITIONS + block.index, part.start : part.end]
                nisa.nc_transpose(dst=bank[:, block.start : block.end], data=data, engine=nisa.engine.tensor)
            evict(dst=tile[:, filling.start : filling.end, 0, 0], src=bank[:, 0 : filling.size], turn=filling.index)
        transposed.append(tile)
    return transposed
