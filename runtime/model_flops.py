"""Operations of a network, from shapes alone: the basis of FLOPs and MFU in reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

from ..models.checks import Shape
from ..models.layers import Layer, Pool
from ..models.network import Network
from .backend import LaunchTime
from .timing import Row


class Operations(NamedTuple):
    """Operations for one example. Matrix multiplications count 2 for a multiply-accumulate; other layers count 1 for
    each element of their output, pooling 1 for each element of each window, and layers that only move data nothing."""

    multiplied: int
    elementwise: int

    @property
    def total(self) -> int:
        """The sum of both."""
        return self.multiplied + self.elementwise

    def plus(self, other: Operations) -> Operations:
        """Return the sum with other operations."""
        return Operations(self.multiplied + other.multiplied, self.elementwise + other.elementwise)


def operations(layer: Layer, *shapes: Shape) -> Operations:
    """Return the operations of a layer for one example with inputs of `shapes`."""
    multiplied = 2 * layer.multiply_accumulates(*shapes)
    if multiplied or layer.only_moves:
        return Operations(multiplied, 0)
    each = math.prod(layer.window) if isinstance(layer, Pool) else 1
    return Operations(0, each * math.prod(layer.output_shape(*shapes)))


def row_operations(network: Network, rows: Sequence[Row]) -> list[Operations]:
    """Return the operations for one example of each row of a network's table, which are those of its layers."""
    shapes = network.shapes()
    work = {layer.name: operations(layer, *[shapes[name] for name in layer.inputs]) for layer in network.layers}
    return [reduce(Operations.plus, (work[name] for name in row.layers), Operations(0, 0)) for row in rows]


def with_model_flops(time: LaunchTime, work: Operations, batch: int) -> LaunchTime:
    """Return a time with the model's operations for a batch.

    MFU counts operations of the PE array, at most as many as it multiplied: minimal filtering needs fewer than shapes
    suggest, and other engines do the rest.
    """
    flops, multiplied = batch * work.total, batch * work.multiplied
    if time.hfu is None or time.mfu is None:
        return replace(time, flops=flops)
    useful = min(multiplied, time.hardware_flops)
    return replace(time, flops=flops, mfu=time.hfu * (useful / time.hardware_flops) if useful else 0.0)
