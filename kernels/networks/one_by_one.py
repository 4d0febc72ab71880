"""Layers of a launch that take each tile by itself: pools, sums, products, scales, slopes and activations."""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate, slope_below_zero
from ..elementwise import combine_column, combine_tiles, scale_and_shift_tiles
from ..pooling import average_pool_tile, lowest, max_pool_tile
from ..tiling.packing import pool_band
from ..tiling.tiles import even_tiles
from ..tiling.windows import fill_border, input_span, make_sweep, whole
from .ends import load_plain
from .fold import blank_rows, pool_pairs
from .layers import heights, inside, make_room, whole_tile
from .weights import constants_of

MANY_PIXELS = (
    96  # of an image, from which an instruction for each, a number a partition, is quicker than one of tensors
)


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
            scale = _numbers(network, layer, 2 * t, data)
            shift = _numbers(network, layer, 2 * t + 1, data)
            if layer.operation == "elements":
                factors, offsets = _on_all(scale, data), _on_all(shift, data)
                scale_and_shift_tiles(result, data, factors, offsets, layer.activation, layer.parameters)
            else:
                activate(result, data, layer.activation, layer.parameters, bias=shift, scale=scale)
        elif layer.kind == "prelu":
            slope_below_zero(result, data, _on_all(_numbers(network, layer, t, data), data))
        else:
            _pool(layer, value, result, data)
    return given


def _numbers(network, layer, index, data):
    """The numbers of a layer for a tile: a column [P, 1], or [P, elements of an image] where each has its own."""
    each = data.shape[2] * data.shape[3] if layer.operation == "elements" else 1
    first = layer.constants + index * each
    return constants_of(network)[0 : data.shape[0], first : first + each]


def _on_all(numbers, data):
    """Numbers of a tile for all its images and, where they are a column, pixels."""
    _, images, rows, columns = data.shape
    if numbers.shape[1] == 1:
        return numbers.expand_dim(2).expand_dim(3).broadcast(1, images).broadcast(2, rows).broadcast(3, columns)
    return numbers.reshape_dim(1, (1, rows, columns)).broadcast(1, images)


def _combine(layer, result, a, b):
    """activation(a operation b); b may have one number for each channel of each image."""
    exact = layer.activation == "identity" or layer.activation == "relu"  # relu of what is rounded is relu rounded
    total = result if exact else nl.ndarray(result.shape, dtype=nl.float32, buffer=nl.sbuf)
    if b.shape == a.shape:
        combine_tiles(total, a, b, layer.operation)
    elif a.shape[2] * a.shape[3] < MANY_PIXELS:
        combine_tiles(total, a, b.broadcast(2, a.shape[2]).broadcast(3, a.shape[3]), layer.operation)
    else:
        columns = nl.ndarray((b.shape[0], b.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=columns, src=b[:, :, 0, 0], engine=nisa.engine.vector)
        for i in range(a.shape[1]):
            combine_column(total[:, i : i + 1], a[:, i : i + 1], columns[:, i : i + 1], layer.operation)
    if layer.activation != "identity":
        activate(result, total, layer.activation, layer.parameters)


def _pool(layer, value, result, data):
    """Maxima or means of windows, from SBUF to SBUF, some rows at a time."""
    top, left, bottom, right = layer.padding
    kernel, stride, dilation = layer.kernel, layer.stride, layer.dilation
    rows = make_sweep("rows", value.rows, kernel[0], stride[0], dilation[0], top, bottom, layer.ceil_mode)
    columns = make_sweep("columns", value.columns, kernel[1], stride[1], dilation[1], left, right, layer.ceil_mode)
    across = input_span(columns, whole(columns.outputs), whole(columns.size))
    end = across.size - across.head - across.tail
    for band in even_tiles(rows.outputs, pool_band(data.shape[1] * across.size, rows.reach, rows.stride)):
        down = input_span(rows, band, whole(rows.size))
        first = down.start + down.head
        part = data[:, :, first : down.start + down.size - down.tail, 0:end]
        if down.head + down.tail + across.head + across.tail > 0:
            part = _padded(part, down, across, lowest(data.dtype) if layer.kind == "max_pool" else 0.0)
        target = result[:, :, band.start : band.end]
        if layer.kind == "max_pool":
            max_pool_tile(target, part, rows, columns, band)
        else:
            average_pool_tile(target, part, rows, columns, band, layer.count_include_pad)


def _padded(data, rows, columns, fill):
    """A copy of [partitions, images, rows, columns] with the padding that two spans have around it."""
    copy = nl.ndarray((data.shape[0], data.shape[1], rows.size, columns.size), dtype=data.dtype, buffer=nl.sbuf)
    fill_border(copy, rows, columns, fill)
    bottom = rows.size - rows.tail
    right = columns.size - columns.tail
    nisa.tensor_copy(
        dst=copy[:, :, rows.head : bottom, columns.head : right],
        src=data,
        engine=nisa.engine.gpsimd,
    )
    return copy
