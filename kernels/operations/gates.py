"""Channel gates, which are 1x1 convolutions of 1x1 images. All tiles of channels share one tensor.

With one number per partition, issuing an instruction takes longer than executing it. Therefore the sums of all tiles
are adjacent in one PSUM tile, and one instruction each adds the bias and applies the activation to all of them. Each
sum is completed before the next one starts. The gates stay in float32, the dtype of per-partition scalars:

    sums[:, t] = a matmul for each input tile
    gates = activation(sums + bias)

| tile | shape | bounds |
|---|---|---|
| sums | [channels, tiles, images] | a PSUM bank |
| gates | [channels, tiles, images] | float32 |
"""

import nki.isa as nisa
import nki.language as nl

from ..activation_functions import IN_STEPS, activate
from ..program import NO_SIDES
from ..tiling.tiles import PARTITIONS, sbuf_tile
from .value import value_in_tiles

MANY_TILES = 4  # with at least this many tiles, an activation of one instruction is also applied to all tiles together


def has_gates(operation, operands, plan):
    """True if all tiles of a convolution can be computed together and doing so is worthwhile."""
    value, tiles = operands[0], plan.weights.out_tiles
    if not operation.is_gate or operation.into is not None or len(operands) > 1 or operation.is_scaled:
        return False
    if value.hbm is not None or (value.rows, value.columns, *operation.kernel) != (1, 1, 1, 1):
        return False
    if value.packed > 1 or operation.groups > 1 or operation.taps.count > 1 or operation.margin != NO_SIDES:
        return False
    if min(tile.size for tile in tiles) < 2 or len(tiles) * value.images > nl.tile_size.psum_bank_fmax:
        return False
    return operation.activation.name in IN_STEPS or len(tiles) >= MANY_TILES


def convolve_gates(launch, number, operation, value, plan):
    """Compute the value of a convolution in float32."""
    weights, tiles = launch.weights_of(operation, plan), plan.weights.out_tiles
    count, images = len(tiles), value.images
    sums = _sums(launch, number, operation, value, weights, tiles)
    gates = sbuf_tile((PARTITIONS, count, images, 1, 1), nl.float32, name=launch.label(operation))
    name, parameters = operation.activation.name, operation.activation.parameters
    full = count if tiles[count - 1].size == tiles[0].size else count - 1
    for first, end in ((0, full), (full, count)):
        if first < end:
            rows = tiles[first].size
            bias = launch.constants(rows, operation.bias + first, end - first).expand_dim(2).broadcast(2, images)
            total = nl.ndarray((rows, end - first, images), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=total, data1=sums[0:rows, first:end], data2=bias, op=nl.add)
            activate(gates[0:rows, first:end, :, 0, 0], total, name, parameters)
    return value_in_tiles(operation, value.pictures, [gates[0 : tile.size, tile.index] for tile in tiles], ())


def _sums(launch, number, operation, value, weights, tiles):
    """Return the sums [partitions, tiles, images] in PSUM."""
    count, images = len(tiles), value.images
    bank = launch.warm_bank(number, PARTITIONS, count * images)
    if bank is None:
        sums = nl.ndarray((PARTITIONS, count, images), dtype=nl.float32, buffer=nl.psum)
    else:
        sums = bank[:, 0 : count * images].reshape((PARTITIONS, count, images))
    for tile in tiles:
        for n, (t, unit) in enumerate(zip(weights.reads[tile.index], weights.of_tile(tile.index), strict=True)):
            pixels = value.inside(t)[:, :, 0, 0]
            nisa.nc_matmul(
                dst=sums[0 : tile.size, tile.index],
                stationary=unit[0 : pixels.shape[0], 0, :],
                moving=pixels,
                accumulate=n > 0 or bank is not None,
            )
    return sums
