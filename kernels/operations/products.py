"""A depthwise convolution of small images, computed with elementwise products instead of the Tensor Engine.

for some tiles of channels:
    for tile, image:
        products = image * numbers               # for each output pixel; GpSimd computes some of them
    sums = the sum of the products of each output pixel
    for tile:
        result = activation(sums + bias)

Views of the windows with a dimension for each row and column of the outputs and of the filter would have more
dimensions than an instruction supports. Therefore, an output pixel either has a product for each input pixel
("products"), or one instruction multiplies only one row of each window ("row products"), which are fewer products but
more instructions. Loading a diagonal matrix for each tap would take longer than computing the products of a small
image.

| tile | shape | bounds |
|---|---|---|
| numbers | [channels, output pixels, input pixels] or [channels, taps] | 128 channels |
| products | [channels, tiles * images, output pixels, input pixels or taps] | MOST_PRODUCTS elements |
"""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..convolution.forms import MOST_PRODUCTS, Form
from ..program import Convolution, WriteRegion
from ..tiling.packing import tile_sizes
from ..tiling.tiles import PARTITIONS, Tile, even_tiles, reshaped, sbuf_tile
from .value import copy_down

GPSIMD_TURN = 2  # GpSimd computes one in this many products; the Vector Engine, which also sums them, the others
SUMMED_TOGETHER = 2  # images of any tiles that one instruction sums; with more, the activation would start later


def convolve_by_products(launch, number, operation: Convolution, value, plan):
    """Run a depthwise convolution with one output for each channel."""
    weights = launch.weights_of(operation, plan)
    output = launch.output_of(operation, tile_sizes(operation.channels, PARTITIONS))
    region = operation.into or WriteRegion(buffer=number)
    (top, left), (down, across) = region.first, region.step
    rows = slice(top, top + (operation.rows - 1) * down + 1, down)
    columns = slice(left, left + (operation.columns - 1) * across + 1, across)
    by_rows = operation.form is Form.ROW_PRODUCTS
    factors_of = _row_factors if by_rows else _pixel_factors
    outputs, terms = (operation.rows, operation.columns), operation.kernel if by_rows else (value.rows, value.columns)
    count = outputs[0] * outputs[1]
    most = max(1, min(SUMMED_TOGETHER, MOST_PRODUCTS // (count * terms[0] * terms[1])))
    turn = 0
    for tiles in _tiles_together(plan.weights.out_tiles, max(1, SUMMED_TOGETHER // value.images)):
        size, factors = tiles[0].size, []
        for tile in tiles:
            (numbers,) = weights.of_tile(tile.index)
            factors += [(tile, image, numbers) for image in range(value.images)]
        sums = sbuf_tile((size, len(factors), count), nl.float32, name=launch.label(operation))
        for block in even_tiles(len(factors), most):
            products = nl.ndarray((size, block.size, count, *terms), dtype=nl.float32, buffer=nl.sbuf)
            for n in range(block.size):
                tile, image, numbers = factors[block.start + n]
                for dst, data, by in factors_of(operation, value, tile, image, numbers, products[:, n]):
                    engine = nisa.engine.gpsimd if turn % GPSIMD_TURN == 0 else nisa.engine.vector
                    nisa.tensor_tensor(dst=dst, data1=data, data2=by, op=nl.multiply, engine=engine)
                    turn += 1
            nisa.tensor_reduce(dst=sums[:, block.start : block.end], op=nl.add, data=products, axis=(3, 4))
        for n, tile in enumerate(tiles):
            bias = launch.constants(size, operation.bias + tile.index)
            result = output.inside(region.tile + tile.index)[0:size, :, rows, columns]
            own = sums[:, n * value.images : (n + 1) * value.images]
            own = reshaped(own, (size, value.images, *outputs))
            activate(result, own, operation.activation.name, operation.activation.parameters, bias)
    copy_down(operation.copies, output)
    return output


def _pixel_factors(operation, value, tile, image, numbers, products):
    """Return (products, data, numbers) of one instruction, [channels, output pixels, input rows, input columns]."""
    data = value.inside(tile.index)[0 : tile.size, image : image + 1]  # copies for other readers may follow
    return [(products, data.broadcast(1, products.shape[1]), reshaped(numbers, products.shape))]


def _row_factors(operation, value, tile, image, numbers, products):
    """Return (products, data, numbers) of an instruction for each row of the filter: [channels, output rows, output
    columns, filter columns]."""
    data = value.inside(tile.index, operation.padding)[0 : tile.size, image : image + 1]
    lanes, _, row, column = data.get_pattern()
    partition, tap, _ = numbers.get_pattern()
    high, wide = operation.kernel
    (down, across), (below, beside) = operation.stride, operation.dilation
    counts = (operation.rows, operation.columns, wide)
    products = reshaped(products, (tile.size, *counts[:2], high * wide))
    steps = (down * row[0], across * column[0], beside * column[0])
    factors = []
    for k in range(high):
        windows = data[:, :, k * below :].ap([lanes, *([step, n] for step, n in zip(steps, counts))])
        filters = numbers[:, k * wide :].ap([partition, *([step, n] for step, n in zip((0, 0, tap[0]), counts))])
        factors.append((products[:, :, :, k * wide : (k + 1) * wide], windows, filters))
    return factors


def _tiles_together(tiles, most):
    """Return groups of up to `most` consecutive tiles of the same size."""
    groups: list[list[Tile]] = []
    for tile in tiles:
        if groups and len(groups[-1]) < most and groups[-1][0].size == tile.size:
            groups[-1].append(tile)
        else:
            groups.append([tile])
    return groups
