"""The class of each pixel: the channel with the largest number, found with pixels on the partitions.

    for block of 128 pixels:
        numbers[pixels, channels] = channels x pixels, transposed by the Tensor Engine
        found[pixels] = index of the first maximum of each row           # max8, nc_find_index8
    transpose `found` of several blocks back, and store it in runs of 128

16-bit values are transposed by a matmul with the identity, which is exact. The result in PSUM is float32, so there is
no word-alignment constraint on the number of channels.

| tile | shape | bounds |
|---|---|---|
| numbers | [pixels, packed, blocks, at least 8 channels] | float32; SEARCHED_BYTES per partition |
| found | [pixels, packed, blocks] | transposed to [blocks, pixels] for the store |
"""

import nki.isa as nisa
import nki.language as nl

from ..argmax import SEARCH_WIDTH, fill_up, find_largest
from ..program import PixelArgmax
from ..tiling.tiles import PARTITIONS, Tile, copy_by_hardware, evict, itemsize, sbuf_tile, several_columns, tiles
from ..value_operations import SEARCHED_BYTES
from .attention_operands import Tokens


def find_pixel_classes(launch, number, operation: PixelArgmax, operands):
    """Store the class of each pixel to HBM, as an int32 tensor [pictures, rows, columns]."""
    (value,) = operands
    (classes,) = launch.answers(number, operation)
    pixels = value.rows * value.columns
    width = max(SEARCH_WIDTH, value.channels)
    by_search = SEARCHED_BYTES // (4 * value.packed * width)
    by_load = SEARCHED_BYTES // (PARTITIONS * itemsize(value.dtype))
    most = max(1, min(by_search, by_load, PARTITIONS // value.packed))
    flat = classes.reshape((classes.shape[0], pixels))
    for image in range(value.images):
        read = _reader(value, image)
        for part in _full_blocks(pixels, most):
            count = min(PARTITIONS, part.size)
            blocks = part.size // count
            numbers = nl.ndarray((count, value.packed, blocks, width), dtype=nl.float32, buffer=nl.sbuf)
            _turn(launch, numbers, value, read(part))
            rows = _classes_of(launch, operation, numbers, value.channels)
            for picture in range(value.packed):
                copy_by_hardware(
                    dst=flat[image * value.packed + picture, part.start : part.end].reshape((blocks, count)),
                    src=rows[picture * blocks : (picture + 1) * blocks],
                )


def _full_blocks(pixels, most):
    """Return parts of up to `most` blocks of 128 pixels, and one part with the remaining pixels.

    A single remaining pixel is extended to two pixels, since a single 16-bit column cannot be a Tensor Engine operand.
    """
    full = pixels // PARTITIONS * PARTITIONS
    parts = tiles(full, PARTITIONS * most)
    first = full - 1 if pixels == full + 1 > 1 else full
    return [*parts, Tile(len(parts), first, pixels - first, pixels)] if full < pixels else parts


def _reader(value, image):
    """Return a function that maps a range of pixels of an image to [channels, pixels] for each tile.

    Values in HBM are loaded.
    """
    if value.hbm is None:
        tokens = Tokens(value, image, by_rows=False, is_padded=True)
        return lambda part: [
            tokens.of_tile(t, 0)[:, part.start : part.start + max(part.size, several_columns(1, value.dtype))]
            for t in range(len(value.tiles))
        ]
    flat = value.hbm.reshape((value.hbm.shape[0], value.hbm.shape[1], value.rows * value.columns))

    def load(part):
        loaded, first = [], 0
        for size in value.heights:
            columns = several_columns(part.size, value.dtype)
            tile = sbuf_tile((size, columns), value.dtype)
            if columns > part.size:
                nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
            copy_by_hardware(dst=tile[:, 0 : part.size], src=flat[image, first : first + size, part.start : part.end])
            loaded.append(tile)
            first += size
        return loaded

    return load


def _turn(launch, numbers, value, data):
    """Transpose tiles [channels, pixels] of an image into numbers [pixels, packed, blocks, at least the channels]."""
    count, _, blocks, _ = numbers.shape
    first = 0
    for t, size in enumerate(value.heights):
        columns = several_columns(size, value.dtype)
        for group in tiles(blocks, max(1, nl.tile_size.psum_bank_fmax // columns)):
            partitions = several_columns(count, value.dtype)
            bank = nl.ndarray((partitions, group.size, columns), dtype=nl.float32, buffer=nl.psum)
            for block in range(group.size):
                start = (group.start + block) * count
                _transpose(launch, bank[:, block], data[t][:, start : start + partitions])
            _put(numbers, bank[0:count], (first, first + size), group, value.channels)
        first += size


def _transpose(launch, dst, data):
    """Transpose [channels, pixels] into PSUM, float32 [pixels, channels].

    A single 16-bit column becomes two columns.
    """
    if itemsize(data.dtype) == 4:
        nisa.nc_transpose(dst=dst, data=data, engine=nisa.engine.tensor)
    else:
        moving = launch.identity()[0 : data.shape[0], 0 : dst.shape[1]]
        nisa.nc_matmul(dst=dst, stationary=data, moving=moving, accumulate=False)


def _put(numbers, bank, lanes, group, channels):
    """Copy lanes [first, end) of some blocks of pixels from PSUM to the numbers of each picture."""
    first, end = lanes
    for picture in range(first // channels, (end - 1) // channels + 1):
        low, high = max(first, picture * channels), min(end, (picture + 1) * channels)
        evict(
            dst=numbers[:, picture, group.start : group.end, low - picture * channels : high - picture * channels],
            src=bank[:, :, low - first : high - first],
            turn=1,  # the Scalar Engine, because the Vector Engine searches
        )


def _classes_of(launch, operation, numbers, channels):
    """Return the classes of numbers [pixels, packed, blocks, width], int32 [(picture, block), pixels]."""
    rows = numbers.flatten_dims(1, 2)
    count = rows.shape[1]
    fill_up(rows, channels)
    indices = nl.ndarray(rows.shape[0:2], dtype=nl.int32, buffer=nl.sbuf, name=launch.label(operation))
    find_largest(indices, rows)
    exact = nl.ndarray(indices.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=exact, src=indices, engine=nisa.engine.gpsimd)
    transposed = nl.ndarray((count, indices.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=transposed, data=exact, engine=nisa.engine.tensor)
    classes = nl.ndarray(transposed.shape, dtype=nl.int32, buffer=nl.sbuf, name=launch.label(operation))
    nisa.tensor_copy(dst=classes, src=transposed, engine=nisa.engine.vector)
    return classes
