"""How a convolution is cut up: what stays in SBUF, what is loaded at a time, what fills a PSUM bank.

Everything here is arithmetic on compile-time integers, in the Python subset of NKI kernels; `conv2d.py` turns the plan
into instructions. Which filter taps share the partition axis, `packing.py` says.
"""

from dataclasses import dataclass

import nki.language as nl

from .conv2d_problem import Block, Chunk, Problem, Step, row_pitch, steps_of
from .packing import PARTITIONS, ceil_div, round_up
from .tiles import Tile, tiles

BANK_COLUMNS = 512  # float32 results of one partition in a PSUM bank, which one matmul cannot leave
RESERVED_BYTES = 8 * 1024  # of an SBUF partition, for biases and pooling scratch
WEIGHT_BYTES = 96 * 1024  # at most this much of a partition for resident weights
STAGING_BYTES = 48 * 1024  # and this much for weights on their way from HBM layout to stationary layout
STAGING_CHUNK_BYTES = 16 * 1024
LOAD_BYTES = 16 * 1024  # a load of this much a partition uses the DMA engines fully (they saturate at 4 KiB)
LOAD_PIXELS_OF_TAPS = 6 * 1024  # output pixels of a load where the whole filter shares the partition axis
WHOLE_IMAGE_BYTES = 8 * 1024  # images up to this size a partition are loaded whole, larger ones in groups of rows
FLOAT32_WEIGHT_COLUMNS = 128  # loading float32 weights hides behind a matmul of so many columns (109 ns a pass, trn2)
PAIRED_ROW_ELEMENTS = 500  # input row, all channel tiles, up to which pairs leave room for several rows in SBUF
PAIRED_SCRATCH_BYTES = 36 * 1024  # filters before they are combined; sums on their way from PSUM to the output, twice


@dataclass
class Weights(nl.NKIObject):
    """How filters stay in SBUF."""

    out_tiles: list[Tile]  # of the output channels, one PSUM tile each
    resident_tiles: int  # how many of them have their weights in SBUF at a time
    chunks: list[Chunk]
    staged_chunks: int  # how many of these are loaded ahead of being laid out
    used_bytes: int  # of a partition
    block: int  # output channels of a block of packed weights


@dataclass
class Reach(nl.NKIObject):
    """How the input lies in SBUF. Its rows are `row_pitch` rows of the image apart, and a matmul reads every
    `row_step`-th of them; columns are all there."""

    row_pitch: int
    row_step: int
    rows: int  # rows and columns of SBUF that a group needs beyond those of its output's first tap
    columns: int
    pads_columns: bool  # whether SBUF holds the padding left and right of an image; above and below it always does
    first_step: int  # the step that contributes to every output pixel, which must come first


@dataclass
class Conv2dPlan(nl.NKIObject):
    """The constants of one convolution."""

    problem: Problem
    paired: bool  # output columns are computed in pairs, by fewer matmuls (conv2d_pairs.py)
    channel_tiles: list[Tile]  # of the input channels, one SBUF tile each
    steps: list[Step]
    reach: Reach
    weights: Weights
    psum: Block  # the most images, rows and columns that a PSUM tile holds
    groups: list[Block]  # the output of one load each


def ramp(total, smallest, largest, rising, falling):
    """Group sizes that add up to `total`, at most `largest` each.

    Where `rising`, they double from `smallest`, so that compute starts early; where `falling`, they halve down to it,
    so that little is left to store at the end.
    """
    sizes = []
    size = smallest if rising else largest
    left = total
    while left > 0:
        take = min(size, left)
        if falling:
            take = min(take, max(smallest, ceil_div(left, 2)))
        sizes.append(take)
        left -= take
        size = min(2 * size, largest)
    return sizes


