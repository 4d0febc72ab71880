"""Number of operations of a network, from its shapes alone: the basis of FLOPs and MFU in reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ..models.checks import Shape
from ..models.layers import Layer, Pool
from ..models.network import Network
from .backend import LaunchTime
from .timing import Row

_BESIDE = ("transpose", "bias_activation", "argmax")  # kernels of a layer beside the one that does its work


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
    """Operations for one example of each row of a network's table.

    Rows are named as their layers, or after them and the kernel ("hidden.matmul"): then those of the kernel that does
    the layer's work. A layer without a row is counted to the next layer that has one, which computes it too; the last
    ones to the last row that has a layer, or to the first row where none has.
    """
    shapes = network.shapes()
    places = [_row_of(layer.name, rows) for layer in network.layers]
    found, waiting, last = [Operations(0, 0)] * len(rows), Operations(0, 0), 0
    for layer, place in zip(network.layers, places):
        waiting = waiting.plus(operations(layer, *[shapes[name] for name in layer.inputs]))
        if place is not None:
            found[place] = found[place].plus(waiting)
            waiting, last = Operations(0, 0), place
    if rows:
        found[last] = found[last].plus(waiting)
    return found


def _row_of(name: str, rows: Sequence[Row]) -> int | None:
    """The row of a layer that does its work."""
    own = [number for number, row in enumerate(rows) if row.name in (name, f"{name}.{row.name.rpartition('.')[2]}")]
    working = [number for number in own if rows[number].name == name or rows[number].kernel not in _BESIDE]
    return next(iter(working or own), None)


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
