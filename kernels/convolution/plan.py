"""Tile a convolution: choose the data that stays in SBUF, the size of each load, and the contents of a PSUM bank.

The module is pure arithmetic on compile-time integers; `conv2d.py` turns the plan into instructions.
`tiling/packing.py` determines which filter taps share the partition axis.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import nki.language as nl

from ..tiling.packing import ceil_div, round_up
from ..tiling.tiles import Tile, tiles
from .forms import (
    QUICKEST,
    RESERVED_BYTES,
    Form,
    input_room,
    matmul_columns,
    matrices,
    piece_of,
    rows_together,
)
from .problem import Block, Chunk, Problem, Step, bank_columns, row_pitch, steps_of
from .quickest import forms, quickest

WEIGHT_BYTES = 96 * 1024  # bytes of a partition for resident weights
STAGING_BYTES = 48 * 1024  # bytes of a partition for weights that are being rearranged
STAGING_CHUNK_BYTES = 16 * 1024
LOAD_BYTES = 16 * 1024  # bytes of a partition per load; DMA engines saturate at 4 KiB
LOAD_PIXELS_OF_TAPS = 6 * 1024  # output pixels per load if the whole filter shares the partition axis
# Images of up to this many bytes per partition are loaded whole; larger images are loaded in groups of rows.
WHOLE_IMAGE_BYTES = 4 * 1024
FILTERING_BYTES = 36 * 1024  # bytes for the original filters, and for sums before they are combined


@dataclass
class Weights:
    """The layout of filters in SBUF."""

    out_tiles: list[Tile]  # tiles of output channels, each computed in one PSUM tile
    resident_tiles: int  # number of output tiles whose weights are in SBUF at the same time
    chunks: list[Chunk]
    staged_chunks: int  # number of chunks loaded ahead of the layout step
    used_bytes: int  # bytes used per partition
    block: int  # output channels per block of packed weights


@dataclass
class Reach:
    """The layout of the input in SBUF. Adjacent SBUF rows are `row_pitch` image rows apart, and a matmul reads every
    `row_step`-th SBUF row. All columns are present."""

    row_pitch: int
    row_step: int
    rows: int  # SBUF rows and columns that a group needs in addition to those of the first tap
    columns: int
    pads_columns: bool  # True if SBUF holds the padding left and right of an image; padding rows are always in SBUF
    first_step: int  # a step that contributes to every output pixel, and must therefore come first


@dataclass
class Conv2dPlan:
    """The tiling of one convolution."""

    problem: Problem
    form: Form  # the convolution algorithm (forms.py)
    channel_tiles: list[Tile]  # tiles of input channels, each stored in one SBUF tile
    steps: list[Step]
    reach: Reach
    weights: Weights
    psum: Block  # the maximum numbers of images, rows and columns in a PSUM tile
    groups: list[Block]  # the outputs computed from each load
    # For each input tile, the distance to the next tile and the distance between their weights, in elements of a
    # partition. A distance is 0 if the two are in different tensors.
    pairs: list[tuple[int, int]] = field(default_factory=list)


def ramp(total, smallest, largest, rising, falling):
    """Return group sizes whose sum is `total`, none of which exceeds `largest`.

    If `rising`, the sizes double from `smallest`, so that computation starts early; if `falling`, they halve down to
    `smallest`, so that little remains to be stored at the end.
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