def _reach(problem, steps, paired, resident):
    """Where the input of an output lies. `resident`: it stays in SBUF with its padding, from a layer before."""
    stride_columns = problem.stride[1]
    left = problem.padding[1]
    last = (problem.out_columns - 1) * stride_columns  # input columns from the first output's tap to the last one's
    pads_columns = paired or resident or problem.taps[1] > 1
    first_step = 0
    if not pads_columns:
        # Without padding columns in SBUF, images are contiguous there as in HBM and load in few descriptors; a matmul
        # then leaves out the output columns at which its tap meets only padding. One tap must meet none.
        pads_columns = True
        for n in range(len(steps) - 1, -1, -1):
            shift = steps[n].right - left
            if steps[n].filter_row == 0 and shift >= 0 and last + shift < problem.width:
                pads_columns = False
                first_step = n
    columns = steps[len(steps) - 1].right
    if paired:
        columns += problem.out_columns % 2
    elif problem.taps[1] == 1 and not resident:  # columns that nothing reads: whole rows are contiguous in HBM
        columns += max(0, problem.width + left + problem.padding[3] - last - 1 - columns)
    pitch = row_pitch(problem)
    rows = steps[len(steps) - 1].down
    return Reach(pitch, problem.stride[0] // pitch, rows, columns, pads_columns, first_step)


def pairs_columns(problem):
    """Whether to compute output columns in pairs, by the minimal filtering algorithm F(2, 3) (see conv2d_pairs.py).

    It takes four matmul columns where two output pixels of a filter row take six. That pays in float32, in which a
    matmul column takes four cycles and the additions hide behind it; not where one matmul covers several filter rows,
    nor where a PSUM tile of pairs is so small that loading weights takes the time.
    """
    stride, dilation = problem.stride, problem.dilation
    plain = max(stride) == 1 and max(dilation) == 1 and problem.kernel[0] == 3 and problem.kernel[1] == 3
    if problem.item_bytes != 4 or not plain or problem.taps[1] > 1 or problem.taps[0] == 3:
        return False
    out_rows = problem.out_rows
    out_columns = problem.out_columns
    if (out_columns + 4) * ceil_div(problem.in_channels, PARTITIONS) > PAIRED_ROW_ELEMENTS:
        return False
    pairs = ceil_div(out_columns, 2)
    rows = problem.batch * out_rows if out_rows * out_columns <= BANK_COLUMNS // 2 else out_rows
    single_rows = min(rows, BANK_COLUMNS // out_columns)
    paired_rows = min(rows, BANK_COLUMNS // pairs)
    single = 3 * max(FLOAT32_WEIGHT_COLUMNS, single_rows * out_columns) * paired_rows
    paired = 4 * max(FLOAT32_WEIGHT_COLUMNS, paired_rows * pairs) * single_rows
    return 5 * paired < 4 * single


def plan_conv2d(problem, sbuf_bytes):
    """The plan of a convolution whose input lies in HBM; `sbuf_bytes` are those of an SBUF partition it may use.

    AssertionError where even one output row or one output channel does not fit SBUF.
    """
    if pairs_columns(problem):
        plan = _plan(problem, sbuf_bytes, True)
        bank_columns = plan.psum.images * plan.psum.rows * ceil_div(problem.out_columns, 2)
        if bank_columns >= FLOAT32_WEIGHT_COLUMNS and plan.weights.resident_tiles == len(plan.weights.out_tiles):
            return plan
    return _plan(problem, sbuf_bytes, False)


def plan_groups(problem, block, sbuf_bytes):
    """The plan of a convolution whose input lies in HBM and whose packed weights, in blocks of `block` output channels,
    are in SBUF already; input and output may take `sbuf_bytes` of a partition."""
    steps = steps_of(problem)
    return _plan(problem, sbuf_bytes, False, _resident_weights(problem, block, steps))


def _resident_weights(problem, block, steps):
    """Packed weights, all of which are in SBUF."""
    out_tiles = tiles(problem.out_channels, block)
    chunks = [Chunk(0, problem.kernel[0], 0, len(steps))]
    return Weights(out_tiles, len(out_tiles), chunks, 0, 0, block)


def _plan(problem, sbuf_bytes, paired, weights=None):
    steps = steps_of(problem)
    channel_tiles = tiles(problem.in_channels, PARTITIONS)  # one where taps share the partition axis
    stay = weights is not None
    if not stay:
        weights = _plan_weights(problem, channel_tiles, steps, paired, WEIGHT_BYTES)
    reach = _reach(problem, steps, paired, False)
    element_bytes = len(channel_tiles) * problem.item_bytes
    if paired:
        element_bytes = 3 * element_bytes  # each pair of columns becomes four, beside what they come from
    row_bytes, halo_bytes = _row_bytes(problem, reach, problem.pool_size, element_bytes)
    held = WEIGHT_BYTES
    while not stay and weights.resident_tiles > 1 and row_bytes + halo_bytes > _free_bytes(weights, sbuf_bytes):
        held = held // 2  # fewer output channels at a time leave room for the input
        weights = _plan_weights(problem, channel_tiles, steps, paired, held)
    free = _free_bytes(weights, sbuf_bytes)
    rows = (problem.out_rows - 1) * problem.stride[0] + (problem.kernel[0] - 1) * problem.dilation[0] + 2
    columns = (problem.out_columns - 1) * problem.stride[1] + (problem.kernel[1] - 1) * problem.dilation[1] + 2
    if problem.batch == 1 and rows * columns * problem.item_bytes <= WHOLE_IMAGE_BYTES:
        free = 2 * free
    columns = problem.out_columns
    row_bytes, halo_bytes = _row_bytes(problem, reach, columns, element_bytes)
    while columns > problem.pool_size and row_bytes + halo_bytes > free:
        columns = round_up(ceil_div(columns, 2), problem.pool_size)
        row_bytes, halo_bytes = _row_bytes(problem, reach, columns, element_bytes)
    assert row_bytes + halo_bytes <= free, (
        f"conv2d: one output row needs {row_bytes + halo_bytes} bytes of a partition beside weights of "
        f"{weights.used_bytes} ({problem.in_channels} channels, {problem.kernel[0]}x{problem.kernel[1]}), {free} are "
        "there"
    )
    rows_fitting = min(problem.out_rows, (free - halo_bytes) // row_bytes * problem.pool_size)
    psum = _psum_block(problem, columns, rows_fitting, paired)
    image_bytes = row_bytes * problem.out_rows // problem.pool_size + halo_bytes
    groups = _plan_groups(problem, reach, psum, columns, rows_fitting, max(1, free // image_bytes))
    return Conv2dPlan(problem, paired, channel_tiles, steps, reach, weights, psum, groups)


def _free_bytes(weights, sbuf_bytes):
    """Of a partition, for input and output: two groups live at a time, one computed while the next is loaded."""
    return (sbuf_bytes - RESERVED_BYTES - weights.used_bytes) // 2


def _plan_weights(problem, channel_tiles, steps, paired, held_bytes):
    """As many output channels as fit `held_bytes` of a partition stay for the whole input."""
    matrices = len(steps)
    if paired:  # four combinations of the three taps of a filter row
        matrices = len(steps) // 3 * 4
    channel_bytes = len(channel_tiles) * matrices * problem.item_bytes
    tile_channels = PARTITIONS
    while tile_channels > 1 and tile_channels * channel_bytes > held_bytes:
        tile_channels = tile_channels // 2
    assert tile_channels * channel_bytes <= held_bytes, (
        f"conv2d: the filters of one output channel take {channel_bytes} bytes of a partition "
        f"({problem.in_channels} channels, {problem.kernel[0]}x{problem.kernel[1]}), at most {held_bytes} are allowed"
    )
    out_tiles = tiles(problem.out_channels, tile_channels)
    resident_tiles = min(len(out_tiles), held_bytes // (tile_channels * channel_bytes))
    if problem.packed:
        chunks = [Chunk(0, problem.kernel[0], 0, len(steps))]
        chunk_bytes = len(steps) * tile_channels * problem.item_bytes
    else:
        chunks, chunk_bytes = _weight_chunks(problem, channel_tiles[0].size, len(steps))
    used_bytes = resident_tiles * tile_channels * channel_bytes
    if problem.packed and not paired:
        staged_chunks = resident_tiles * len(channel_tiles)  # loaded where they stay
    else:
        staged_chunks = min(4, max(1, STAGING_BYTES // chunk_bytes))
        used_bytes += (staged_chunks + 1) * chunk_bytes
    if paired:
        used_bytes += PAIRED_SCRATCH_BYTES
    return Weights(out_tiles, resident_tiles, chunks, staged_chunks, used_bytes, PARTITIONS)


def _weight_chunks(problem, channels, steps):
    """The chunks in which a tile of filters is laid out, and the bytes of the largest."""
    kernel_rows = problem.kernel[0]
    tap_rows = problem.taps[0]
    row_bytes = channels * problem.kernel[1] * problem.item_bytes
    chunk_rows = min(kernel_rows, tap_rows * max(1, STAGING_CHUNK_BYTES // (row_bytes * tap_rows)))
    steps_of_rows = steps // ceil_div(kernel_rows, tap_rows)
    chunks = []
    for rows in tiles(kernel_rows, chunk_rows):
        first = rows.start // tap_rows * steps_of_rows
        chunks.append(Chunk(rows.start, rows.size, first, ceil_div(rows.size, tap_rows) * steps_of_rows))
    return chunks, chunk_rows * row_bytes


def _row_bytes(problem, reach, columns, element_bytes):
    """Bytes of a partition for each pooled row of input and output, and for the rows beyond that a filter reaches."""
    pool_size = problem.pool_size
    pitch = ((columns - 1) * problem.stride[1] + 1 + reach.columns) * element_bytes
    row_bytes = pool_size * reach.row_step * pitch + columns // pool_size * problem.item_bytes
    return row_bytes, max(0, reach.rows + 1 - reach.row_step) * pitch


def _psum_block(problem, columns, rows_fitting, paired):
    """Rows and columns that fill a bank, evenly cut; images are found with the groups."""
    pool_size = problem.pool_size
    bank_pixels = 2 * BANK_COLUMNS if paired else BANK_COLUMNS
    psum_columns = round_up(ceil_div(columns, ceil_div(columns, bank_pixels // pool_size)), pool_size)
    bank_columns = ceil_div(psum_columns, 2) if paired else psum_columns
    psum_rows = min(rows_fitting, BANK_COLUMNS // (bank_columns * pool_size) * pool_size)
    psum_rows = round_up(ceil_div(problem.out_rows, ceil_div(problem.out_rows, psum_rows)), pool_size)
    images = BANK_COLUMNS // (problem.out_rows * bank_columns)  # 0 where an image does not fit a bank
    return Block(0, images, 0, psum_rows, 0, psum_columns)


def _plan_groups(problem, reach, psum, columns, rows_fitting, images_fitting):
    """The outputs of each load, `columns` and up to `rows_fitting` rows or `images_fitting` whole images at a time."""
    load_bytes = LOAD_BYTES
    smallest_part = PARTITIONS  # the first and last groups are small, down to one PSUM tile,
    if problem.taps[1] > 1:  # but not where a group takes a load for each tap, with its time to issue
        load_bytes = LOAD_PIXELS_OF_TAPS * problem.item_bytes
        smallest_part = 4
    out_rows = problem.out_rows
    out_columns = problem.out_columns
    row_bytes = ((columns - 1) * problem.stride[1] + 1 + reach.columns) * problem.item_bytes
    image_bytes = ((out_rows - 1) * reach.row_step + 1 + reach.rows) * row_bytes
    if columns < out_columns or rows_fitting < out_rows or image_bytes > WHOLE_IMAGE_BYTES:
        psum.images = 1
        load_rows = max(1, load_bytes // (row_bytes * reach.row_step))
        largest = max(1, min(rows_fitting, load_rows) // psum.rows)
        return _row_groups(problem, columns, psum.rows, ceil_div(largest, smallest_part), largest)
    fitting = min(images_fitting, load_bytes // image_bytes)
    psum.images = max(1, min(problem.batch, min(fitting, psum.images)))
    largest = max(1, fitting // psum.images)
    groups = []
    image = 0
    for size in ramp(ceil_div(problem.batch, psum.images), ceil_div(largest, smallest_part), largest, True, True):
        images = min(size * psum.images, problem.batch - image)
        groups.append(Block(image, images, 0, out_rows, 0, out_columns))
        image += images
    return groups


def _row_groups(problem, columns, psum_rows, smallest, largest):
    """Groups of rows of one image each, in blocks of `columns`; sizes are in PSUM tiles."""
    groups = []
    for image in range(problem.batch):
        for block in tiles(problem.out_columns, columns):
            rising = image == 0 and block.start == 0
            falling = image == problem.batch - 1 and block.end == problem.out_columns
            row = 0
            for size in ramp(ceil_div(problem.out_rows, psum_rows), smallest, largest, rising, falling):
                rows = min(size * psum_rows, problem.out_rows - row)
                groups.append(Block(image, 1, row, rows, block.start, block.size))
                row += rows
    return groups


def plan_resident(problem, block, channels, keeps_rows):
    """The plan of a convolution whose input and packed weights lie in SBUF, the input with its padding.

    `block`: output channels of a tile. `channels`: of each input tile. `keeps_rows`: the input has all its rows, as the
    layer before gave them, also those that no tap reads.
    """
    steps = steps_of(problem)
    channel_tiles: list[Tile] = []
    start = 0
    for size in channels:
        channel_tiles.append(Tile(len(channel_tiles), start, size, start + size))
        start += size
    weights = _resident_weights(problem, block, steps)
    psum = _psum_block(problem, problem.out_columns, problem.out_rows, False)
    psum.images = max(1, min(problem.batch, psum.images))
    group = Block(0, problem.batch, 0, problem.out_rows, 0, problem.out_columns)
    reach = _reach(problem, steps, False, True)
    if keeps_rows:
        reach.row_pitch, reach.row_step = 1, problem.stride[0]
    return Conv2dPlan(problem, False, channel_tiles, steps, reach, weights, psum, [group])


def rows_of_taps(plan, t, taps):
    """Partitions that `taps` blocks of input tile `t` take."""
    return (taps - 1) * plan.problem.taps[2] + plan.channel_tiles[t].size


def has_space(plan):
    """Whether there are partitions of zeros between the blocks of taps."""
    taps = plan.problem.taps
    return taps[0] * taps[1] > 1 and taps[2] > plan.channel_tiles[0].size


def input_rows(plan, group):
    """Rows of SBUF that a group's input takes."""
    return (group.rows - 1) * plan.reach.row_step + 1 + plan.reach.rows


def input_columns(plan, group):
    """(first, end) input columns that SBUF holds for a group; negative or beyond the width where that is padding."""
    problem = plan.problem
    reach = plan.reach.columns
    if problem.taps[1] == 1 and group.column + group.columns < problem.out_columns:
        reach = (problem.kernel[1] - 1) * problem.dilation[1]
    first = group.column * problem.stride[1] - problem.padding[1]
    end = first + (group.columns - 1) * problem.stride[1] + 1 + reach
    if plan.reach.pads_columns:
        return first, end
    return max(0, first), min(problem.width, end)


def psum_pieces(plan, group):
    """The part of a group in each PSUM tile that it fills."""
    pieces = []
    for i in tiles(group.images, plan.psum.images):
        for r in tiles(group.rows, plan.psum.rows):
            for c in tiles(group.columns, plan.psum.columns):
                pieces.append(Block(i.start, i.size, r.start, r.size, c.start, c.size))
    return pieces
