"""A depthwise convolution of small images, computed with elementwise products instead of the Tensor Engine.

for tile of channels, image, band of output rows:
    products = windows of the image * filter        # overlapping views; GpSimd takes some of them
    sums = the sum of the products of each window
result = activation(sums + bias)

Loading a diagonal matrix for each tap would take longer than computing the products of a small image.

| tile | shape | bounds |
|---|---|---|
| numbers | [channels, taps] | 128 channels |
| products | [channels, rows, columns, taps] | MOST_PRODUCTS elements of a partition |
"""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import activate
from ..convolution.forms import MOST_PRODUCTS
from ..program import Convolution, WriteRegion
from ..tiling.packing import tile_sizes
from ..tiling.tiles import PARTITIONS, even_tiles, sbuf_tile
from .value import copy_down

GPSIMD_TURN = 4  # GpSimd multiplies one in this many bands, since it is about this many times slower


def convolve_by_products(launch, number, operation: Convolution, value, plan):
    """Run a depthwise convolution with one output for each channel."""
    weights = launch.weights_of(operation, plan)
    output = launch.output_of(operation, tile_sizes(operation.channels, PARTITIONS))
    place = operation.into or WriteRegion(buffer=number)
    (top, left), (down, across) = place.first, place.step
    rows = slice(top, top + (operation.rows - 1) * down + 1, down)
    columns = slice(left, left + (operation.columns - 1) * across + 1, across)
    turn = 0
    for tile in plan.weights.out_tiles:
        (numbers,) = weights.of_tile(tile.index)
        data = value.inside(tile.index, operation.padding)[0 : tile.size]  # copies for other readers may follow
        shape = (tile.size, value.images, operation.rows, operation.columns)
        sums = sbuf_tile(shape, nl.float32, name=launch.label(operation))
        taps = operation.kernel[0] * operation.kernel[1]
        bands = even_tiles(operation.rows, max(1, MOST_PRODUCTS // (operation.columns * taps)))
        for image in range(value.images):
            for band in bands:
                turn += 1
                engine = nisa.engine.gpsimd if turn % GPSIMD_TURN == 0 else nisa.engine.vector
                products = _multiply(operation, data[:, image : image + 1], numbers, band, engine)
                target = sums[:, image, band.start : band.end]
                nisa.tensor_reduce(dst=target, op=nl.add, data=products, axis=3)
        bias = launch.constants(tile.size, operation.bias + tile.index)
        result = output.inside(place.tile + tile.index)[0 : tile.size, :, rows, columns]
        activate(result, sums, operation.activation.name, operation.activation.parameters, bias)
    copy_down(operation.copies, output)
    return output


def _multiply(operation, data, numbers, band, engine):
    """Return the products [channels, rows, columns, taps] for a band of output rows in an image."""
    data = data[:, :, band.start * operation.stride[0] :]
    lanes, _, row, column = data.get_pattern()
    partition, tap, _ = numbers.get_pattern()
    high, wide = operation.kernel
    (down, across), (below, beside) = operation.stride, operation.dilation
    counts = (band.size, operation.columns, high, wide)
    steps = (down * row[0], across * column[0], below * row[0], beside * column[0])
    products = nl.ndarray((data.shape[0], *counts), dtype=nl.float32, buffer=nl.sbuf)
    windows = data.ap([lanes, *([step, count] for step, count in zip(steps, counts))])
    filters = numbers.ap([partition, *([step, count] for step, count in zip((0, 0, wide * tap[0], tap[0]), counts))])
    nisa.tensor_tensor(dst=products, data1=windows, data2=filters, op=nl.multiply, engine=engine)
    return products.reshape((*products.shape[:3], high * wide))
