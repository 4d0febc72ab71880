"""Count the operations of a network from shapes only. Reports derive FLOPs and MFU from these numbers."""

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
    """The operations for one example.

    A multiply-accumulate of a matrix multiplication counts as 2. In pooling, each element of each window counts as 1;
    in other layers, each output element does. Layers that only move data count as 0.
    """

    multiplied: int
    elementwise: int

    @property
    def total(self) -> int:
        """The sum of both kinds of operations."""
        return self.multiplied + self.elementwise

    def plus(self, other: Operations) -> Operations:
        """Return the sum of these and other operations."""
        return Operations(self.multiplied + other.multiplied, self.elementwise + other.elementwise)


def operations(layer: Layer, *shapes: Shape) -> Operations:
    """Return the operations of a layer for one example with inputs of `shapes`."""
    multiplied = 2 * layer.multiply_accumulates(*shapes)
    if multiplied or layer.only_moves:
        return Operations(multiplied, 0)
    per_element = math.prod(layer.window) if isinstance(layer, Pool) else 1
    return Operations(0, per_element * math.prod(layer.output_shape(*shapes)))


def row_operations(network: Network, rows: Sequence[Row]) -> list[Operations]:
    """Return the operations per example for each row of a network's table, summed over the row's layers."""
    shapes = network.shapes()
    work = {layer.name: operations(layer, *[shapes[name] for name in layer.inputs]) for layer in network.layers}
    return [reduce(Operations.plus, (work[name] for name in row.layers), Operations(0, 0)) for row in rows]


def with_model_flops(time: LaunchTime, work: Operations, batch: int) -> LaunchTime:
    """Return the time with `flops` set to the number of operations that the model performs for a batch.

    MFU counts the operations of the PE array, limited to the number that it actually performed. Minimal filtering
    requires fewer multiplications than the shapes suggest, and other engines perform the rest.
    """
    flops, multiplied = batch * work.total, batch * work.multiplied
    if time.hfu is None or time.mfu is None:
        return replace(time, flops=flops)
    useful = min(multiplied, time.hardware_flops)
    return replace(time, flops=flops, mfu=time.hfu * (useful / time.hardware_flops) if useful else 0.0)
