"""Load the input of a convolution into SBUF in groups of rows or images. The next group is prefetched.

load(group 0)
for group:
    for out_tile:
        before the last out_tile: load(group + 1), copying on chip the rows that both groups need
        ...
"""

from dataclasses import dataclass, field

import nki.isa as nisa
import nki.language as nl

from ..tiling.packing import ceil_div
from ..tiling.tiles import copy_by_hardware, sbuf_tile
from .forms import Form
from .pairs import pair_inputs
from .plan import Conv2dPlan, begins_pair, has_space, input_columns, input_rows, rows_of_taps
from .squares import square_inputs

ZEROED_TILES = 4  # one tile is being multiplied, two are loaded, and one waits for its loads


@dataclass
class InputStream:
    """The groups of an input [B, Cin, H, W] that are streamed from HBM through SBUF, or an input that is already in
    SBUF."""

    x: nl.NkiTensor | None
    plan: Conv2dPlan
    resident: list[nl.NkiTensor]  # tiles of an input in SBUF, including padding
    # zeroed buffers for tiles that have gaps between the blocks of taps, used in rotation
    zeroed: list[nl.NkiTensor] = field(default_factory=list)
    # the current group, with one tile for each tile of input channels
    loaded: list[nl.NkiTensor] = field(default_factory=list)
    tiles: list[nl.NkiTensor] = field(default_factory=list)  # the current group in the form that matmuls read
    next_loaded: list[nl.NkiTensor] = field(default_factory=list)
    next_tiles: list[nl.NkiTensor] = field(default_factory=list)
    second: nl.NkiTensor | None = None  # the second half of the tensor that was allocated for the last tile


def open_inputs(x, plan, resident=()):
    """Return a stream for x or, if given, for the `resident` tiles.

    Call `load_first` for each tile of the first group.
    """
    return InputStream(x, plan, resident)


def load_first(stream, t):
    """Load input tile `t` of the first group."""
    stream.loaded.append(_load_tile(stream, 0, t))


def load_input(x, plan):
    """Load an input that consists of a single group, and return its tiles."""
    stream = open_inputs(x, plan)
    for t in range(len(plan.channel_tiles)):
        load_first(stream, t)
    return stream.loaded


def start_inputs(stream, zeroed):
    """Prepare the first group for its matmuls once it is loaded. `zeroed`: the buffers returned by `zeroed_inputs`."""
    stream.zeroed = zeroed
    stream.tiles = _as_multiplied(stream.plan, stream.loaded)


def look_ahead(stream, index, tile, out_tiles):
    """Load and combine the next group before the remaining matmuls of this group are issued."""
    if index == len(stream.plan.groups) - 1:
        return
    if tile == (out_tiles - 1 if stream.plan.form is Form.DIRECT else 0):
        loaded = []
        for t in range(len(stream.plan.channel_tiles)):
            loaded.append(_load_tile(stream, index + 1, t))
        stream.next_loaded = loaded
    if tile == out_tiles - 1:
        stream.next_tiles = _as_multiplied(stream.plan, stream.next_loaded)


def advance(stream, index):
    """Advance to the group after `index`."""
    if index == len(stream.plan.groups) - 1:
        return
    stream.loaded = stream.next_loaded
    stream.tiles = stream.next_tiles


def _as_multiplied(plan, loaded):
    """Return loaded input tiles in the form that matmuls read."""
    if plan.form is Form.DIRECT:
        return loaded
    combined = []
    for tile in loaded:
        combined.append(pair_inputs(tile, plan) if plan.form is Form.PAIRS else square_inputs(tile))
    return combined


