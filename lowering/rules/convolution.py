"""Lowering rules for convolutions and dense layers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...kernels.program import Activation, Convolution
from ...kernels.tiling.packing import ceil_div
from ...models.checks import Shape
from ...models.layers import Conv2d, Dense
from ...simulator.machine.chip import PARTITIONS
from ..builder import GraphBuilder, lowers
from ..graph.channels import Channels
from ..graph.filters import ungrouped
from .along_channels import convolve_along_channels, is_along_channels
from .bounded import fold_scales


@lowers(Conv2d)
def convolution(builder: GraphBuilder, layer: Conv2d) -> None:
    """Append a convolution; if its input channels are stored in another order, its filters are permuted accordingly."""
    if is_along_channels(builder, layer):
        convolve_along_channels(builder, layer)
        return
    filters, bias = fold_scales(builder, layer) or (builder.filters(layer), builder.tensor(layer, "bias"))
    read, groups = layer.inputs[0], layer.groups
    after = layer.output_shape(builder.shapes[read])
    is_depthwise = groups == layer.in_channels
    if _gathers_first(builder, layer, math.prod(after[1:]) * layer.pool_size**2, is_depthwise):
        builder.gather(read)
    source, group_channels = builder.places[read], layer.out_channels // groups
    fields: dict[str, Any] = {
        "kernel": layer.kernel_size,
        "stride": layer.stride,
        "dilation": layer.dilation,
        "padding": layer.padding,
        "pool_size": layer.pool_size,
        "activation": Activation(layer.activation, layer.activation_parameters),
        "groups": groups,
    }
    if is_depthwise and groups > 1 and source.are_all and _has_gaps(builder, layer):
        _convolve_parts(builder, layer, after, fields)
        return
    if is_depthwise and groups > 1 and source.are_all:
        order = source.given_by(0, group_channels)
        numbers = (order.spread(bias, 0.0),)
        spread = filters.changed(filters.shape, lambda array: order.spread(array, 0.0))
        builder.add_by_channel(Convolution, layer, after, group_channels, filters=spread, numbers=numbers, **fields)
        return
    if not source.are_plain:
        filters, fields["groups"] = source.filters(ungrouped(filters, groups)), 1
    builder.add(
        Convolution, layer.name, layer.inputs, after, kind=layer.kind, filters=filters, numbers=(bias,), **fields
    )


def _gathers_first(builder: GraphBuilder, layer: Conv2d, pixels: int, is_depthwise: bool) -> bool:
    """True if a convolution that computes `pixels` becomes possible, or requires fewer columns of matmuls, once its
    input channels are rearranged. Every tile requires separate matmuls, even if it has few channels."""
    source, shape = builder.places[layer.inputs[0]], builder.shapes[layer.inputs[0]]
    read, fewest = len(builder.heights(source)), ceil_div(shape[0], PARTITIONS)
    taps = math.prod(layer.kernel_size)
    is_in_order = source.are_plain or (is_depthwise and source.are_all)
    if layer.groups > 1 and not is_in_order and taps > 1 and source.total > PARTITIONS:
        return True  # the filters of all groups together would be large
    if read == fewest:
        return False
    tiles = 1 if is_depthwise else ceil_div(layer.out_channels, PARTITIONS)
    gathering = math.prod(shape[1:]) * fewest * (read + 1)  # includes a copy from PSUM
    return gathering < pixels * (read - fewest) * taps * tiles


def _has_gaps(builder: GraphBuilder, layer: Conv2d) -> bool:
    """True if a concatenation has as few tiles as its channels need, but some channels of its first tiles are unused.

    The tiles of a depthwise convolution of such a value would each read two of its tiles.
    """
    source = builder.places[layer.inputs[0]]
    heights = builder.heights(source)
    return min(heights[:-1], default=PARTITIONS) < PARTITIONS and len(heights) == ceil_div(source.total, PARTITIONS)


def _convolve_parts(builder: GraphBuilder, layer: Conv2d, after: Shape, fields: dict[str, Any]) -> None:
    """Append a depthwise convolution for each part of the input; the value of the layer is their concatenation."""
    read, each = layer.inputs[0], layer.out_channels // layer.groups
    source, before = builder.places[read], builder.shapes[read]
    order = source.given_by(0, each)
    bias = order.spread(builder.tensor(layer, "bias"), 0.0)
    filters, numbers, first = builder.filters(layer), [], 0
    for part, size in zip(source.parts, source.sizes):
        operand, name, end = builder.inner(layer.name), builder.inner(layer.name), first + size * each
        builder.places[operand], builder.shapes[operand] = Channels.of(part, size), (size, *before[1:])
        numbers.append(len(builder.nodes))
        builder.add(
            Convolution,
            name,
            (operand,),
            (size * each, *after[1:]),
            kind=layer.kind,
            shown=(before, after),
            filters=filters.changed((end - first, *filters.shape[1:]), _rows_of(order, first, end)),
            numbers=(bias[first:end],),
            **{**fields, "groups": size},
        )
        first = end
    sizes = tuple(size * each for size in source.sizes)
    builder.places[layer.name], builder.shapes[layer.name] = Channels(tuple(numbers), sizes, order.order), after


def _rows_of(order: Channels, first: int, end: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that reorders filters to the stored order of their channels, and selects [first, end)."""
    return lambda array: order.spread(array, 0.0)[first:end]


@lowers(Dense)
def dense(builder: GraphBuilder, layer: Dense) -> None:
    """Append a convolution whose window covers the whole input."""
    channels, *window = builder.shapes[layer.inputs[0]]
    shape = (layer.out_features, channels, *window)
    filters = builder.filters(layer).changed(shape, lambda array: array.T.reshape(shape))
    builder.add(
        Convolution,
        layer.name,
        layer.inputs,
        (layer.out_features, 1, 1),
        kind=layer.kind,
        filters=builder.places[layer.inputs[0]].filters(filters),
        numbers=(builder.tensor(layer, "bias"),),
        kernel=tuple(window),
        activation=Activation(layer.activation, layer.activation_parameters),
    )
