"""A convolution in a launch: from SBUF or HBM to SBUF or HBM.

for group of rows or images:
    for tile of outputs:                    # up to 128 channels of some of the packed images
        result = a region of the output buffer, or a tile that is stored to HBM
        convolve_tile(result, weights, inputs)
copy the result to later partitions, if the next operation reads copies

| tile | shape | bounds |
|---|---|---|
| inputs | [taps and channels, images, rows, columns] | 128 partitions; two groups in SBUF |
| weights | [taps and channels, steps, output channels] | 128 output channels |
| result | [output channels, images, rows, columns] | one PSUM bank of pixels per piece |
"""

import nki.language as nl

from ..convolution.forms import Form
from ..convolution.input import advance, load_first, look_ahead, open_inputs, start_inputs, zeroed_inputs
from ..convolution.plan import plan_groups, psum_pieces, sum_columns
from ..convolution.problem import Movement, Problem
from ..convolution.resident import plan_resident
from ..convolution.sums import QUICK_MATMULS, Epilogue, OutputTile, convolve_tile, diagonal_of
from ..operation_fields import with_fields
from ..program import Convolution, RowFold, WriteRegion
from ..tiling.packing import ceil_div, tile_sizes
from ..tiling.tiles import PARTITIONS, copy_by_hardware, itemsize, sbuf_tile, several_columns
from .gates import convolve_gates, has_gates
from .launch import stream_of
from .load import load
from .problems import filters_of, finish_of, images_of
from .products import convolve_by_products
from .row_blocks import convolve_row_blocks
from .row_fold import blank_rows, blank_tile
from .value import copy_down


def plan_convolution(operation: Convolution, value, item_bytes):
    """Return the plan of a convolution."""
    order = operation.output_order(value.packed)
    pool_size = operation.pool_size
    problem = Problem(
        images_of(value, item_bytes),
        filters_of(operation, value, sum(order.tile_sizes(PARTITIONS))),
        Movement(operation.stride, operation.dilation, operation.padding),
        finish_of(operation, pool_size),
        output=(ceil_div(operation.rows * pool_size, order.rows), operation.columns * pool_size),
        form=operation.form if operation.form.is_minimal else Form.DIRECT,
    )
    block = min(PARTITIONS, operation.channels * operation.packed)
    if value.hbm is not None and operation.group_bytes > 0:
        return plan_groups(problem, block, operation.group_bytes)
    return plan_resident(
        problem,
        block,
        value.heights,
        keeps_rows=value.hbm is None,
        combined_bytes=operation.group_bytes,
        by_rows=order.rows > 1,
    )


def convolve(launch, number, operation: Convolution, operands):
    """Run a convolution. The second operand, if there is one, is added to the sums."""
    if operation.form.rows > 1:
        return convolve_row_blocks(launch, number, operation, operands)
    value = operands[0]
    plan = plan_convolution(operation, value, itemsize(value.dtype))
    if operation.form.is_elementwise:
        return convolve_by_products(launch, number, operation, value, plan)
    if has_gates(operation, operands, plan):
        return convolve_gates(launch, number, operation, value, plan)
    return _convolve_tiles(launch, number, operation, operands, plan)