def zeroed_inputs(x, plan):
    """Allocate zeroed tiles of the size of the largest group.

    All groups except the first reuse them in rotation, since the gaps between the blocks of taps stay zero.
    """
    tiles: list[nl.NkiTensor] = []
    if not has_space(plan):
        return tiles
    images = 1
    rows = 1
    columns = 1
    for group in plan.groups:
        images = max(images, group.images)
        rows = max(rows, input_rows(plan, group))
        first, end = input_columns(plan, group)
        columns = max(columns, end - first)
    partitions = rows_of_taps(plan, 0, plan.problem.filters.taps.rows * plan.problem.filters.taps.columns)
    half = columns // 2
    for _ in range(min(ZEROED_TILES, len(plan.groups) - 1)):
        tile = nl.ndarray((partitions, images, rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        if half > 0:
            nisa.memset(dst=tile[:, :, :, 0:half], value=0.0, engine=nisa.engine.gpsimd)
        nisa.memset(dst=tile[:, :, :, half:columns], value=0.0, engine=nisa.engine.vector)
        tiles.append(tile)
    return tiles


def _load_tile(stream, index, t):
    """Load input tile `t` of a group and return it as [taps and channels, images, rows, columns], with zero padding.

    Rows that the previous group also contains are copied from the corresponding tile of that group.
    """
    x = stream.x
    plan = stream.plan
    problem = plan.problem
    group = plan.groups[index]
    tile_rows = input_rows(plan, group)
    left, right = input_columns(plan, group)
    tile_columns = right - left
    if x is None:
        rows = stream.resident[t][:, group.image : group.image + group.images]
        first = group.row * plan.reach.row_step
        return rows[:, :, first : first + tile_rows]
    reused = has_space(plan) and index > 0
    if reused:
        tile = stream.zeroed[index % len(stream.zeroed)][:, 0 : group.images, 0:tile_rows, 0:tile_columns]
    else:
        partitions = rows_of_taps(plan, t, problem.filters.taps.count)
        tile = _new_tile(stream, t, (partitions, group.images, tile_rows, tile_columns))
    rows_kept = 0
    if group.row > 0:
        rows_kept = max(0, plan.reach.rows + 1 - plan.reach.row_step)
    if rows_kept > 0:
        rows_before = plan.groups[index - 1].rows * plan.reach.row_step
        nisa.tensor_copy(
            dst=tile[:, :, 0:rows_kept, :],
            src=stream.loaded[t][:, :, rows_before : rows_before + rows_kept, :],
            engine=nisa.engine.gpsimd,
        )
    top = group.row * problem.movement.stride[0] - problem.movement.padding[0]
    if has_space(plan) and not reused:
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.vector)
    else:
        _zero_border(tile, rows_kept, plan, top, left)
    channels = plan.channel_tiles[t]
    source = x[group.image : group.image + group.images, channels.start : channels.end]
    _load_taps(tile, source, plan, rows_kept, (top, left))
    return tile


def _new_tile(stream, t, shape):
    """Allocate input tile `t` of a group. Two tiles that form the planes of one matmul share a tensor."""
    plan = stream.plan
    if t > 0 and begins_pair(plan, t - 1):
        return stream.second
    if not begins_pair(plan, t):
        return sbuf_tile(shape, stream.x.dtype)
    partitions, images, rows, columns = shape
    both = nl.ndarray((partitions, images, rows, 2, columns), dtype=stream.x.dtype, buffer=nl.sbuf)
    stream.second = both[:, :, :, 1]
    return both[:, :, :, 0]


def _load_taps(tile, images, plan, kept, first):
    """Load the rows starting at row `kept` for each tap that has a block of partitions.

    images: [images, channels, H, W] in HBM. first: the image row and column of the tile's first element.
    """
    top, left = first
    problem = plan.problem
    pitch = plan.reach.row_pitch
    # With one DMA per tap, generating the descriptors takes longer than moving the data. This would delay the weights
    # in the launch of a network, so the runtime prepares these descriptors in advance.
    many = problem.filters.come_from_network and problem.filters.taps.count > 1 and len(plan.groups) > 1
    for i in range(problem.filters.taps.rows):
        # image row: element (r, c) reads image row `row + r * pitch`, column `column + c`
        row = top + i * problem.movement.dilation[0]
        first_row = max(kept, ceil_div(max(0, -row), pitch))
        end_row = min(tile.shape[2], ceil_div(max(0, problem.images.rows - row), pitch))
        for j in range(problem.filters.taps.columns):
            column = left + j * problem.movement.dilation[1]
            first_column = max(0, -column)
            end_column = min(tile.shape[3], problem.images.columns - column)
            block = (i * problem.filters.taps.columns + j) * problem.filters.taps.stride
            if first_row < end_row and first_column < end_column:
                target = tile[block : block + images.shape[1], :, first_row:end_row, first_column:end_column]
                source = images[
                    :,
                    :,
                    row + first_row * pitch : row + (end_row - 1) * pitch + 1 : pitch,
                    column + first_column : column + end_column,
                ].permute((1, 0, 2, 3))
                if many:
                    nisa.dma_copy(dst=target, src=source, dge_mode=nisa.dge_mode.none)
                else:
                    copy_by_hardware(dst=target, src=source)


def _zero_border(tile, kept, plan, top, left):
    """Set to zero the padding that any tap reads, in a tile whose first `kept` rows are already present."""
    problem = plan.problem
    pitch = plan.reach.row_pitch
    rows, columns = tile.shape[2], tile.shape[3]
    below = problem.images.rows - top - (problem.filters.taps.rows - 1) * problem.movement.dilation[0]
    right = problem.images.columns - left - (problem.filters.taps.columns - 1) * problem.movement.dilation[1]
    first = min(rows, max(kept, ceil_div(max(0, -top), pitch)))
    end = max(first, min(rows, ceil_div(max(0, below), pitch)))
    start = min(columns, max(0, -left))
    stop = max(start, min(columns, right))
    if kept < first:
        nisa.memset(dst=tile[:, :, kept:first, :], value=0.0, engine=nisa.engine.gpsimd)
    if end < rows:
        nisa.memset(dst=tile[:, :, end:rows, :], value=0.0, engine=nisa.engine.gpsimd)
    if first < end and start > 0:
        nisa.memset(dst=tile[:, :, first:end, 0:start], value=0.0, engine=nisa.engine.gpsimd)
    if first < end and stop < columns:
        nisa.memset(dst=tile[:, :, first:end, stop:columns], value=0.0, engine=nisa.engine.gpsimd)
