"""Matmuls of 8-bit operands that contract over twice as many rows as the Tensor Engine has, in the same time.

On NeuronCore-v3 and later, a matmul in `double_row` mode contracts over two planes, stationary [K, 2, M] and moving
[K, 2, N] (trainium2_arch, "Double FP8 Matmul Performance"). Two input tiles form two planes if they share a tensor and
their weights do too. Alternatively, two steps of a filter form two planes of one input tile, shifted by some rows and
columns. If the number of tiles is odd, the last tile is multiplied by pairs of steps; if the number of steps is odd,
the last step runs as a single matmul.
"""

from __future__ import annotations

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .plan import begins_pair
from .weights import weights_of

FREE_DIMENSIONS = 3  # number of free dimensions that most instructions can read (nki-aps, "Hardware Capability")


@dataclass(frozen=True)
class Matmul:
    """A matmul of one input tile and the weights of one filter step, or a matmul over two planes.

    The second plane starts `inputs_apart` and `weights_apart` elements of a partition after the first.
    """

    weights: nl.NkiTensor
    tile: int
    step: int
    inputs_apart: int = 0
    weights_apart: int = 0

    @property
    def is_double(self):
        """True if the matmul contracts over two planes."""
        return self.inputs_apart > 0


def matmuls_of(stream, out_tile, tiles):
    """Yield the matmuls of one output tile, starting with one that contributes to all outputs.

    Weights are fetched as needed.
    """
    plan = stream.plan
    count = len(plan.steps)
    order = [(plan.reach.first_step + n) % count for n in range(count)]
    t = 0
    while t < len(tiles):
        unit = weights_of(stream, out_tile, t)
        if not _is_narrow(tiles[t], unit) or not plan.reach.pads_columns:  # steps may skip different columns
            yield from (Matmul(unit, t, s) for s in order)
            t += 1
            continue
        apart = _apart(plan, t, tiles[t], unit)
        if t + 1 < len(tiles) and min(apart) > 0:
            yield from (Matmul(unit, t, s, *apart) for s in order)
            t += 1
        else:
            yield from _of_steps(plan, t, tiles[t], unit)
        t += 1


def _apart(plan, t, tile, unit):
    """Return the distance from an input tile to the next and the distance between their weights, in elements of a
    partition. A distance is 0 if the two are in different tensors."""
    if not plan.problem.images.in_planes:
        return plan.pairs[t]
    if not begins_pair(plan, t):
        return 0, 0
    return tile.get_pattern()[2][0] // 2, len(plan.steps) * unit.shape[2]  # the rows of both tiles are interleaved


def doubled(tile, apart):
    """View [K, ...] as [K, 2, ...], with the second plane `apart` elements of a partition after the first."""
    lanes, *free = tile.get_pattern()
    return tile.ap([lanes, [apart, 2], *_joined(free)])


def can_be_doubled(tile):
    """True if an instruction can step through two planes of [K, ...], with two free dimensions left for the other
    axes."""
    return len(_joined(tile.get_pattern()[1:])) < FREE_DIMENSIONS


def _joined(free):
    """Return [stride, count] of each dimension, outermost first, after merging contiguous dimensions."""
    merged: list[list[int]] = []
    for stride, count in free:
        if merged and merged[-1][0] == stride * count:
            merged[-1] = [stride, merged[-1][1] * count]
        elif count > 1:
            merged.append([stride, count])
    return merged or [[1, 1]]


def takes_two_planes(dtype):
    """True if the core has the `double_row` mode and the mode supports the dtype."""
    return dtype == nl.float8_e4m3 and nisa.get_nc_version() != nisa.nc_version.gen2


def _is_narrow(tile, unit):
    """True if the core has the `double_row` mode and the mode supports both operands."""
    return takes_two_planes(tile.dtype) and takes_two_planes(unit.dtype)


def _of_steps(plan, t, tile, unit):
    """Return the matmuls of one input tile, pairing steps that read the same number of partitions."""
    rows, columns = (pair[0] for pair in tile.get_pattern()[2:4])
    between = unit.get_pattern()[1][0]
    matmuls: list[Matmul] = []
    s = 0
    while s < len(plan.steps):
        step = plan.steps[s]
        after = plan.steps[s + 1] if s + 1 < len(plan.steps) else None
        if after is not None and after.taps == step.taps:
            apart = (after.down - step.down) * rows + (after.right - step.right) * columns
            matmuls.append(Matmul(unit, t, s, apart, between))
            s += 2
        else:
            matmuls.append(Matmul(unit, t, s))
            s += 1
    return matmuls
