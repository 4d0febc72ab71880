"""Layers of a launch that normalise: each pixel over its channels, or groups of channels over an image.

The images that lie side by side are groups of channels too: each has sums of its own.
"""

import nki.isa as nisa
import nki.language as nl

from ..group_normalization import group_matrices, group_norm_tiles
from ..normalization import layer_norm_tiles
from ..tiling.packing import PARTITIONS, norm_block
from ..tiling.tiles import Tile, even_tiles
from .layers import heights, make_room, whole_tile
from .weights import constants_of


def normalize(network, layer, value, label):
    """Layer norm or group norm of a value in SBUF, with the zeros around it that later layers read."""
    sizes = heights(value)
    given = make_room(layer, value.pictures, sizes, layer.rows, layer.columns, label, network.weights.dtype)
    parts, scales, shifts, sources, targets = [], [], [], [], []
    start = 0
    for t in range(len(sizes)):
        column = layer.constants + 2 * t
        scales.append(constants_of(network)[0 : sizes[t], column : column + 1])
        shifts.append(constants_of(network)[0 : sizes[t], column + 1 : column + 2])
        sources.append(whole_tile(value, t))
        targets.append(whole_tile(given, t))
        parts.append(Tile(t, start, sizes[t], start + sizes[t]))
        start += sizes[t]
    epsilon = nl.ndarray((PARTITIONS, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=epsilon, value=layer.parameters[0], engine=nisa.engine.gpsimd)
    each = layer.channels // layer.groups
    if layer.kind == "group_norm":
        count = each * layer.rows * layer.columns
        group_norm_tiles(targets, sources, group_matrices(parts, each), count, scales, shifts, epsilon, True)
    else:
        _over_channels(targets, sources, _ones(value, parts), value.channels, (scales, shifts, epsilon))
    return given


def _ones(value, parts):
    """The matrices of `layer_norm_tiles`."""
    same = group_matrices(parts, value.channels)[0][0][1] if len(parts) == 1 else None
    ones = []
    for dtype in (value.tiles[0].dtype, nl.float32):
        size = PARTITIONS if same is None else parts[0].size
        matrix = nl.ndarray((size, size), dtype=dtype, buffer=nl.sbuf)
        if same is None:
            nisa.memset(dst=matrix, value=1.0, engine=nisa.engine.gpsimd)
        else:
            nisa.tensor_copy(dst=matrix, src=same, engine=nisa.engine.gpsimd)
        ones.append(matrix)
    return ones


def _over_channels(targets, sources, ones, channels, numbers):
    """Layer norm, some pixels of all tiles at a time."""
    scales, shifts, epsilon = numbers
    _, images, rows, columns = sources[0].shape
    most = norm_block(len(sources))
    for across in even_tiles(columns, most):
        for down in even_tiles(rows, max(1, most // across.size)):
            for some in even_tiles(images, max(1, most // (down.size * across.size))):
                results, data = [], []
                for t in range(len(sources)):
                    results.append(_block(targets[t], some, down, across))
                    data.append(_block(sources[t], some, down, across))
                layer_norm_tiles(results, data, ones, channels, scales, shifts, epsilon)


def _block(tile, images, rows, columns):
    part = tile[:, images.start : images.end, rows.start : rows.end]
    return part[:, :, :, columns.start : columns.end]
