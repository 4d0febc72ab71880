"""A whole network in one launch: activations stay in SBUF from layer to layer.

    for some images at a time:
        value = load(x)                                          # as the first layer's taps want it
        for layer:
            weights = load(weights of the layer)                 # ahead of their use, as far as SBUF has room
            value = layer(weights, value)                        # in SBUF, with the padding that the next layer reads
        scores, classes = finish(value)                          # softmax and argmax, images on the partitions
        store(scores, classes)

Weights that fit stay for all images; others stream through SBUF once for each of these passes. A layer's output that is
too large for SBUF goes through HBM: the convolution after it reads it in groups of rows, as it does a large input.

Several images lie side by side on the partitions where there are few channels: image i of a pass is number i % together
on the partitions and number i // together along the free axis, so that x as it lies in HBM, [images, C, H, W], is
[images / together, together * C, H, W]. A layer is then a convolution whose filters are block-diagonal, and fills the
Tensor Engine's columns and the lanes of the engines that finish its sums. As channels grow from layer to layer, fewer
images fit; the others move to the free axis, which takes no instruction: a tile of outputs is written to every r-th
image. A dense layer is a convolution whose window is its whole input.

The bodies are those of the kernels that run one layer a launch. What each layer gives is named
"layer/<pass>/<name>", by which a simulator's or profiler's timeline tells the layers apart.
"""

from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl

from .activation_functions import activate
from .conv2d import convolve_tile
from .convolution.input import advance, load_first, look_ahead, open_inputs, start_inputs, zeroed_inputs
from .convolution.plan import plan_groups, rows_of_taps
from .convolution.problem import Block, Problem
from .convolution.resident import plan_resident
from .elementwise import combine_tiles
from .networks.ends import finish, load, load_plain, load_taps
from .networks.fold import blank_rows, pool_pairs
from .networks.layers import Layer, Value, copy_down, heights, inside, joined, make_room, store_value, whole_tile
from .networks.weights import LayerWeights, open_layer, stream_of, units_of
from .pooling import average_pool_tile, lowest, max_pool_tile
from .tiling.packing import PARTITIONS, ceil_div, round_up
from .tiling.tiles import even_tiles, itemsize, load_early, tiles
from .tiling.warm_up import warm_up
from .tiling.windows import fill_border, input_span, make_sweep, whole


@dataclass
class Network(nl.NKIObject):
    """The layers and what stays for all passes."""

    layers: list[Layer]
    loaded: list[LayerWeights]  # one a layer, None where it has no weights, or they do not stay
    weights: nl.NkiTensor  # in HBM
    constants: nl.NkiTensor  # in HBM
    columns: list[nl.NkiTensor]  # the constants in SBUF, once they are loaded


