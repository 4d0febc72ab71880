"""How a convolution is cut up: what shares the partition axis, what stays in SBUF, what fills a PSUM bank.

Everything here is arithmetic on compile-time integers, in the Python subset of NKI kernels. `conv2d.py` turns the plan
into instructions.

The partition axis holds the contraction. Where there are fewer than 128 input channels, neighbouring filter taps share
it: a partition block holds the channels shifted by one tap, so that one matmul contracts over several taps. Where the
whole filter shares it, its blocks are spread over all partitions, with zeros between them: a DMA engine serves eight
partitions (nki-dma-overview), so that blocks side by side would load through a few of the sixteen.
"""

from dataclasses import dataclass

import nki.language as nl

PARTITIONS = 128  # SBUF and PSUM partitions, rows and columns of the Tensor Engine
BANK_COLUMNS = 512  # float32 results of one partition in a PSUM bank, which one matmul cannot leave
BANK_BYTES = 2048
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
class Conv2dPlan(nl.NKIObject):
    """The constants of one convolution. Rows and columns of the output are counted before pooling.

    Items of the lists: `channel_tiles` (first input channel, channels), one SBUF tile of input each. `out_tiles` (first
    output channel, channels), one PSUM tile each. `steps` (row, column, taps): a matmul reads its input that far down
    and right and contracts over so many taps. `weight_chunks` (first filter row, rows, first step, steps), the pieces
    in which weights are laid out. `groups` (image, images, row, rows, column, columns), the output of one load.
    """

    kernel_size: int
    padding: int
    pool_size: int
    out_rows: int  # without the odd last row and column that pooling drops
    out_columns: int
    paired: bool  # output columns are computed in pairs, by fewer matmuls (conv2d_pairs.py)
    tap_rows: int  # filter rows and columns that share the partition axis
    tap_columns: int
    block_stride: int  # partitions from the block of one tap to that of the next
    channel_tiles: list[tuple[int, int]]
    steps: list[tuple[int, int, int]]
    first_step: int  # the step that contributes to every output pixel, which must come first
    pads_columns: bool  # whether SBUF holds the padding left and right of an image; above and below it always does
    reach_rows: int  # the input rows and columns that a group needs beyond its output's
    reach_columns: int
    out_tiles: list[tuple[int, int]]
    resident_tiles: int  # how many of out_tiles have their weights in SBUF at a time
    weight_chunks: list[tuple[int, int, int, int]]
    staged_chunks: int  # how many of these are loaded ahead of being laid out
    psum_images: int  # a PSUM tile holds so many images, rows and columns
    psum_rows: int
    psum_columns: int
    groups: list[tuple[int, int, int, int, int, int]]


