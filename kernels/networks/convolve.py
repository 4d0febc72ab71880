"""A convolution of a launch: from SBUF or HBM to SBUF or HBM, images that lie side by side among them.

for group of rows or images:
    for tile of outputs:                    # up to 128 channels of some of the images side by side
        result = a part of what the layer gives, or a tile on its way to HBM
        convolve_tile(result, weights, inputs)
copy the result down the partitions, if the next layer wants it
"""

import nki.isa as nisa
import nki.language as nl

from ..convolution.input import advance, load_first, look_ahead, open_inputs, start_inputs, zeroed_inputs
from ..convolution.plan import plan_groups
from ..convolution.problem import Block, Problem
from ..convolution.resident import plan_resident
from ..convolution.sums import convolve_tile
from ..tiling.packing import PARTITIONS, ceil_div
from ..tiling.tiles import itemsize, tiles
from ..tiling.warm_up import warm_bank
from .ends import load
from .fold import blank_rows
from .layers import copy_down, heights, inside, make_room, value_in_hbm, whole_tile
from .output_order import OutputOrder
from .weights import constants_of, stream_of, units_of, weights_of


def plan_layer(layer, value, item_bytes):
    """How a convolution, or the last layer, is cut up."""
    in_channels = value.channels * value.together
    outputs = layer.channels * value.together * layer.unfold
    problem = Problem(
        value.images,
        in_channels,
        value.rows,
        value.columns,
        outputs,
        layer.kernel,
        layer.stride,
        layer.dilation,
        layer.padding,
        layer.taps,
        layer.pool_size,
        layer.activation,
        layer.parameters,
        layer.rows * layer.pool_size // layer.unfold,
        layer.columns * layer.pool_size,
        item_bytes,
        True,
        layer.form,
        from_host=True,
    )
    block = outputs if layer.kind == "scores" else min(PARTITIONS, layer.channels * layer.together)
    if value.hbm is not None and layer.group_bytes > 0:
        return plan_groups(problem, block, layer.group_bytes)
    return plan_resident(problem, block, heights(value), value.hbm is None, layer.group_bytes, layer.unfold > 1)


def convolve(network, n, operands, target, label):
    """A convolution, from SBUF or HBM to SBUF, or to HBM: `target`, or room of its own where SBUF has none."""
    layer = network.layers[n]
    value = operands[0]
    dtype = network.weights.dtype
    plan = plan_layer(layer, value, itemsize(dtype))
    weights = weights_of(network, n, value, plan)
    warm = None
    if not network.columns:  # the first of a launch
        warm = warm_bank(plan.weights.out_tiles[0].size, nl.tile_size.psum_bank_fmax, 2)
    units_of(weights, 0, not network.columns)
    inputs = _inputs(layer, value, plan)
    constants = constants_of(network)
    partitions = []
    for part in tiles(layer.channels * layer.together, PARTITIONS):
        partitions.append(part.size)
    if layer.in_hbm:
        given = _room_in_hbm(layer, target, value.pictures, dtype)
    else:
        given = make_room(layer, value.pictures, partitions, layer.rows, layer.columns, label, dtype)
    order = OutputOrder(value.together // layer.together, layer.unfold, layer.together, layer.channels)
    apart = order.phases
    out_tiles = plan.weights.out_tiles
    for index in range(len(plan.groups)):
        for out_tile in out_tiles:
            look_ahead(inputs, index, out_tile.index, len(out_tiles))
            phase, row, place = order.position(out_tile.index)
            first = plan.groups[index].image * apart + phase
            group = _filled(plan.groups[index], ceil_div(given.images - first, apart))
            if group is None:  # none of its pictures is there
                continue
            images_out = (first, first + (group.images - 1) * apart + 1, apart)
            rows_out = (row, order.rows)
            stream = stream_of(weights, plan, out_tile.index)
            chosen = inputs.tiles[weights.reads[out_tile.index][0] : weights.reads[out_tile.index][1]]
            result = _place(layer, given, place, out_tile.size, (images_out, rows_out), group, label, dtype)
            added = None
            if len(operands) > 1:
                added = _part(whole_tile(operands[1], place)[0 : out_tile.size], (images_out, rows_out), group, 1)
            column = layer.constants + place
            bias = constants[0 : out_tile.size, column : column + 1]
            convolve_tile(result, chosen, stream, 0, bias, group, added, None, warm)
            warm = None
            if layer.in_hbm:
                channels = given.hbm[:, place * PARTITIONS : place * PARTITIONS + out_tile.size].permute((1, 0, 2, 3))
                nisa.dma_copy(dst=_part(channels, (images_out, rows_out), group, layer.pool_size), src=result)
        advance(inputs, index)
    blank_rows(layer, given)
    copy_down(layer, given)
    return given


def _inputs(layer, value, plan):
    """What a convolution reads, as the groups of its plan."""
    resident: list[nl.NkiTensor] = []
    for t in range(len(value.tiles)):
        resident.append(inside(value, t, layer.padding))
    inputs = open_inputs(value.hbm, plan, resident)
    if value.hbm is not None and layer.group_bytes == 0:
        inputs.tiles = load(value.hbm, plan)
        return inputs
    for t in range(len(plan.channel_tiles)):
        load_first(inputs, t)
    start_inputs(inputs, zeroed_inputs(value.hbm, plan))
    return inputs


def _filled(group, images):
    """A group with at most so many images; None where that is none."""
    if images < 1:
        return None
    return Block(group.image, min(group.images, images), group.row, group.rows, group.column, group.columns)


def _part(tile, places, group, pool_size):
    """The images, rows and columns of a group, pooled, of [channels, images, rows, columns].

    `places`: (first image, end, step), and (first row, step).
    """
    first, end, step = places[0]
    row, row_step = places[1]
    top = row + group.row // pool_size * row_step
    left = group.column // pool_size
    rows = tile[:, first:end:step, top : top + (group.rows // pool_size - 1) * row_step + 1 : row_step]
    return rows[:, :, :, left : left + group.columns // pool_size]


def _place(layer, given, place, channels, places, group, label, dtype):
    """Where a tile of outputs of a group goes: a part of what the layer gives, or a tile on its way to HBM."""
    if not layer.in_hbm:
        return _part(whole_tile(given, place)[0:channels], places, group, layer.pool_size)
    shape = (channels, group.images, group.rows // layer.pool_size, group.columns // layer.pool_size)
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, name=label)


def _room_in_hbm(layer, target, pictures, dtype):
    """What a layer gives in HBM."""
    shape = (ceil_div(pictures, layer.together), layer.channels * layer.together, layer.rows, layer.columns)
    hbm = nl.ndarray(shape, dtype=dtype, buffer=nl.private_hbm) if target is None else target.reshape(shape)
    return value_in_hbm(hbm, layer.together, pictures)
