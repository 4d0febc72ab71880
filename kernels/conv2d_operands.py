"""Bringing the operands of a convolution into SBUF: input rows, filters and biases.

Filters arrive as frameworks store them, and are transposed on the Tensor Engine, or packed in the layout of SBUF.
"""

import nki.isa as nisa
import nki.language as nl

from .conv2d_pairs import pair_filters
from .conv2d_plan import BANK_BYTES, PARTITIONS, input_columns, ranges, rows_of_taps

ZEROED_TILES = 3  # one multiplied, one loaded, one waiting for its loads


def zeroed_inputs(x, plan):
    """Input tiles for the largest groups, zero between the blocks of taps, to be used in turn by all but the first."""
    images = 1
    rows = 1
    columns = 1
    for group in plan.groups:
        images = max(images, group[1])
        rows = max(rows, group[3])
        columns = max(columns, group[5])
    partitions = rows_of_taps(plan, 0, plan.tap_rows * plan.tap_columns)
    tiles = []
    for _ in range(min(ZEROED_TILES, len(plan.groups) - 1)):
        tile = nl.ndarray((partitions, images, rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        half = columns // 2
        if half > 0:
            nisa.memset(dst=tile[:, :, :, 0:half], value=0.0, engine=nisa.engine.gpsimd)
        nisa.memset(dst=tile[:, :, :, half:columns], value=0.0, engine=nisa.engine.vector)
        tiles.append(tile)
    return tiles


def load_input(x, plan, index, t, previous, zeroed):
    """Input tile `t` of a group as [taps and channels, images, rows, columns], zeros where it reaches into the padding.

    `previous` is the same tile of the group before: rows that both need are copied from it. `zeroed` are the tiles of
    `zeroed_inputs`, of use where there is space between the blocks of taps.
    """
    image, images, row, rows = plan.groups[index][:4]
    channel, channels = plan.channel_tiles[t]
    height, width = x.shape[2], x.shape[3]
    tile_rows = rows + plan.reach_rows
    left, right = input_columns(plan, plan.groups[index], width)
    tile_columns = right - left
    if plan.tap_columns > 1 and index > 0:
        tile = zeroed[index % len(zeroed)][:, 0:images, 0:tile_rows, 0:tile_columns]
    else:
        tile = nl.ndarray(
            (rows_of_taps(plan, t, plan.tap_rows * plan.tap_columns), images, tile_rows, tile_columns),
            dtype=x.dtype,
            buffer=nl.sbuf,
        )
    kept = 0
    if row > 0 and plan.reach_rows > 0:
        kept = plan.reach_rows
        rows_before = plan.groups[index - 1][3]
        nisa.tensor_copy(
            dst=tile[:, :, 0:kept, :],
            src=previous[:, :, rows_before : rows_before + kept, :],
            engine=nisa.engine.gpsimd,
        )

    # Element (r, c) of the block for tap (i, j) is input row r + top + i, column c + left + j.
    top = row - plan.padding
    if plan.tap_columns > 1 and index == 0:
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.vector)
    else:
        _zero_border(
            tile,
            kept,
            max(0, -top),
            min(tile_rows, height - top - plan.tap_rows + 1),
            max(0, -left),
            min(tile_columns, width - left - plan.tap_columns + 1),
        )
    for i in range(plan.tap_rows):
        first_row = max(kept, -top - i)
        end_row = min(tile_rows, height - top - i)
        for j in range(plan.tap_columns):
            first_column = max(0, -left - j)
            end_column = min(tile_columns, width - left - j)
            block = (i * plan.tap_columns + j) * plan.block_stride
            if first_row < end_row and first_column < end_column:
                nisa.dma_copy(
                    dst=tile[block : block + channels, :, first_row:end_row, first_column:end_column],
                    src=x[
                        image : image + images,
                        channel : channel + channels,
                        first_row + top + i : end_row + top + i,
                        first_column + left + j : end_column + left + j,
                    ].permute((1, 0, 2, 3)),
                )
    return tile


def _zero_border(tile, kept, top, bottom, left, right):
    """Zeros around rows top to bottom, columns left to right of a tile whose first `kept` rows are there already."""
    rows, columns = tile.shape[2], tile.shape[3]
    top = min(rows, max(kept, top))
    bottom = max(top, bottom)
    left = min(columns, left)
    right = max(left, right)
    if kept < top:
        nisa.memset(dst=tile[:, :, kept:top, :], value=0.0, engine=nisa.engine.gpsimd)
    if bottom < rows:
        nisa.memset(dst=tile[:, :, bottom:rows, :], value=0.0, engine=nisa.engine.gpsimd)
    if top < bottom and left > 0:
        nisa.memset(dst=tile[:, :, top:bottom, 0:left], value=0.0, engine=nisa.engine.gpsimd)
    if top < bottom and right < columns:
        nisa.memset(dst=tile[:, :, top:bottom, right:columns], value=0.0, engine=nisa.engine.gpsimd)


def _load_packed(w_packed, plan, out_tile, t):
    """The weights of a tile of output channels and of input channels as [taps and channels, steps, output channels]."""
    first, count = plan.out_tiles[out_tile]
    channel = plan.channel_tiles[t][0]
    rows = rows_of_taps(plan, t, plan.tap_rows * plan.tap_columns)
    steps = len(plan.steps)
    block = first // PARTITIONS * PARTITIONS  # blocks of w_packed hold 128 output channels, a tile may be part of one
    width = min(PARTITIONS, w_packed.shape[1] // steps - block)
    weights = nl.ndarray((rows, steps, count), dtype=w_packed.dtype, buffer=nl.sbuf)
    source = w_packed[channel : channel + rows, block * steps : (block + width) * steps].reshape_dim(1, (steps, width))
    nisa.dma_copy(dst=weights, src=source[:, :, first - block : first - block + count])
    return weights


def stage_weights(w, plan, packed, first, units, last, staged):
    """Load weight chunks as they lie in HBM until there are `last`: units where packed, else
    [output channels, channels, filter rows, k]."""
    chunks = len(plan.weight_chunks)
    input_tiles = len(plan.channel_tiles)
    while len(staged) < min(last, units * chunks):
        unit = len(staged) // chunks
        if packed:
            staged.append(_load_packed(w, plan, first + unit // input_tiles, unit % input_tiles))
        else:
            out_channel, count = plan.out_tiles[first + unit // input_tiles]
            channel, channels = plan.channel_tiles[unit % input_tiles]
            filter_row, filter_rows = plan.weight_chunks[len(staged) % chunks][:2]
            chunk = nl.ndarray((count, channels, filter_rows, plan.kernel_size), dtype=w.dtype, buffer=nl.sbuf)
            nisa.dma_copy(
                dst=chunk,
                src=w[
                    out_channel : out_channel + count,
                    channel : channel + channels,
                    filter_row : filter_row + filter_rows,
                    :,
                ],
            )
            staged.append(chunk)


def prepare_weights(w, plan, packed, first, units, last, staged, weights):
    """Bring units into stationary layout, [taps and channels, matrices, output channels], until there are `last`."""
    chunks = len(plan.weight_chunks)
    while len(weights) < min(last, units):
        unit = len(weights)
        t = unit % len(plan.channel_tiles)
        stage_weights(w, plan, packed, first, units, unit * chunks + 1 + plan.staged_chunks, staged)
        if packed:
            laid_out = staged[unit]
        else:
            count = plan.out_tiles[first + unit // len(plan.channel_tiles)][1]
            rows = rows_of_taps(plan, t, plan.tap_rows * plan.tap_columns)
            laid_out = nl.ndarray((rows, len(plan.steps), count), dtype=w.dtype, buffer=nl.sbuf)
            for c in range(chunks):
                number = unit * chunks + c
                stage_weights(w, plan, packed, first, units, number + 1 + plan.staged_chunks, staged)
                _transpose_chunk(laid_out, staged[number], plan, plan.weight_chunks[c])
        weights.append(pair_filters(laid_out) if plan.paired else laid_out)


def _transpose_chunk(laid_out, chunk, plan, chunk_plan):
    """Transpose the taps of a weight chunk; a PSUM bank takes several before it is copied out."""
    filter_row, filter_rows, first_step, steps = chunk_plan
    count, channels = chunk.shape[0], chunk.shape[1]
    taps_first = chunk.permute((0, 2, 3, 1))
    if plan.tap_columns > 1:  # leave space between the taps, as the input does
        spread = nl.ndarray(
            (count, filter_rows, plan.kernel_size, plan.block_stride), dtype=chunk.dtype, buffer=nl.sbuf
        )
        nisa.memset(dst=spread, value=0.0, engine=nisa.engine.vector)
        nisa.tensor_copy(dst=spread[:, :, :, 0:channels], src=taps_first, engine=nisa.engine.vector)
        taps_first = spread
    in_bank = BANK_BYTES // (count * (4 if chunk.dtype == nl.float32 else 2))
    for piece in ranges(steps, in_bank):
        start, size = piece
        bank = nl.ndarray((laid_out.shape[0], size, count), dtype=chunk.dtype, buffer=nl.psum)
        rows = 0  # the most that any step of this bank uses
        for s in range(size):
            row, column, taps = plan.steps[first_step + start + s]
            row = row - filter_row
            block = taps_first[:, row : row + taps // plan.tap_columns, column : column + plan.tap_columns, :]
            if plan.tap_columns > 1:
                block = block.reshape((count, taps * plan.block_stride))[:, 0 : laid_out.shape[0]]
            used = min(laid_out.shape[0], taps * taps_first.shape[3])
            nisa.nc_transpose(dst=bank[0:used, s, :], data=block, engine=nisa.engine.tensor)
            rows = max(rows, used)
        target = laid_out[0:rows, first_step + start : first_step + start + size, :]
        if (start // in_bank) % 2 == 0:
            nisa.tensor_copy(dst=target, src=bank[0:rows, :, :], engine=nisa.engine.vector)
        else:
            nisa.activation(dst=target, op=nl.copy, data=bank[0:rows, :, :])


def load_biases(bias, plan, packed):
    """A [channels, 1] column for each tile of output channels."""
    tiles = len(plan.out_tiles)
    channel, count = plan.out_tiles[0]
    columns = nl.ndarray((count, tiles), dtype=bias.dtype, buffer=nl.sbuf)
    biases = []
    if packed and count == bias.shape[0]:
        nisa.dma_copy(dst=columns, src=bias)
    else:
        for tile in range(tiles):
            channel, count = plan.out_tiles[tile]
            if packed:
                block = channel // PARTITIONS
                source = bias[channel - block * PARTITIONS : channel - block * PARTITIONS + count, block : block + 1]
            else:
                source = bias[channel : channel + count].reshape((count, 1))
            nisa.dma_copy(dst=columns[0:count, tile : tile + 1], src=source)
    for tile in range(tiles):
        biases.append(columns[0 : plan.out_tiles[tile][1], tile : tile + 1])
    return biases
