"""Lowering rules for elementwise layers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from ...kernels.program import Activation as Function
from ...kernels.program import Affine as AffineOperation
from ...kernels.program import Combine as CombineOperation
from ...kernels.program import Rearrange, Slope
from ...kernels.tiling.packing import ceil_div
from ...models.layers import Activation, Affine, Combine, PRelu
from ...simulator.machine.chip import PARTITIONS
from ..builder import MOST_COLUMNS, GraphBuilder, lowers
from .columns import place_beside

FLOAT32 = float(np.finfo(np.float32).max)
Numbered = TypeVar("Numbered", Affine, PRelu)


@lowers(Combine)
def combine(builder: GraphBuilder, layer: Combine) -> None:
    """Append an elementwise combination.

    An addition is fused into a convolution if it is the only consumer; the convolution then runs once both operands are
    available.
    """
    activation = Function(layer.activation, layer.activation_parameters)
    if place_beside(builder, layer, activation):
        return
    for name, other in (layer.inputs, layer.inputs[::-1]):
        if layer.operation == "add" and _feeds_alone(builder, name, other):
            _add_to_sums(builder, layer.name, name, other, activation)
            return
    first, second = (builder.places[name] for name in layer.inputs)
    alike = builder.heights(first) == builder.heights(second) and np.array_equal(first.order, second.order)
    if not alike or not first.are_all:  # channels that are not read might not be finite
        for name in layer.inputs:
            if not builder.is_gathered(name):
                builder.gather(name)
    after = builder.shapes[layer.inputs[0]]
    builder.add_by_channel(CombineOperation, layer, after, arithmetic=layer.operation, activation=activation)


def _add_to_sums(builder: GraphBuilder, layer: str, name: str, other: str, activation: Function) -> None:
    """Make a value an addend of a convolution, which then computes `layer`."""
    if not builder.is_gathered(other):
        builder.gather(other)
    builder.move_to_end(builder.places[name].parts[0])
    sources = (*builder.nodes[-1].sources, builder.places[other].parts)
    builder.nodes[-1] = builder.nodes[-1].changed(sources=sources, activation=activation)
    builder.places[layer], builder.shapes[layer] = builder.places[name], builder.shapes[name]


def _feeds_alone(builder: GraphBuilder, name: str, other: str) -> bool:
    """True if a layer is a convolution that can add another value to its sums, and is read only once."""
    channel_map = builder.places[name]
    node = builder.nodes[channel_map.parts[0]] if channel_map.parts[0] >= 0 else None
    if node is None or node.name != name or not builder.is_read_once(name):
        return False
    operation = node.operation.convolved
    if operation is None or not channel_map.are_plain:
        return False
    plain = operation.pool_size == 1 and operation.activation.is_identity and len(operation.sources) == 1
    return plain and name != other and builder.shapes[name] == builder.shapes[other]


@lowers(Affine)
def affine(builder: GraphBuilder, layer: Affine) -> None:
    """Append per-channel or per-element scales and shifts.

    Channels that are not read become 1, which every activation maps to a finite number. If a convolution with bounds,
    such as a ReLU, feeds only this layer, its filters, biases and bounds are changed instead.
    """
    if _is_behind_bounds(builder, layer):
        _change_bounds(builder, layer)
        return

    def scale(made: Affine) -> None:
        source = made.inputs[0]
        _scale(
            builder, made, tuple(builder.numbers(layer, *field, source) for field in (("scale", 0.0), ("shift", 1.0)))
        )

    _add(builder, layer, "scale", scale)


def _is_behind_bounds(builder: GraphBuilder, layer: Affine) -> bool:
    """True if a layer has numbers for each channel of a convolution with bounds, which no other layer reads."""
    read = layer.inputs[0]
    channel_map = builder.places[read]
    node = builder.nodes[channel_map.parts[0]] if channel_map.parts[0] >= 0 else None
    if node is None or node.name != read or not builder.is_read_once(read) or not channel_map.are_plain:
        return False
    operation = node.operation.convolved
    if operation is None or len(operation.sources) > 1 or operation.groups > 1 or node.before[1:] == (1, 1):
        return False
    has_bounds = layer.activation == "identity" and operation.activation.name in ("relu", "clip")
    is_increasing = operation.pool_size == 1 or bool((builder.tensor(layer, "scale") >= 0).all())
    return has_bounds and is_increasing and layer.shape == (operation.channels,)


def _change_bounds(builder: GraphBuilder, layer: Affine) -> None:
    """Fold a layer into the convolution that it reads, which then has bounds for each channel."""
    number = builder.places[layer.inputs[0]].parts[0]
    node = builder.nodes[number]
    scale, shift = (builder.tensor(layer, name).astype(np.float64) for name in ("scale", "shift"))
    low, high = node.convolution.activation.parameters or (0.0, FLOAT32)
    bounds = np.sort([np.clip(scale * bound + shift, -FLOAT32, FLOAT32) for bound in (low, high)], axis=0)
    is_open = high >= FLOAT32 and bool((scale >= 0).all())
    assert node.filters is not None
    filters = node.filters.changed(
        node.filters.shape, lambda array: (array * scale[:, None, None, None]).astype(np.float32)
    )
    numbers = (node.numbers[0] * scale + shift, *(bounds[:1] if is_open else bounds))
    folded = replace(node, filters=filters, numbers=tuple(values.astype(np.float32) for values in numbers))
    builder.nodes[number] = folded.changed(activation=Function("at_least" if is_open else "within"))
    builder.places[layer.name] = builder.places[layer.inputs[0]]
    builder.shapes[layer.name] = builder.shapes[layer.inputs[0]]


@lowers(Activation)
def activation(builder: GraphBuilder, layer: Activation) -> None:
    """Append an affine operation with a scale of 1 and a shift of 0."""
    channel_map = builder.places[layer.inputs[0]]
    ones = np.ones(len(channel_map.order), np.float32)
    is_scaled = not channel_map.are_all  # channels that are not read become 1
    _scale(builder, layer, (channel_map.spread(ones, 0.0), channel_map.spread(0 * ones, 1.0)), is_scaled)


def _scale(
    builder: GraphBuilder, layer: Affine | Activation, numbers: tuple[np.ndarray, ...], is_scaled: bool = True
) -> None:
    builder.add_by_channel(
        AffineOperation,
        layer,
        builder.shapes[layer.inputs[0]],
        numbers=numbers,
        by_element=numbers[0].ndim > 1,
        is_scaled=is_scaled,
        activation=Function(layer.activation, layer.activation_parameters),
    )


@lowers(PRelu)
def prelu(builder: GraphBuilder, layer: PRelu) -> None:
    """Append slopes for each channel or element."""

    def slope(made: PRelu) -> None:
        numbers = builder.numbers(layer, "slope", 1.0, made.inputs[0])
        after = builder.shapes[made.inputs[0]]
        builder.add_by_channel(Slope, made, after, numbers=(numbers,), by_element=numbers.ndim > 1)

    _add(builder, layer, "slope", slope)


def _add(builder: GraphBuilder, layer: Numbered, tensor: str, add: Callable[[Numbered], None]) -> None:
    """Append a layer with the function `add`.

    If there are more per-element numbers than fit, the value is reshaped so that runs of numbers become channels.
    """
    source = layer.inputs[0]
    shape = builder.shapes[source]
    if builder.tensor(layer, tensor).size <= shape[0] or builder.fits_columns(source):
        add(layer)
        return
    builder.make_plain(source)
    count = math.prod(shape)
    columns = _run_length(count)
    as_they_are: dict[str, Any] = {"kind": layer.kind, "split": (count,), "order": (0,)}
    before, after = builder.inner(layer.name), builder.inner(layer.name)
    builder.add(Rearrange, before, (source,), (count // columns, 1, columns), **as_they_are)
    add(replace(layer, name=after, inputs=(before,)))
    builder.add(Rearrange, layer.name, (after,), shape, **as_they_are)


def _run_length(count: int) -> int:
    """Return the length of the runs that distribute `count` numbers over the partitions.

    It minimizes first the number of tiles, each of which requires a separate DMA and instruction, and then the number
    of columns.
    """
    lengths = [length for length in range(1, MOST_COLUMNS + 1) if count % length == 0]
    return min(lengths, key=lambda length: (ceil_div(count // length, PARTITIONS), length))
