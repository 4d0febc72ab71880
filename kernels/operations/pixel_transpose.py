"""Exchange channels and pixels. The Tensor Engine transposes tiles of up to 128 channels and 128 pixels.

    for image:
        for tile of up to 128 pixels:
            bank[pixels, channels] = data[channels, pixels]^T       # PSUM; one transpose for each tile of channels
            result[pixels] = bank                                   # SBUF

With several heads, banks are copied to SBUF, and a product with an identity matrix between zeros moves the pixels of a
head to the partitions that follow the pixels of the previous head.

| tile | shape | bounds |
|---|---|---|
| data | [channels, pixels] | 128 channels; without the margin |
| bank | [pixels, channels] | 128 pixels; a PSUM bank |
| result | [pixels, images, rows, columns] | 128 pixels; one row or column for each channel of a head of the operand |
"""

import nki.isa as nisa
import nki.language as nl

from ..attention_operation import PixelTranspose
from ..program import NO_SIDES
from ..tiling.packing import tile_sizes
from ..tiling.tiles import PARTITIONS, even_tiles, evict, itemsize, sbuf_tile, transposed_dtype

TILES_OF_BANK = nl.tile_size.psum_bank_fmax // PARTITIONS  # tiles of channels that fill a PSUM bank in float32


def transpose_pixels(launch, number, operation: PixelTranspose, operands):
    """Exchange the channels and the pixels of each image."""
    (value,) = operands
    parts = tile_sizes(operation.channels, PARTITIONS)
    output = launch.output_of(operation, parts)
    # The Tensor Engine writes whole words of PSUM, and a single 16-bit column cannot be an operand.
    is_odd = parts[-1] == 1 or any(height % 2 for height in value.heights)
    dtype = nl.float32 if is_odd or itemsize(value.dtype) == 1 else value.dtype
    turn = 0
    for image in range(value.images):
        tiles = [_pixels(value, t, image, dtype) for t in range(len(value.tiles))]
        if operation.heads > 1:
            _exchange_heads(launch, operation, tiles, parts, [output.inside(t)[:, image] for t in range(len(parts))])
            continue
        for t, count in enumerate(parts):
            first, target = t * PARTITIONS, output.inside(t)[:, image]
            start = 0
            for some in range(0, len(tiles), TILES_OF_BANK):
                bank = _transposed([tile[:, first : first + count] for tile in tiles[some : some + TILES_OF_BANK]])
                columns = bank.shape[1]
                if columns == operation.rows * operation.columns:
                    evict(dst=target, src=bank.reshape_dim(1, (operation.rows, operation.columns)), turn=turn)
                else:
                    evict(dst=target[:, 0, start : start + columns], src=bank, turn=turn)
                start, turn = start + columns, turn + 1
    return output


def _pixels(value, t, image, dtype):
    """Return the pixels of an image of a tile, [channels, pixels], contiguous and in `dtype`."""
    source = value.inside(t)[0 : value.heights[t], image]
    if value.margins[t] != NO_SIDES or source.dtype != dtype:
        copy = sbuf_tile(source.shape, dtype)
        nisa.tensor_copy(dst=copy, src=source, engine=nisa.engine.gpsimd)
        source = copy
    return source.flatten_dims(1, 2)


def _transposed(tiles):
    """Transpose tiles [channels, pixels] to [pixels, channels of all tiles] in PSUM."""
    heights = [tile.shape[0] for tile in tiles]
    bank = nl.ndarray((tiles[0].shape[1], sum(heights)), dtype=transposed_dtype(tiles[0].dtype), buffer=nl.psum)
    start = 0
    for tile, height in zip(tiles, heights):
        nisa.nc_transpose(dst=bank[:, start : start + height], data=tile, engine=nisa.engine.tensor)
        start += height
    return bank


def _exchange_heads(launch, operation, tiles, parts, targets):
    """Exchange the channels and pixels of each head of an image; `targets` has [pixels, rows, columns] for each of
    `parts`."""
    heads, shape = operation.heads, (operation.rows, operation.columns)
    pixels, head_pixels = operation.channels // heads, operation.rows * operation.columns
    chunks = even_tiles(pixels, PARTITIONS)
    chunks_of_pixels = [_channels_along(launch, tiles, chunk, turn) for turn, chunk in enumerate(chunks)]
    shifts, first = launch.shifted_identity(), 0
    for t, (count, target) in enumerate(zip(parts, targets)):
        bank = nl.ndarray((count, head_pixels), dtype=nl.float32, buffer=nl.psum)
        is_started = False
        for head in range(heads):
            for chunk, channels in zip(chunks, chunks_of_pixels):
                shift = head * pixels + chunk.start - first
                if -chunk.size < shift < count:
                    nisa.nc_matmul(
                        dst=bank,
                        stationary=shifts[0 : chunk.size, PARTITIONS - shift : PARTITIONS - shift + count],
                        moving=channels[:, head * head_pixels : (head + 1) * head_pixels],
                        accumulate=is_started,
                    )
                    is_started = True
        evict(dst=target, src=bank.reshape_dim(1, shape), turn=t)
        first += count


def _channels_along(launch, tiles, chunk, turn):
    """Return a chunk of pixels with all channels along the free axis, [pixels, channels], in SBUF."""
    channels = sbuf_tile((chunk.size, sum(tile.shape[0] for tile in tiles)), launch.dtype)
    start = 0
    for some in range(0, len(tiles), TILES_OF_BANK):
        bank = _transposed([tile[:, chunk.start : chunk.end] for tile in tiles[some : some + TILES_OF_BANK]])
        evict(dst=channels[:, start : start + bank.shape[1]], src=bank, turn=turn + some // TILES_OF_BANK)
        start += bank.shape[1]
    return channels
