"""Number of operations of a network, from its shapes alone: the basis of FLOPs and MFU in reports."""

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
    """Operations for one example: 2 a multiply-accumulate of a matrix multiplication; 1 an element of the output of
    other layers, of pooling 1 an element of each window, none where a layer only moves numbers."""

    multiplied: int
    elementwise: int

    @property
    def total(self) -> int:
        """Both together."""
        return self.multiplied + self.elementwise

    def plus(self, other: Operations) -> Operations:
        """The sum of both."""
        return Operations(self.multiplied + other.multiplied, self.elementwise + other.elementwise)


def operations(layer: Layer, *shapes: Shape) -> Operations:
    """Operations of a layer for one example of inputs of `shapes`."""
    multiplied = 2 * layer.multiply_accumulates(*shapes)
    if multiplied or layer.only_moves:
        return Operations(multiplied, 0)
    each = math.prod(layer.window) if isinstance(layer, Pool) else 1
    return Operations(0, each * math.prod(layer.output_shape(*shapes)))


def row_operations(network: Network, rows: Sequence[Row]) -> list[Operations]:
    """Return the operations for one example of each row of a network's table: those of its layers."""
    shapes = network.shapes()
    work = {layer.name: operations(layer, *[shapes[name] for name in layer.inputs]) for layer in network.layers}
    return [reduce(Operations.plus, (work[name] for name in row.layers), Operations(0, 0)) for row in rows]


def with_model_flops(time: LaunchTime, work: Operations, batch: int) -> LaunchTime:
    """A time with the model's operations for a batch.

    MFU counts the operations of the PE array, at most those that it multiplied: minimal filtering needs fewer than the
    shapes suggest, and other engines do what is not a matrix multiplication.
    """
    flops, multiplied = batch * work.total, batch * work.multiplied
    if time.hfu is None or time.mfu is None:
        return replace(time, flops=flops)
    useful = min(multiplied, time.hardware_flops)
    return replace(time, flops=flops, mfu=time.hfu * (useful / time.hardware_flops) if useful else 0.0)
