"""A depthwise convolution of small images, computed with elementwise products instead of the Tensor Engine.

for some tiles of channels:
    for tile, image:
        products = image * numbers               # for each output pixel; GpSimd computes some of them
    sums = the sum of the products of each output pixel
    for tile:
        result = activation(sums + bias)

An output pixel has a product for each input pixel, because views with a dimension for each row and column of both
would have more dimensions than an instruction supports. Loading a diagonal matrix for each tap would take longer than
computing the products of a small image.

| tile | shape | bounds |
|---|---|---|
| numbers | [channels, output pixels, input rows, input columns] | 128 channels |
| products | [channels, tiles * images, output pixels, input rows, input columns] | MOST_PRODUCTS elements |
"""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..convolution.forms import MOST_PRODUCTS
from ..program import Convolution, WriteRegion
from ..tiling.packing import tile_sizes
from ..tiling.tiles import PARTITIONS, Tile, even_tiles, reshaped, sbuf_tile
from .value import copy_down

GPSIMD_TURN = 4  # GpSimd multiplies one in this many images, since it is about this many times slower
SUMMED_TOGETHER = 2  # images of any tiles that one instruction sums; with more, the activation would start later


def convolve_by_products(launch, number, operation: Convolution, value, plan):
    """Run a depthwise convolution with one output for each channel."""
    weights = launch.weights_of(operation, plan)
    output = launch.output_of(operation, tile_sizes(operation.channels, PARTITIONS))
    region = operation.into or WriteRegion(buffer=number)
    (top, left), (down, across) = region.first, region.step
    rows = slice(top, top + (operation.rows - 1) * down + 1, down)
    columns = slice(left, left + (operation.columns - 1) * across + 1, across)
    outputs = operation.rows * operation.columns
    most = max(1, min(SUMMED_TOGETHER, MOST_PRODUCTS // (outputs * value.rows * value.columns)))
    turn = 0
    for tiles in _tiles_together(plan.weights.out_tiles, max(1, SUMMED_TOGETHER // value.images)):
        size, factors = tiles[0].size, []
        for tile in tiles:
            (numbers,) = weights.of_tile(tile.index)
            numbers = reshaped(numbers, (size, outputs, value.rows, value.columns))
            data = value.inside(tile.index)[0:size]  # copies for other readers may follow
            factors += [(data[:, image : image + 1].broadcast(1, outputs), numbers) for image in range(value.images)]
        sums = sbuf_tile((size, len(factors), outputs), nl.float32, name=launch.label(operation))
        for block in even_tiles(len(factors), most):
            products = nl.ndarray((size, block.size, *factors[0][1].shape[1:]), dtype=nl.float32, buffer=nl.sbuf)
            for n in range(block.size):
                turn += 1
                data, numbers = factors[block.start + n]
                engine = nisa.engine.gpsimd if turn % GPSIMD_TURN == 0 else nisa.engine.vector
                nisa.tensor_tensor(dst=products[:, n], data1=data, data2=numbers, op=nl.multiply, engine=engine)
            nisa.tensor_reduce(dst=sums[:, block.start : block.end], op=nl.add, data=products, axis=(3, 4))
        for n, tile in enumerate(tiles):
            bias = launch.constants(size, operation.bias + tile.index)
            result = output.inside(region.tile + tile.index)[0:size, :, rows, columns]
            own = sums[:, n * value.images : (n + 1) * value.images]
            own = reshaped(own, (size, value.images, operation.rows, operation.columns))
            activate(result, own, operation.activation.name, operation.activation.parameters, bias)
    copy_down(operation.copies, output)
    return output


def _tiles_together(tiles, most):
    """Return groups of up to `most` consecutive tiles of the same size."""
    groups: list[list[Tile]] = []
    for tile in tiles:
        if groups and len(groups[-1]) < most and groups[-1][0].size == tile.size:
            groups[-1].append(tile)
        else:
            groups.append([tile])
    return groups