def ceil_divide(a, b):
    return -(-a // b)


def round_up(a, b):
    return ceil_divide(a, b) * b


def ranges(total, size):
    """(start, count) pieces of at most `size` that cover `total`."""
    pieces = []
    for start in range(0, total, size):
        pieces.append((start, min(size, total - start)))
    return pieces


def taps_in_partitions(in_channels, kernel_size):
    """(filter rows, filter columns) that share the partition axis: the whole filter, some of its rows, or one tap."""
    if in_channels * kernel_size * kernel_size <= PARTITIONS:
        return kernel_size, kernel_size
    fitting = min(kernel_size, max(1, PARTITIONS // in_channels))
    return ceil_divide(kernel_size, ceil_divide(kernel_size, fitting)), 1


def tap_block_stride(in_channels, tap_rows, tap_columns):
    """Partitions from the block of one tap to that of the next."""
    if tap_columns > 1:
        return PARTITIONS // (tap_rows * tap_columns)
    return in_channels


def contraction_steps(kernel_size, tap_rows, tap_columns):
    """(row, column, taps) of each matmul that a filter takes for one tile of input channels."""
    steps = []
    for row in range(0, kernel_size, tap_rows):
        for column in range(0, kernel_size, tap_columns):
            steps.append((row, column, min(tap_rows, kernel_size - row) * tap_columns))
    return steps


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
            take = min(take, max(smallest, ceil_divide(left, 2)))
        sizes.append(take)
        left -= take
        size = min(2 * size, largest)
    return sizes


def pairs_columns(batch, in_channels, out_rows, out_columns, kernel_size, item_bytes):
    """Whether to compute output columns in pairs, by the minimal filtering algorithm F(2, 3) (see conv2d_pairs.py).

    It takes four matmul columns where two output pixels of a filter row take six. That pays in float32, in which a
    matmul column takes four cycles and the additions hide behind it; not where one matmul covers several filter rows,
    nor where a PSUM tile of pairs is so small that loading weights takes the time.
    """
    tap_rows, tap_columns = taps_in_partitions(in_channels, kernel_size)
    if item_bytes != 4 or kernel_size != 3 or tap_columns > 1 or tap_rows == 3:
        return False
    if (out_columns + 4) * ceil_divide(in_channels, PARTITIONS) > PAIRED_ROW_ELEMENTS:
        return False
    pairs = ceil_divide(out_columns, 2)
    rows = batch * out_rows if out_rows * out_columns <= BANK_COLUMNS // 2 else out_rows
    single_rows = min(rows, BANK_COLUMNS // out_columns)
    paired_rows = min(rows, BANK_COLUMNS // pairs)
    single = 3 * max(FLOAT32_WEIGHT_COLUMNS, single_rows * out_columns) * paired_rows
    paired = 4 * max(FLOAT32_WEIGHT_COLUMNS, paired_rows * pairs) * single_rows
    return 5 * paired < 4 * single


def plan_conv2d(
    batch, in_channels, height, width, out_channels, kernel_size, pool_size, padding, item_bytes, packed, sbuf_bytes
):
    """The plan of a convolution of [batch, in_channels, height, width] with stride 1.

    `packed` says that weights come in stationary layout, `sbuf_bytes` is the size of an SBUF partition. AssertionError
    where even one output row or one output channel does not fit SBUF.
    """
    out_rows = (height + 2 * padding - kernel_size + 1) // pool_size * pool_size
    out_columns = (width + 2 * padding - kernel_size + 1) // pool_size * pool_size
    if pairs_columns(batch, in_channels, out_rows, out_columns, kernel_size, item_bytes):
        plan = _plan(
            batch,
            in_channels,
            width,
            out_channels,
            kernel_size,
            pool_size,
            padding,
            item_bytes,
            packed,
            sbuf_bytes,
            out_rows,
            out_columns,
            True,
        )
        bank_columns = plan.psum_images * plan.psum_rows * ceil_divide(out_columns, 2)
        if bank_columns >= FLOAT32_WEIGHT_COLUMNS and plan.resident_tiles == len(plan.out_tiles):
            return plan
    return _plan(
        batch,
        in_channels,
        width,
        out_channels,
        kernel_size,
        pool_size,
        padding,
        item_bytes,
        packed,
        sbuf_bytes,
        out_rows,
        out_columns,
        False,
    )


def _plan(
    batch,
    in_channels,
    width,
    out_channels,
    kernel_size,
    pool_size,
    padding,
    item_bytes,
    packed,
    sbuf_bytes,
    out_rows,
    out_columns,
    paired,
):
    tap_rows, tap_columns = taps_in_partitions(in_channels, kernel_size)
    channel_tiles = ranges(in_channels, PARTITIONS)  # one where taps share the partition axis
    steps = contraction_steps(kernel_size, tap_rows, tap_columns)
    # Without padding columns in SBUF, images are contiguous there as in HBM and load in few descriptors; a matmul then
    # leaves out the output columns at which its tap meets only padding. The tap in column `padding` meets none.
    pads_columns = paired or tap_columns > 1 or 2 * padding > kernel_size - 1
    first_step = 0 if pads_columns else padding

    # Weights: as many output channels as fit stay for the whole input.
    matrices = len(steps)
    if paired:  # four combinations of the three taps of a filter row
        matrices = len(steps) // 3 * 4
    channel_bytes = len(channel_tiles) * matrices * item_bytes
    tile_channels = PARTITIONS
    while tile_channels > 1 and tile_channels * channel_bytes > WEIGHT_BYTES:
        tile_channels = tile_channels // 2
    assert tile_channels * channel_bytes <= WEIGHT_BYTES, (
        f"conv2d: the filters of one output channel take {channel_bytes} bytes of a partition "
        f"({in_channels} channels, {kernel_size}x{kernel_size}), at most {WEIGHT_BYTES} are allowed"
    )
    out_tiles = ranges(out_channels, tile_channels)
    resident_tiles = min(len(out_tiles), WEIGHT_BYTES // (tile_channels * channel_bytes))
    if packed:
        weight_chunks = [(0, kernel_size, 0, len(steps))]
        chunk_bytes = len(steps) * tile_channels * item_bytes
    else:
        weight_chunks, chunk_bytes = _weight_chunks(channel_tiles[0][1], kernel_size, tap_rows, len(steps), item_bytes)
    used_bytes = resident_tiles * tile_channels * channel_bytes
    if packed and not paired:
        staged_chunks = resident_tiles * len(channel_tiles)  # loaded where they stay
    else:
        staged_chunks = min(4, max(1, STAGING_BYTES // chunk_bytes))
        used_bytes += (staged_chunks + 1) * chunk_bytes
    if paired:
        used_bytes += PAIRED_SCRATCH_BYTES

    # Input and output: two groups live at a time, one computed while the next is loaded; a single small image is alone.
    free = (sbuf_bytes - RESERVED_BYTES - used_bytes) // 2
    if batch == 1 and (out_rows + kernel_size) * (out_columns + kernel_size) * item_bytes <= WHOLE_IMAGE_BYTES:
        free = 2 * free
    element_bytes = len(channel_tiles) * item_bytes
    reach_rows = steps[-1][0]
    reach_columns = steps[-1][1]
    if paired:
        element_bytes = 3 * element_bytes  # each pair of columns becomes four, beside what they come from
        reach_columns += out_columns % 2
    elif tap_columns == 1:  # load the column that pooling drops too: whole rows are contiguous in HBM
        reach_columns += (width + 2 * padding - kernel_size + 1) % pool_size
    columns = out_columns
    row_bytes, halo_bytes = _row_bytes(columns, reach_rows, reach_columns, pool_size, element_bytes, item_bytes)
    while columns > pool_size and row_bytes + halo_bytes > free:
        columns = round_up(ceil_divide(columns, 2), pool_size)
        row_bytes, halo_bytes = _row_bytes(columns, reach_rows, reach_columns, pool_size, element_bytes, item_bytes)
    assert row_bytes + halo_bytes <= free, (
        f"conv2d: one output row needs {row_bytes + halo_bytes} bytes of a partition beside weights of {used_bytes} "
        f"({in_channels} channels, {kernel_size}x{kernel_size}), {free} are there"
    )
    rows_fitting = min(out_rows, (free - halo_bytes) // row_bytes * pool_size)
    bank_pixels = 2 * BANK_COLUMNS if paired else BANK_COLUMNS
    psum_columns = round_up(ceil_divide(columns, ceil_divide(columns, bank_pixels // pool_size)), pool_size)
    bank_columns = ceil_divide(psum_columns, 2) if paired else psum_columns
    psum_rows = min(rows_fitting, BANK_COLUMNS // (bank_columns * pool_size) * pool_size)
    psum_rows = round_up(ceil_divide(out_rows, ceil_divide(out_rows, psum_rows)), pool_size)

    load_bytes = LOAD_BYTES
    smallest_part = PARTITIONS  # the first and last groups are small, down to one PSUM tile,
    if tap_columns > 1:  # but not where a group takes a load for each tap, with its time to issue
        load_bytes = LOAD_PIXELS_OF_TAPS * item_bytes
        smallest_part = 4
    image_bytes = (out_rows + reach_rows) * (out_columns + reach_columns) * item_bytes
    whole = columns == out_columns and rows_fitting == out_rows and image_bytes <= WHOLE_IMAGE_BYTES
    psum_images = 1
    groups = []
    if whole:
        fitting = min(free // (row_bytes * out_rows // pool_size + halo_bytes), load_bytes // image_bytes)
        psum_images = max(1, min(batch, fitting, BANK_COLUMNS // (out_rows * bank_columns)))
        largest = max(1, fitting // psum_images)
        smallest = ceil_divide(largest, smallest_part)
        image = 0
        for size in ramp(ceil_divide(batch, psum_images), smallest, largest, True, True):
            images = min(size * psum_images, batch - image)
            groups.append((image, images, 0, out_rows, 0, out_columns))
            image += images
    else:
        load_rows = max(1, load_bytes // ((columns + reach_columns) * item_bytes))
        largest = max(1, min(rows_fitting, load_rows) // psum_rows)
        smallest = ceil_divide(largest, smallest_part)
        groups = _row_groups(batch, out_rows, out_columns, columns, psum_rows, smallest, largest)
    return Conv2dPlan(
        kernel_size,
        padding,
        pool_size,
        out_rows,
        out_columns,
        paired,
        tap_rows,
        tap_columns,
        tap_block_stride(in_channels, tap_rows, tap_columns),
        channel_tiles,
        steps,
        first_step,
        pads_columns,
        reach_rows,
        reach_columns,
        out_tiles,
        resident_tiles,
        weight_chunks,
        staged_chunks,
        psum_images,
        psum_rows,
        psum_columns,
        groups,
    )


def _weight_chunks(channels, kernel_size, tap_rows, steps, item_bytes):
    """(first filter row, rows, first step, steps) pieces in which a tile of weights is laid out, and their bytes."""
    row_bytes = channels * kernel_size * item_bytes
    chunk_rows = min(kernel_size, tap_rows * max(1, STAGING_CHUNK_BYTES // (row_bytes * tap_rows)))
    steps_of_rows = steps // ceil_divide(kernel_size, tap_rows)
    chunks = []
    for piece in ranges(kernel_size, chunk_rows):
        row, rows = piece
        chunks.append((row, rows, row // tap_rows * steps_of_rows, ceil_divide(rows, tap_rows) * steps_of_rows))
    return chunks, chunk_rows * row_bytes


def _row_groups(batch, out_rows, out_columns, columns, psum_rows, smallest, largest):
    """Groups of rows of one image each, in blocks of `columns`; sizes are in PSUM tiles."""
    groups = []
    blocks = ranges(out_columns, columns)
    for image in range(batch):
        for block in blocks:
            column, count = block
            rising = image == 0 and column == 0
            falling = image == batch - 1 and column + count == out_columns
            row = 0
            for size in ramp(ceil_divide(out_rows, psum_rows), smallest, largest, rising, falling):
                rows = min(size * psum_rows, out_rows - row)
                groups.append((image, 1, row, rows, column, count))
                row += rows
    return groups


def _row_bytes(columns, reach_rows, reach_columns, pool_size, element_bytes, item_bytes):
    """Bytes of a partition for each pooled row of input and output, and for the rows that the filter reaches below."""
    pitch = (columns + reach_columns) * element_bytes
    return pool_size * pitch + columns // pool_size * item_bytes, reach_rows * pitch


def rows_of_taps(plan, t, taps):
    """Partitions that `taps` blocks of input tile `t` take."""
    return (taps - 1) * plan.block_stride + plan.channel_tiles[t][1]


def input_columns(plan, group, width):
    """(first, end) input columns that SBUF holds for a group; negative or beyond `width` where that is padding."""
    column, columns = group[4], group[5]
    reach = plan.reach_columns
    if plan.tap_columns == 1 and column + columns < plan.out_columns:
        reach = plan.kernel_size - 1
    first = column - plan.padding
    end = first + columns + reach
    if plan.pads_columns:
        return first, end
    return max(0, first), min(width, end)


def psum_pieces(plan, group):
    """(image, images, row, rows, column, columns) within a group for each PSUM tile that it fills."""
    images, rows, columns = group[1], group[3], group[5]
    pieces = []
    for i in ranges(images, plan.psum_images):
        for r in ranges(rows, plan.psum_rows):
            for c in ranges(columns, plan.psum_columns):
                pieces.append((i[0], i[1], r[0], r[1], c[0], c[1]))
    return pieces