def reach_of(problem, steps, form, resident):
    """Return the layout of the input in SBUF. `resident`: whether an earlier layer left it in SBUF, with padding."""
    images, filters, movement = problem.images, problem.filters, problem.movement
    stride_columns = movement.stride[1]
    left = movement.padding[1]
    # input columns between the same tap of the first and the last output
    last = (problem.output[1] - 1) * stride_columns
    pads_columns = form is not Form.DIRECT or resident or filters.taps.columns > 1 or images.in_planes
    first_step = 0
    if not pads_columns:
        # Without padding columns, the rows of an image are contiguous in SBUF, as in HBM, and few descriptors suffice
        # to load them. A matmul then skips the output columns whose tap reads padding. At least one tap must never read
        # padding.
        pads_columns = True
        for n in range(len(steps) - 1, -1, -1):
            shift = steps[n].right - left
            if steps[n].filter_row == 0 and shift >= 0 and last + shift < images.columns:
                pads_columns = False
                first_step = n
    columns = steps[len(steps) - 1].right
    if form is not Form.DIRECT:
        columns += problem.output[1] % 2
    elif filters.taps.columns == 1 and not resident:  # load unread columns too, so that rows are contiguous in HBM
        columns += max(0, images.columns + left + movement.padding[3] - last - 1 - columns)
    pitch = row_pitch(problem)
    rows = steps[len(steps) - 1].down
    if form is Form.SQUARES:
        rows += problem.output[0] % 2
    return Reach(pitch, movement.stride[0] // pitch, rows, columns, pads_columns, first_step)


def plan_conv2d(problem, sbuf_bytes):
    """Return the plan of a convolution whose input is in HBM, using at most `sbuf_bytes` of an SBUF partition.

    Raises AssertionError if not even one output row or output channel fits in SBUF, or if the convolution does not
    support the requested form.
    """
    images, kernel = problem.images, problem.filters.kernel
    requested = [problem.form] if problem.form in forms(problem) else []
    tried = quickest(problem) if problem.form == QUICKEST else requested
    plan = next(filter(None, (_plan(problem, sbuf_bytes, form) for form in tried)), None)
    assert plan is not None, (
        f"conv2d: form {problem.form} requires 3x3 filters with stride 1, more than 42 channels (64 for squares), and "
        f"room for all filters and whole rows in SBUF; got {problem.filters.in_channels} channels of "
        f"{images.rows}x{images.columns}, filters of {kernel[0]}x{kernel[1]}"
    )
    return plan


def plan_groups(problem, block, sbuf_bytes):
    """Return the plan of a convolution whose input is in HBM and whose packed weights, in blocks of `block` output
    channels, are in SBUF. Input and output may occupy `sbuf_bytes` of a partition."""
    steps = steps_of(problem)
    return _plan(problem, sbuf_bytes, problem.form, resident_weights(problem, block, steps))


def resident_weights(problem, block, steps):
    """Return the layout of packed weights that are all in SBUF."""
    out_tiles = tiles(problem.filters.out_channels, block)
    chunks = [Chunk(0, problem.filters.kernel[0], 0, len(steps))]
    return Weights(out_tiles, len(out_tiles), chunks, 0, 0, block)


def _plan(problem, sbuf_bytes, form, weights=None):
    """Return the plan for a form, or None if the form does not fit. Minimal filtering requires all filters and whole
    rows in SBUF."""
    images, filters, movement = problem.images, problem.filters, problem.movement
    steps = steps_of(problem)
    channel_tiles = tiles(filters.in_channels, nl.tile_size.pmax)  # one tile if taps share the partition axis
    stay = weights is not None
    element_bytes = len(channel_tiles) * images.item_bytes
    if not stay:
        if form is not Form.DIRECT and element_bytes * matrices(form, len(steps)) * filters.out_channels > WEIGHT_BYTES:
            return None
        weights = _plan_weights(problem, channel_tiles, steps, form, WEIGHT_BYTES)
    reach = reach_of(problem, steps, form, False)
    row_bytes, halo_bytes = _row_bytes(problem, reach, problem.finish.pool_size, element_bytes, form)
    weight_bytes = WEIGHT_BYTES
    while not stay and weights.resident_tiles > 1 and row_bytes + halo_bytes > _free_bytes(weights, sbuf_bytes):
        weight_bytes = weight_bytes // 2  # with fewer resident output channels, there is more space for the input
        weights = _plan_weights(problem, channel_tiles, steps, form, weight_bytes)
    free = _free_bytes(weights, sbuf_bytes)
    rows = (problem.output[0] - 1) * movement.stride[0] + (filters.kernel[0] - 1) * movement.dilation[0] + 2
    columns = (problem.output[1] - 1) * movement.stride[1] + (filters.kernel[1] - 1) * movement.dilation[1] + 2
    if images.count == 1 and rows * columns * images.item_bytes <= WHOLE_IMAGE_BYTES:
        free = 2 * free
    columns = problem.output[1]
    row_bytes, halo_bytes = _row_bytes(problem, reach, columns, element_bytes, form)
    if form is not Form.DIRECT and (row_bytes + halo_bytes > free or weights.resident_tiles < len(weights.out_tiles)):
        return None
    while columns > problem.finish.pool_size and row_bytes + halo_bytes > free:
        columns = round_up(ceil_div(columns, 2), problem.finish.pool_size)
        row_bytes, halo_bytes = _row_bytes(problem, reach, columns, element_bytes, form)
    assert row_bytes + halo_bytes <= free, (
        f"conv2d: one output row needs {row_bytes + halo_bytes} bytes of a partition in addition to weights of "
        f"{weights.used_bytes} ({filters.in_channels} channels, {filters.kernel[0]}x{filters.kernel[1]}), but only "
        f"{free} are available"
    )
    unit = rows_together(form, problem.finish.pool_size)
    rows_fitting = min(problem.output[0], (free - halo_bytes) // row_bytes * unit)
    psum = psum_block(problem, columns, rows_fitting, form)
    image_bytes = row_bytes * ceil_div(problem.output[0], unit) + halo_bytes
    groups = _plan_groups(problem, reach, psum, columns, rows_fitting, max(1, free // image_bytes))
    return Conv2dPlan(
        problem=problem,
        form=form,
        channel_tiles=channel_tiles,
        steps=steps,
        reach=reach,
        weights=weights,
        psum=psum,
        groups=groups,
    )


def _free_bytes(weights, sbuf_bytes):
    """Return the bytes per partition for the input and output of a group. SBUF holds two groups, because one is loaded
    while the other is computed."""
    return (sbuf_bytes - RESERVED_BYTES - weights.used_bytes) // 2


def _plan_weights(problem, channel_tiles, steps, form, held_bytes):
    """Return a layout that keeps the weights of as many output channels in SBUF as `held_bytes` per partition allow."""
    filters = problem.filters
    channel_bytes = len(channel_tiles) * matrices(form, len(steps)) * problem.images.item_bytes
    tile_channels = nl.tile_size.pmax
    while tile_channels > 1 and tile_channels * channel_bytes > held_bytes:
        tile_channels = tile_channels // 2
    assert tile_channels * channel_bytes <= held_bytes, (
        f"conv2d: the filters of one output channel take {channel_bytes} bytes of a partition "
        f"({filters.in_channels} channels, {filters.kernel[0]}x{filters.kernel[1]}); the limit is {held_bytes}"
    )
    out_tiles = tiles(filters.out_channels, tile_channels)
    resident_tiles = min(len(out_tiles), held_bytes // (tile_channels * channel_bytes))
    if filters.are_stationary:
        chunks = [Chunk(0, filters.kernel[0], 0, len(steps))]
        chunk_bytes = len(steps) * tile_channels * problem.images.item_bytes
    else:
        chunks, chunk_bytes = _weight_chunks(problem, channel_tiles[0].size, len(steps))
    used_bytes = resident_tiles * tile_channels * channel_bytes
    if filters.are_stationary and form is Form.DIRECT:
        staged_chunks = resident_tiles * len(channel_tiles)  # loaded directly to their final position
    else:
        staged_chunks = min(4, max(1, STAGING_BYTES // chunk_bytes))
        used_bytes += (staged_chunks + 1) * chunk_bytes
    if form is not Form.DIRECT:
        used_bytes += FILTERING_BYTES
    return Weights(out_tiles, resident_tiles, chunks, staged_chunks, used_bytes, nl.tile_size.pmax)


def _weight_chunks(problem, channels, steps):
    """Return the chunks in which a tile of filters is rearranged, and the size of the largest chunk in bytes."""
    filters = problem.filters
    kernel_rows = filters.kernel[0]
    tap_rows = filters.taps.rows
    row_bytes = channels * filters.kernel[1] * problem.images.item_bytes
    chunk_rows = min(kernel_rows, tap_rows * max(1, STAGING_CHUNK_BYTES // (row_bytes * tap_rows)))
    steps_of_rows = steps // ceil_div(kernel_rows, tap_rows)
    chunks = []
    for rows in tiles(kernel_rows, chunk_rows):
        first = rows.start // tap_rows * steps_of_rows
        chunks.append(Chunk(rows.start, rows.size, first, ceil_div(rows.size, tap_rows) * steps_of_rows))
    return chunks, chunk_rows * row_bytes


def _row_bytes(problem, reach, columns, element_bytes, form):
    """Return two sizes in bytes per partition: the size of the output rows that are computed together, including their
    input, and the size of the halo rows that a filter reads."""
    pool_size = problem.finish.pool_size
    rows = rows_together(form, pool_size)
    pitch = ((columns - 1) * problem.movement.stride[1] + 1 + reach.columns) * element_bytes
    row_bytes = rows * reach.row_step * pitch * input_room(form)
    row_bytes += rows // pool_size * (columns // pool_size) * problem.images.item_bytes
    halo_room = 1 if form is Form.SQUARES else input_room(form)  # squares keep combinations of rows
    return row_bytes, max(0, reach.rows + 1 - reach.row_step) * pitch * halo_room


def psum_block(problem, columns, rows_fitting, form):
    """Return the rows and columns that fill a bank. The number of images is determined later, with the groups."""
    images, rows, wide = piece_of(
        form, problem.finish.pool_size, (problem.output[0], columns), rows_fitting, bank_columns()
    )
    return Block(0, images, 0, rows, 0, wide)


def _plan_groups(problem, reach, psum, columns, rows_fitting, images_fitting):
    """Return the outputs computed from each load: `columns` columns, and either up to `rows_fitting` rows or up to
    `images_fitting` whole images."""
    load_bytes = LOAD_BYTES
    smallest_part = nl.tile_size.pmax  # the first and last groups are as small as one PSUM tile,
    if problem.filters.taps.columns > 1:  # unless each group requires one load per tap, and each load has a fixed cost
        load_bytes = LOAD_PIXELS_OF_TAPS * problem.images.item_bytes
        smallest_part = 4
    out_rows = problem.output[0]
    out_columns = problem.output[1]
    row_bytes = ((columns - 1) * problem.movement.stride[1] + 1 + reach.columns) * problem.images.item_bytes
    image_bytes = ((out_rows - 1) * reach.row_step + 1 + reach.rows) * row_bytes
    if columns < out_columns or rows_fitting < out_rows or image_bytes > WHOLE_IMAGE_BYTES:
        psum.images = 1
        load_rows = max(1, load_bytes // (row_bytes * reach.row_step))
        largest = max(1, min(rows_fitting, load_rows) // psum.rows)
        return row_groups(problem, columns, psum.rows, ceil_div(largest, smallest_part), largest)
    fitting = min(images_fitting, load_bytes // image_bytes)
    psum.images = max(1, min(problem.images.count, min(fitting, psum.images)))
    largest = max(1, fitting // psum.images)
    groups = []
    image = 0
    for size in ramp(
        ceil_div(problem.images.count, psum.images), ceil_div(largest, smallest_part), largest, True, True
    ):
        images = min(size * psum.images, problem.images.count - image)
        groups.append(Block(image, images, 0, out_rows, 0, out_columns))
        image += images
    return groups


def row_groups(problem, columns, psum_rows, smallest, largest):
    """Return groups of rows of one image each, in blocks of `columns`; the sizes are multiples of a PSUM tile."""
    groups = []
    for image in range(problem.images.count):
        for block in tiles(problem.output[1], columns):
            rising = image == 0 and block.start == 0
            falling = image == problem.images.count - 1 and block.end == problem.output[1]
            row = 0
            for size in ramp(ceil_div(problem.output[0], psum_rows), smallest, largest, rising, falling):
                rows = min(size * psum_rows, problem.output[0] - row)
                groups.append(Block(image, 1, row, rows, block.start, block.size))
                row += rows
    return groups


def rows_of_taps(plan, t, taps):
    """Return the number of partitions that `taps` blocks of input tile `t` occupy."""
    return (taps - 1) * plan.problem.filters.taps.stride + plan.channel_tiles[t].size


def begins_pair(plan, t):
    """True if input tile `t` and the next one are the two planes of one tensor."""
    tiles_of = plan.channel_tiles
    return (
        plan.problem.images.in_planes
        and t % 2 == 0
        and t + 1 < len(tiles_of)
        and tiles_of[t].size == tiles_of[t + 1].size
    )


def has_space(plan):
    """True if there are zeroed partitions between the blocks of taps."""
    taps = plan.problem.filters.taps
    return taps.count > 1 and taps.stride > plan.channel_tiles[0].size


def input_rows(plan, group):
    """Return the number of SBUF rows of a group's input."""
    return (group.rows - 1) * plan.reach.row_step + 1 + plan.reach.rows


def input_columns(plan, group):
    """Return the input columns (first, end) in SBUF for a group. Padding is negative or beyond the width."""
    problem = plan.problem
    reach = plan.reach.columns
    if problem.filters.taps.columns == 1 and group.column + group.columns < problem.output[1]:
        reach = (problem.filters.kernel[1] - 1) * problem.movement.dilation[1]
    first = group.column * problem.movement.stride[1] - problem.movement.padding[1]
    end = first + (group.columns - 1) * problem.movement.stride[1] + 1 + reach
    if plan.reach.pads_columns:
        return first, end
    return max(0, first), min(problem.images.columns, end)


def psum_pieces(plan, group):
    """Return the pieces of a group, one per PSUM tile."""
    pieces = []
    for i in tiles(group.images, plan.psum.images):
        for r in tiles(group.rows, plan.psum.rows):
            for c in tiles(group.columns, plan.psum.columns):
                pieces.append(Block(i.start, i.size, r.start, r.size, c.start, c.size))
    return pieces


def sum_columns(plan):
    """Return the largest number of PSUM columns that any piece needs."""
    if plan.form is not Form.DIRECT:
        return nl.tile_size.psum_bank_fmax
    return plan.psum.images * plan.psum.rows * plan.psum.columns


def halve_last(pieces, plan):
    """Halve the last piece of a group repeatedly while it is large enough, which shortens the kernel's final wait."""
    unit = rows_together(plan.form, plan.problem.finish.pool_size)
    least = nl.tile_size.pmax * plan.problem.images.item_bytes // 2  # smaller pieces would wait for loads of weights
    halves = pieces[0 : len(pieces) - 1]
    last = pieces[len(pieces) - 1]
    rows = round_up(ceil_div(last.rows, 2), unit)
    while rows < last.rows and last.images * matmul_columns(plan.form, last.rows, last.columns) >= least:
        halves.append(Block(last.image, last.images, last.row, rows, last.column, last.columns))
        last = Block(last.image, last.images, last.row + rows, last.rows - rows, last.column, last.columns)
        rows = round_up(ceil_div(last.rows, 2), unit)
    halves.append(last)
    return halves
