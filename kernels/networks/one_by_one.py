"""Layers of a launch that take each tile by itself: pools, sums, products, scales and activations."""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..elementwise import combine_tiles
from ..pooling import average_pool_tile, lowest, max_pool_tile
from ..tiling.windows import fill_border, input_span, make_sweep, whole
from .ends import load_plain
from .fold import blank_rows, pool_pairs
from .layers import heights, inside, make_room, whole_tile
from .weights import constants_of


def one_by_one(network, layer, operands, label):
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
            constants = constants_of(network)
            column = layer.constants + 2 * t
            scale = constants[0 : data.shape[0], column : column + 1]
            shift = constants[0 : data.shape[0], column + 1 : column + 2]
            activate(result, data, layer.activation, layer.parameters, bias=shift, scale=scale)
        else:
            _pool(layer, value, result, data)
    return given


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
