"""Load the filters and biases of a convolution into SBUF.

A stream returns the weights unit by unit; a unit contains the weights of one tile of output channels and one tile of
input channels. Chunks of filters are prefetched. Filters in a framework's layout are transposed on the Tensor Engine
while earlier units are multiplied; packed filters are used without rearrangement.
"""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from ..tiling.tiles import copy_by_hardware, even_tiles, evict, itemsize, sbuf_tile, transposed_dtype
from .forms import Form
from .pairs import pair_filters
from .plan import Conv2dPlan, begins_pair, has_space, rows_of_taps
from .squares import square_filters

WIDE_STRIDE = 16  # at strides of at least this many bytes, engines get only half of a memory's bandwidth (A1)


@dataclass
class WeightStream:
    """The weights of the resident output tiles: [taps and channels, matrices, output channels]."""

    w: nl.NkiTensor  # in HBM
    plan: Conv2dPlan
    first: int  # index of the first output tile
    units: int  # number of units
    staged: list[nl.NkiTensor]  # chunks being loaded
    ready: list[nl.NkiTensor]  # units in stationary layout


def open_weights(w, plan, first, out_tiles):
    """Return a stream of the units of `out_tiles` output tiles, starting with `first`; nothing is loaded yet."""
    staged: list[nl.NkiTensor] = []
    ready: list[nl.NkiTensor] = []
    return WeightStream(w, plan, first, out_tiles * len(plan.channel_tiles), staged, ready)


def weights_of(stream, tile, t):
    """Return the weights of output tile `tile`, counted from the stream's first tile, and input tile `t`.

    The next unit is prepared too, so that the Tensor Engine can multiply while the next unit is evicted from PSUM.
    """
    unit = tile * len(stream.plan.channel_tiles) + t
    while len(stream.ready) < min(unit + 2, stream.units):
        _make_ready(stream, len(stream.ready))
    return stream.ready[unit]


def units_of(stream, tile):
    """Return the weights of output tile `tile` for each tile of input channels."""
    units = []
    for t in range(len(stream.plan.channel_tiles)):
        units.append(weights_of(stream, tile, t))
    return units