@nki.jit
def run_network(x, weights, constants, program, together, images_at_once, pictures):
    """Scores and classes of images, or what a part of a network gives.

    Dimensions:
        B: images, a multiple of `together`. C, H, W: of one image. N: classes. B': pictures, filled up to a multiple
        of those that lie side by side in what is returned.
    Args:
        x: [B, C, H, W] in HBM, float32, bfloat16 or float16; features are [B, F, 1, 1].
        weights: [numbers] of x's dtype: those of all layers, in the order of their loads (weight_loads.py).
        constants: [128, columns] float32, biases, scales and shifts: by partition, of `scores` by column.
        program: a tuple of layers, each a tuple of the fields of `Layer`. The last one of a network is "scores", a
            dense layer; that of a part of a network is `in_hbm`.
        together: images side by side in x.
        images_at_once: images / together that are in SBUF at a time, 1 or more.
        pictures: images that count; those after them fill x up.
    Returns:
        scores [B', N] of x's dtype, softmax or raw, and classes int32 [B'], the first of the largest; of a part of a
        network [B', C', H', W'], what its last layer gives.
    """
    layers = []
    for fields in program:
        layers.append(Layer(*fields))
    last = layers[len(layers) - 1]
    batch, channels, height, width = x.shape
    assert batch == round_up(pictures, together), (
        f"network: {pictures} pictures are no {batch} images, {together} of them side by side"
    )
    given = round_up(pictures, last.together)
    side_by_side = x.reshape((batch // together, together * channels, height, width))
    loaded: list[LayerWeights] = []
    columns: list[nl.NkiTensor] = []
    network = Network(layers, loaded, weights, constants, columns)
    if last.kind == "scores":
        out = nl.ndarray((given, last.channels), dtype=x.dtype, buffer=nl.shared_hbm)
        classes = nl.ndarray((given,), dtype=nl.int32, buffer=nl.shared_hbm)
    else:
        out = nl.ndarray((given, last.channels, last.rows, last.columns), dtype=x.dtype, buffer=nl.shared_hbm)
        classes = None
    nothing: list[nl.NkiTensor] = []
    margins: list[tuple[int, int, int, int]] = []
    for images in even_tiles(batch // together, images_at_once):
        first = images.start * together
        end = min(given, images.end * together)
        seen = side_by_side[images.start : images.end]
        count = min(pictures, images.end * together) - first
        value = Value(nothing, margins, seen, images.size, channels, height, width, together, count)
        _run_pass(network, value, (out[first:end], None if classes is None else classes[first:end]), images.index)
    return out if classes is None else (out, classes)


def _run_pass(network, given, out, number):
    """Some images, from the input to scores and classes, or values, all in HBM."""
    values: list[Value] = []
    for n in range(len(network.layers)):
        layer = network.layers[n]
        label = f"layer/{number}/{layer.name}"
        operands = []
        for source in layer.sources:
            parts = []
            for part in source:
                parts.append(given if part < 0 else values[part])
            operands.append(joined(parts))
        if number == 0:
            network.loaded.append(None)
        if layer.kind == "scores":
            _finish(network, n, operands[0], out, label)
        elif layer.kind == "taps":
            values.append(load_taps(layer, operands[0], number == 0))
        elif layer.kind == "conv2d":
            target = out[0] if n == len(network.layers) - 1 else None
            values.append(_convolve(network, n, operands, target, label))
        else:
            value = _one_by_one(network, layer, operands, label)
            if n == len(network.layers) - 1:
                store_value(value, _side_by_side(out[0], value))
            values.append(value)


def _one_by_one(network, layer, operands, label):
    """A layer that takes each tile by itself."""
    value = operands[0]
    partitions = [layer.channels] if layer.kind == "folded_pool" else heights(value)
    given = make_room(layer, value.pictures, partitions, layer.rows, layer.columns, label, network.weights.dtype)
    if layer.kind == "folded_pool":
        pool_pairs(layer, whole_tile(given, 0), inside(value, 0, layer.padding), value.columns)
        blank_rows(layer, given)
        return given
    if layer.kind == "load":
        load_plain(given, value.hbm)
    for t in range(len(value.tiles)):
        result = whole_tile(given, t)
        data = whole_tile(value, t)
        if layer.kind == "combine":
            _combine(layer, result, data, whole_tile(operands[1], t))
        elif layer.kind == "affine":
            constants = _constants(network)
            column = layer.constants + 2 * t
            scale = constants[0 : data.shape[0], column : column + 1]
            shift = constants[0 : data.shape[0], column + 1 : column + 2]
            activate(result, data, layer.activation, layer.parameters, bias=shift, scale=scale)
        else:
            _pool(layer, value, result, data)
    return given


def _constants(network):
    """All biases, by one DMA: behind the weights and the input that the first matmuls wait for."""
    if not network.columns:
        constants = nl.ndarray(network.constants.shape, dtype=nl.float32, buffer=nl.sbuf)
        load_early(constants, network.constants)
        network.columns.append(constants)
    return network.columns[0]


def _plan(layer, value, item_bytes):
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
    )
    block = outputs if layer.kind == "scores" else min(PARTITIONS, layer.channels * layer.together)
    if value.hbm is not None and layer.group_bytes > 0:
        return plan_groups(problem, block, layer.group_bytes)
    return plan_resident(problem, block, heights(value), value.hbm is None, layer.group_bytes)


def _weights(network, n, value, plan):
    """The weights of a layer: those of the pass before where they stay."""
    weights = network.loaded[n]
    if weights is None:
        layer = network.layers[n]
        channels = (value.channels, layer.channels)
        taps = layer.taps[0] * layer.taps[1]
        rows = [rows_of_taps(plan, 0, taps)] if taps > 1 else heights(value)
        weights = open_layer(network.weights, layer, rows, plan, channels)
        if layer.stays:
            network.loaded[n] = weights
    return weights


def _finish(network, n, value, out, label):
    """The last layer."""
    layer = network.layers[n]
    plan = _plan(layer, value, itemsize(network.weights.dtype))
    units = units_of(_weights(network, n, value, plan), 0)
    if value.hbm is not None:
        value = _loaded(value, plan)
    finish(layer, value, plan.steps, units, _constants(network), out, label)


def _loaded(value, plan):
    """An input that the first layer takes as a whole."""
    loaded = load(value.hbm, plan)
    margins: list[tuple[int, int, int, int]] = []
    for _ in loaded:
        margins.append((0, 0, 0, 0))
    rows, columns = value.rows, value.columns
    return Value(loaded, margins, None, value.images, value.channels, rows, columns, value.together, value.pictures)


def _convolve(network, n, operands, target, label):
    """A convolution, from SBUF or HBM to SBUF, or to HBM: `target`, or room of its own where SBUF has none."""
    layer = network.layers[n]
    value = operands[0]
    dtype = network.weights.dtype
    plan = _plan(layer, value, itemsize(dtype))
    weights = _weights(network, n, value, plan)
    warm = None if network.columns else _warm_up(plan)
    units_of(weights, 0, not network.columns)
    inputs = _inputs(layer, value, plan)
    constants = _constants(network)
    partitions = []
    for part in tiles(layer.channels * layer.together, PARTITIONS):
        partitions.append(part.size)
    if layer.in_hbm:
        given = _room_in_hbm(layer, target, value.pictures, dtype)
    else:
        given = make_room(layer, value.pictures, partitions, layer.rows, layer.columns, label, dtype)
    apart = value.together // layer.together  # of the images side by side, so many groups no longer are
    out_tiles = plan.weights.out_tiles
    for index in range(len(plan.groups)):
        for out_tile in out_tiles:
            look_ahead(inputs, index, out_tile.index, len(out_tiles))
            place = out_tile.index % len(partitions)
            phase = out_tile.index // len(partitions)
            first = plan.groups[index].image * apart + (phase if layer.unfold == 1 else 0)
            group = _filled(plan.groups[index], ceil_div(given.images - first, apart))
            if group is None:  # none of its pictures is there
                continue
            images_out = (first, first + (group.images - 1) * apart + 1, apart)
            rows_out = (0, 1) if layer.unfold == 1 else (phase, layer.unfold)
            stream = stream_of(weights, plan, out_tile.index)
            chosen = inputs.tiles[weights.reads[out_tile.index][0] : weights.reads[out_tile.index][1]]
            result = _place(layer, given, place, out_tile.size, (images_out, rows_out), group, label, dtype)
            added = None
            if len(operands) > 1:
                added = _part(whole_tile(operands[1], place), (images_out, rows_out), group, 1)
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


def _filled(group, images):
    """A group with at most so many images; None where that is none."""
    if images < 1:
        return None
    return Block(group.image, min(group.images, images), group.row, group.rows, group.column, group.columns)


def _warm_up(plan):
    """A PSUM bank of zeros for a launch's first sums; None where no warming up is needed."""
    bank = nl.ndarray((plan.weights.out_tiles[0].size, nl.tile_size.psum_bank_fmax), dtype=nl.float32, buffer=nl.psum)
    return bank if warm_up(bank, 2) else None


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
    images = ceil_div(pictures, layer.together)
    if target is None:
        shape = (images, layer.channels * layer.together, layer.rows, layer.columns)
        hbm = nl.ndarray(shape, dtype=dtype, buffer=nl.private_hbm)
    else:
        hbm = target.reshape((images, layer.channels * layer.together, layer.rows, layer.columns))
    nothing: list[nl.NkiTensor] = []
    margins: list[tuple[int, int, int, int]] = []
    rows, columns = layer.rows, layer.columns
    return Value(nothing, margins, hbm, images, layer.channels, rows, columns, layer.together, pictures)


def _side_by_side(out, value):
    """[B, C, rows, columns] in HBM as [images, (image, channel), rows, columns], as a value has them."""
    return out.reshape((value.images, value.together * value.channels, value.rows, value.columns))


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


def _combine(layer, result, a, b):
    """activation(a operation b); b may have one number for each channel of each image."""
    if b.shape != a.shape:
        b = b.broadcast(2, a.shape[2]).broadcast(3, a.shape[3])
    exact = layer.activation == "identity" or layer.activation == "relu"  # relu of what is rounded is relu rounded
    total = result if exact else nl.ndarray(result.shape, dtype=nl.float32, buffer=nl.sbuf)
    combine_tiles(total, a, b, layer.operation)
    if layer.activation != "identity":
        activate(result, total, layer.activation, layer.parameters)


def _pool(layer, value, result, data):
    """Maxima or means of windows, from SBUF to SBUF."""
    padding = layer.padding
    dtype = data.dtype
    ceil_mode = layer.ceil_mode
    rows = make_sweep("rows", value.rows, layer.kernel[0], layer.stride[0], 1, padding[0], padding[2], ceil_mode)
    columns = make_sweep(
        "columns", value.columns, layer.kernel[1], layer.stride[1], 1, padding[1], padding[3], ceil_mode
    )
    down = input_span(rows, whole(rows.outputs), whole(rows.size))
    across = input_span(columns, whole(columns.outputs), whole(columns.size))
    if down.head + down.tail + across.head + across.tail > 0:
        data = _padded(data, down, across, lowest(dtype) if layer.kind == "max_pool" else 0.0)
    else:
        data = data[:, :, 0 : down.size, 0 : across.size]
    if layer.kind == "max_pool":
        max_pool_tile(result, data, rows, columns)
    else:
        average_pool_tile(result, data, rows, columns, layer.count_include_pad)


def _padded(data, rows, columns, fill):
    """A copy of [partitions, images, rows, columns] with its padding."""
    copy = nl.ndarray((data.shape[0], data.shape[1], rows.size, columns.size), dtype=data.dtype, buffer=nl.sbuf)
    fill_border(copy, rows, columns, fill)
    bottom = rows.size - rows.tail
    right = columns.size - columns.tail
    nisa.tensor_copy(
        dst=copy[:, :, rows.head : bottom, columns.head : right],
        src=data[:, :, 0 : bottom - rows.head, 0 : right - columns.head],
        engine=nisa.engine.gpsimd,
    )
    return copy
