"""Lowering rules for convolutions and dense layers."""

import math
from typing import Any

from ...kernels.program import Activation, Convolution
from ...kernels.tiling.packing import ceil_div
from ...models.layers import Conv2d, Dense
from ...simulator.machine.chip import PARTITIONS
from ..builder import GraphBuilder, lowers
from ..graph.filters import ungrouped
from .along_channels import convolve_along_channels, is_along_channels


@lowers(Conv2d)
def convolution(builder: GraphBuilder, layer: Conv2d) -> None:
    """Append a convolution; if its input channels are stored in another order, its filters are permuted accordingly."""
    if is_along_channels(builder, layer):
        convolve_along_channels(builder, layer)
        return
    read, groups = layer.inputs[0], layer.groups
    after = layer.output_shape(builder.shapes[read])
    is_depthwise = groups == layer.in_channels
    if _gathers_first(builder, layer, math.prod(after[1:]) * layer.pool_size**2, is_depthwise):
        builder.gather(read)
    source, group_channels = builder.places[read], layer.out_channels // groups
    filters = builder.filters(layer)
    bias = builder.tensor(layer, "bias")
    fields: dict[str, Any] = {
        "kernel": layer.kernel_size,
        "stride": layer.stride,
        "dilation": layer.dilation,
        "padding": layer.padding,
        "pool_size": layer.pool_size,
        "activation": Activation(layer.activation, layer.activation_parameters),
        "groups": groups,
    }
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