def stage_weights(stream, last):
    """Load chunks until `last` of them are loaded.

    Chunks are units if packed, otherwise [output channels, channels, rows, columns].
    """
    plan = stream.plan
    chunks = len(plan.weights.chunks)
    input_tiles = len(plan.channel_tiles)
    while len(stream.staged) < min(last, stream.units * chunks):
        unit = len(stream.staged) // chunks
        out_tile = plan.weights.out_tiles[stream.first + unit // input_tiles]
        channels = plan.channel_tiles[unit % input_tiles]
        if plan.problem.filters.are_stationary and begins_pair(plan, channels.index):
            both = nl.ndarray((channels.size, 2, len(plan.steps), out_tile.size), dtype=stream.w.dtype, buffer=nl.sbuf)
            for plane in range(2):
                load_packed(stream.w, plan, out_tile, plan.channel_tiles[channels.index + plane], both[:, plane])
                stream.staged.append(both[:, plane])
        elif plan.problem.filters.are_stationary:
            stream.staged.append(load_packed(stream.w, plan, out_tile, channels))
        else:
            part = plan.weights.chunks[len(stream.staged) % chunks]
            shape = (out_tile.size, channels.size, part.rows, plan.problem.filters.kernel[1])
            chunk = nl.ndarray(shape, dtype=stream.w.dtype, buffer=nl.sbuf)
            source = stream.w[out_tile.start : out_tile.end, channels.start : channels.end]
            copy_by_hardware(dst=chunk, src=source[:, :, part.row : part.row + part.rows, :])
            stream.staged.append(chunk)


def load_packed(w_packed, plan, out_tile, channels, buffer=None):
    """Load the packed weights of a tile of output channels and a tile of input channels, [taps and channels, steps,
    Cout], into `buffer` or a new buffer."""
    rows = rows_of_taps(plan, channels.index, plan.problem.filters.taps.count)
    steps = len(plan.steps)
    block = out_tile.start // plan.weights.block * plan.weights.block  # an output tile may be part of a block
    width = min(plan.weights.block, plan.problem.filters.out_channels - block)
    weights = sbuf_tile((rows, steps, out_tile.size), w_packed.dtype) if buffer is None else buffer
    source = w_packed[channels.start : channels.start + rows, block * steps : (block + width) * steps]
    source = source.reshape_dim(1, (steps, width))[:, :, out_tile.start - block : out_tile.end - block]
    copy_by_hardware(dst=weights, src=source)
    return weights


def _make_ready(stream, unit):
    """Convert a unit to stationary layout while the chunks of later units are loaded."""
    plan = stream.plan
    chunks = len(plan.weights.chunks)
    ahead = plan.weights.staged_chunks
    stage_weights(stream, unit * chunks + 1 + ahead)
    if plan.problem.filters.are_stationary:
        laid_out = stream.staged[unit]
    else:
        t = unit % len(plan.channel_tiles)
        count = plan.weights.out_tiles[stream.first + unit // len(plan.channel_tiles)].size
        rows = rows_of_taps(plan, t, plan.problem.filters.taps.count)
        laid_out = nl.ndarray((rows, len(plan.steps), count), dtype=stream.w.dtype, buffer=nl.sbuf)
        for c in range(chunks):
            number = unit * chunks + c
            stage_weights(stream, number + 1 + ahead)
            _transpose_chunk(laid_out, stream.staged[number], plan, plan.weights.chunks[c])
    if plan.form is Form.PAIRS:
        laid_out = pair_filters(laid_out)
    elif plan.form is Form.SQUARES:
        laid_out = square_filters(laid_out)
    stream.ready.append(laid_out)


def _transpose_chunk(laid_out, chunk, plan, part):
    """Transpose the taps of a chunk. Several taps share a PSUM bank and are evicted together."""
    tap_columns, stride = plan.problem.filters.taps.columns, plan.problem.filters.taps.stride
    count, channels = chunk.shape[0], chunk.shape[1]
    taps_first = chunk.permute((0, 2, 3, 1))
    apart = part.rows * plan.problem.filters.kernel[1] * itemsize(chunk.dtype)  # bytes between channels
    if has_space(plan) or (chunk.dtype == nl.float32 and apart >= WIDE_STRIDE):
        width = stride if has_space(plan) else channels  # leave the same gaps between taps as in the input
        spread = nl.ndarray(
            (count, part.rows, plan.problem.filters.kernel[1], width), dtype=chunk.dtype, buffer=nl.sbuf
        )
        if width > channels:
            nisa.memset(dst=spread, value=0.0, engine=nisa.engine.vector)
        for row in range(part.rows):
            target = spread[:, row, :, 0:channels]
            engine = nisa.engine.gpsimd if row % 2 == 0 else nisa.engine.vector
            nisa.tensor_copy(dst=target, src=taps_first[:, row], engine=engine)
        taps_first = spread
    dtype = transposed_dtype(chunk.dtype)
    pitch = count + count % 2 if itemsize(dtype) == 2 else count  # views of PSUM start at multiples of 4 bytes
    partitions = plan.problem.filters.taps.count * taps_first.shape[3]
    for piece in even_tiles(part.steps, nl.tile_size.psum_bank_fmax_bytes // (pitch * itemsize(dtype))):
        bank = nl.ndarray((partitions, piece.size, pitch), dtype=dtype, buffer=nl.psum)
        rows = 0  # maximum number of rows used by a step in this bank
        for s in range(piece.size):
            step = plan.steps[part.step + piece.start + s]
            row = step.filter_row - part.row
            column = step.filter_column
            block = taps_first[:, row : row + step.taps // tap_columns, column : column + tap_columns, :]
            tap_rows = step.taps * taps_first.shape[3]
            nisa.nc_transpose(dst=bank[0:tap_rows, s, 0:count], data=block, engine=nisa.engine.tensor)
            rows = max(rows, min(laid_out.shape[0], tap_rows))
        target = laid_out[0:rows, part.step + piece.start : part.step + piece.end, :]
        evict(dst=target, src=bank[0:rows, :, 0:count], turn=piece.index + itemsize(dtype) // 4)


def load_biases(bias, plan):
    """Return a [channels, 1] column for each tile of output channels."""
    out_tiles = plan.weights.out_tiles
    columns = sbuf_tile((out_tiles[0].size, len(out_tiles)), bias.dtype)
    are_stationary = plan.problem.filters.are_stationary
    if are_stationary and out_tiles[0].size == bias.shape[0]:
        copy_by_hardware(dst=columns, src=bias)
    else:
        for tile in out_tiles:
            if are_stationary:
                block, start = divmod(tile.start, nl.tile_size.pmax)
                source = bias[start : start + tile.size, block : block + 1]
            else:
                source = bias[tile.start : tile.end].reshape((tile.size, 1))
            copy_by_hardware(dst=columns[0 : tile.size, tile.index : tile.index + 1], src=source)
    biases = []
    for tile in out_tiles:
        biases.append(columns[0 : tile.size, tile.index : tile.index + 1])
    return biases
