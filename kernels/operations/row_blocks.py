"""A depthwise convolution in groups of rows: each matrix covers several rows of a few channels
(convolution/row_blocks.py).

for tile of 64 or 32 channels:
    grouped = rows of a group stacked along the partitions                     # copies, one tile ahead
    sums = a matmul for each step of groups and each filter column             # convolve_tile
    result = rows of each group, adjacent again                                # copies

| tile | shape | bounds |
|---|---|---|
| grouped | [(row of a group, channel), images, groups, columns] | 2 rows of 64 channels, or 4 of 32 |
| sums, result | like grouped, for the output rows | a PSUM bank |
"""

from dataclasses import replace

import nki.isa as nisa

from ..convolution.plan import sum_columns
from ..convolution.problem import Movement, Problem
from ..convolution.resident import plan_resident
from ..convolution.row_blocks import on_row_blocks
from ..convolution.sums import Epilogue, OutputTile, convolve_tile
from ..program import Convolution, WriteRegion
from ..tiling.packing import tile_sizes
from ..tiling.tiles import PARTITIONS, itemsize, sbuf_tile
from .launch import stream_of
from .problems import filters_of, finish_of, images_of
from .value import copy_down

GPSIMD_TURN = 4  # GpSimd makes every fourth copy, since it is about four times slower


def convolve_row_blocks(launch, number, operation: Convolution, operands):
    """Run a depthwise convolution in a form that computes groups of rows."""
    (value,) = operands
    geometry = operation.row_blocks(PARTITIONS)
    blocks = geometry.blocks(value.heights)
    heights = [PARTITIONS] * len(blocks)
    grouped = on_row_blocks(operation, len(blocks), PARTITIONS)
    in_groups = replace(value, channels=grouped.channels, rows=geometry.in_groups)
    problem = Problem(
        images_of(in_groups, itemsize(launch.dtype)),
        filters_of(grouped, in_groups, grouped.channels),
        Movement(grouped.stride, grouped.dilation, grouped.padding),
        finish_of(grouped),
        output=(grouped.rows, grouped.columns),
    )
    plan = plan_resident(problem, PARTITIONS, heights, keeps_rows=True, combined_bytes=0)
    weights = launch.weights_of(grouped, plan)
    output = launch.output_of(operation, tile_sizes(operation.channels, PARTITIONS))
    region = operation.into or WriteRegion(buffer=number)
    tiles = []
    warm = launch.warm_bank(number, PARTITIONS, sum_columns(plan))
    for index in range(len(blocks) + 1):
        if index < len(blocks):
            tiles.append(_gather(launch, value, operation, geometry, blocks[index]))
        if index > 0:
            block = blocks[index - 1]
            shape = (PARTITIONS, value.images, geometry.out_groups, operation.columns)
            result = sbuf_tile(shape, launch.dtype, name=launch.label(operation))
            stream = stream_of(weights, plan, block.index, ())
            epilogue = Epilogue(launch.constants(PARTITIONS, operation.bias + block.index))
            convolve_tile(OutputTile(result, plan.groups[0]), [tiles[block.index]], stream, epilogue, warm)
            warm = None
            _scatter(output, region, result, operation, geometry, block)
    copy_down(operation.copies, output)
    return output


def _gather(launch, value, operation, geometry, block):
    """Return the channels of a block with their rows in groups, [rows of a group and channels, images, groups,
    columns]."""
    data = value.inside(block.tile, operation.padding)[block.first : block.first + block.size]
    shape = (PARTITIONS, value.images, geometry.in_groups, data.shape[3])
    tile = sbuf_tile(shape, launch.dtype, name=launch.label(operation))
    if block.size < geometry.channels:  # the taps of missing channels are zero, but the operand must not be NaN
        nisa.memset(dst=tile, value=0.0, engine=nisa.engine.gpsimd)
    for row in range(geometry.rows):
        first = row * geometry.channels
        count = min(geometry.in_groups, geometry.rows_in_place(row, data.shape[2]))
        if count > 0:
            nisa.tensor_copy(
                dst=tile[first : first + block.size, :, 0:count],
                src=data[:, :, row : row + (count - 1) * geometry.rows + 1 : geometry.rows],
                engine=_engine(row),
            )
        if count < geometry.in_groups and block.size == geometry.channels:
            rest = tile[first : first + block.size, :, count : geometry.in_groups]
            nisa.memset(dst=rest, value=0.0, engine=nisa.engine.gpsimd)
    return tile


def _scatter(output, place, result, operation, geometry, block):
    """Copy the rows of the groups into the channels of a buffer that the block covers."""
    rows = output.inside(block.tile)[block.first : block.first + block.size]
    (top, left), (down, across) = place.first, place.step
    columns = slice(left, left + (operation.columns - 1) * across + 1, across)
    for row in range(geometry.rows):
        count = geometry.rows_in_place(row, operation.rows)
        if count == 0:
            continue
        start, step = top + row * down, geometry.rows * down
        first = row * geometry.channels
        nisa.tensor_copy(
            dst=rows[:, :, start : start + (count - 1) * step + 1 : step, columns],
            src=result[first : first + block.size, :, 0:count],
            engine=_engine(row),
        )


def _engine(row):
    """Return the engine that copies row number `row` of a group."""
    return nisa.engine.gpsimd if row % GPSIMD_TURN == GPSIMD_TURN - 1 else nisa.engine.vector