def _convolve_tiles(launch, number, operation, operands, plan):
    """Run a convolution, one tile of output channels after the other."""
    value = operands[0]
    weights = launch.weights_of(operation, plan)
    out_tiles = plan.weights.out_tiles
    is_starting = launch.is_starting
    channels = several_columns(out_tiles[0].size, launch.dtype)
    warm = launch.warm_bank(number, channels, sum_columns(plan))
    weights.of_tile(0, early=is_starting and launch.loads_early)
    inputs = _inputs(operation, value, plan)
    launch.load_constants()
    out = launch.output_of(operation, tile_sizes(operation.channels * operation.packed, PARTITIONS))
    order = operation.output_order(value.packed)
    place = operation.into or WriteRegion(buffer=number)
    ends = _epilogues(launch, operation, plan, order, weights.reads, out)
    for index, group in enumerate(plan.groups):
        for out_tile in out_tiles:
            look_ahead(inputs, index, out_tile.index, len(out_tiles))
            phase, row, part = order.position(out_tile.index, PARTITIONS)
            first = group.image * order.phases + phase
            own_rows = ceil_div(operation.rows * operation.pool_size - row, order.rows)
            filled = _filled(group, ceil_div(out.images - first, order.phases), own_rows)
            if filled is None:  # the group contains no pictures or rows for this tile
                continue
            images = slice(first, first + (filled.images - 1) * order.phases + 1, order.phases)
            region = WriteRegion(place.buffer, (row, 0), (order.rows, 1))
            down, (step, _) = place.first[0] + place.step[0] * row, place.step
            target = with_fields(place, first=(down, place.first[1]), step=(step * order.rows, place.step[1]))
            at = place.tile + part  # index among the tiles of the buffer
            lanes = slice(at * PARTITIONS, at * PARTITIONS + out_tile.size)
            if out.hbm is None:
                whole = out.in_phases(at) if out.column_phases > 1 else out.inside(at)
                result = _window(whole[0 : out_tile.size], images, target, filled, operation.pool_size)
            else:
                hbm = _window(out.hbm[:, lanes].permute((1, 0, 2, 3)), images, target, filled, operation.pool_size)
                rows = hbm.shape[2]
                result = sbuf_tile(hbm.shape, launch.dtype_of(operation), name=launch.label(operation))
            added = None
            if len(operands) > 1:
                added = _window(operands[1].inside(at)[0 : out_tile.size], images, region, filled, 1)
            reads = weights.reads[out_tile.index]
            stream = stream_of(weights, plan, out_tile.index, value.pitches)
            output = OutputTile(result, filled, pieces=psum_pieces(plan, filled))
            end = with_fields(ends[part], addend=added)
            convolve_tile(output, inputs.tiles[reads.start : reads.stop], stream, end, warm)
            if index == len(plan.groups) - 1 and not operation.weights.are_resident:
                weights.units[out_tile.index] = {}  # drop the reference; otherwise, the simulator keeps the tiles
            warm = None
            if out.hbm is not None:
                blank_tile(_blanked(operation, filled), result, out_tile.size // operation.row_fold.count, rows)
                copy_by_hardware(dst=hbm, src=result)
        advance(inputs, index)
    blank_rows(operation.row_fold, out)
    copy_down(operation.copies, out)
    return out


def _epilogues(launch, operation, plan, order, reads, out):
    """Return the epilogue of each part of the region to which the outputs are written."""
    ends: list[Epilogue] = []
    for out_tile in plan.weights.out_tiles:
        part = order.position(out_tile.index, PARTITIONS)[2]
        if part == len(ends):
            if operation.is_scaled:
                by_matmul = _adds_to_scaled(operation, plan, reads[out_tile.index], out)
            else:
                by_matmul = _adds_to_plain(launch, operation, out_tile.size, out)
            ends.append(_epilogue(launch, operation, part, out_tile.size, by_matmul))
    return ends


def _epilogue(launch, operation, part, rows, adds_by_matmul):
    """Return the epilogue of part `part` of the region to which the outputs are written."""
    tiles = ceil_div(operation.channels, PARTITIONS)
    numbers = range(operation.columns_of_constants)
    columns = [launch.constants(rows, operation.bias + number * tiles + part) for number in numbers]
    bounds = None
    if operation.bounds > 0:
        bounds = tuple(columns[-operation.bounds :])
        columns = columns[: -operation.bounds]
    epilogue = Epilogue(*columns)
    epilogue.bounds = bounds
    if adds_by_matmul and operation.is_scaled:
        epilogue.diagonal = diagonal_of(epilogue.inverse, launch.dtype)
    elif adds_by_matmul:
        epilogue.diagonal = launch.identity()[0:rows, 0:rows]
    return epilogue


def _adds_to_scaled(operation, plan, reads, out):
    """True if the Tensor Engine adds the addend to scaled sums.

    If there are few matmuls, it would otherwise wait for the Vector Engine. A diagonal matrix is worth its cost if
    there is at least one bank of outputs.
    """
    if len(operation.sources) == 1:
        return False
    enough = out.images * operation.rows * operation.columns >= nl.tile_size.psum_bank_fmax
    return enough and ceil_div(len(reads), 2) * len(plan.steps) <= QUICK_MATMULS


def _adds_to_plain(launch, operation, channels, out):
    """True if the Tensor Engine adds the addend, multiplied by an identity matrix, to sums of 16-bit values.

    The Vector Engine would add it with an instruction of its own before the activation, which takes longer than a
    matmul of a few columns.
    """
    if len(operation.sources) == 1 or operation.activation.is_identity or channels < 2:
        return False
    few = out.images * operation.rows * operation.columns <= nl.tile_size.psum_bank_fmax
    return few and itemsize(launch.dtype) == 2


def _inputs(operation, value, plan):
    """Return the input of a convolution, divided into the groups of its plan."""
    resident = [value.inside(t, operation.padding) for t in range(len(value.tiles))]
    if operation.form.is_minimal:  # sums of inputs do not use the copies that other readers may need
        resident = [tile[0:height] for tile, height in zip(resident, value.heights)]
    inputs = open_inputs(value.hbm, plan, resident)
    if value.hbm is not None and operation.group_bytes == 0:
        inputs.tiles = load(value.hbm, plan)
        return inputs
    for t in range(len(plan.channel_tiles)):
        load_first(inputs, t)
    start_inputs(inputs, zeroed_inputs(value.hbm, plan))
    return inputs


def _blanked(operation, group):
    """Return the rows of a group of outputs that are outside the image."""
    groups = operation.row_fold
    is_first, is_last = group.row == 0, group.row + group.rows == operation.rows * operation.pool_size
    return RowFold(groups.count, groups.above if is_first else 0, groups.below if is_last else 0)


def _filled(group, images, rows):
    """Return a group limited to `images` images and to rows below `rows`, or None if it is empty."""
    if images < 1 or rows <= group.row:
        return None
    return with_fields(group, images=min(group.images, images), rows=min(group.rows, rows - group.row))


def _window(tile, images, place, group, pool_size):
    """View the region of a tile that holds the pooled rows and columns of a group's images.

    The view is [channels, images, rows, columns] or [channels, images, rows, phases, columns of a phase]. The operation
    writes the tile at `place`.
    """
    (row, column), (row_step, column_step) = place.first, place.step
    rows, columns = group.rows // pool_size, group.columns // pool_size
    top = row + group.row // pool_size * row_step
    left = column + group.column // pool_size * column_step
    of_rows = tile[:, images, top : top + (rows - 1) * row_step + 1 : row_step]
    if len(tile.shape) == 5:
        phases = tile.shape[3]
        return of_rows[:, :, :, :, left // phases : (left + columns) // phases]
    return of_rows[:, :, :, left : left + (columns - 1) * column_step + 1 : column_step]
