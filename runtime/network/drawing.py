"""A network's layers drawn as a program: what each reads and gives, before the program is laid out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...kernels.convolution.forms import VECTOR_NS, matmuls_ns
from ...kernels.tiling.packing import PARTITIONS, ceil_div
from ...models.checks import INPUT, Shape
from ...models.files import Model
from ...models.layers import (
    Activation,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    GroupNorm,
    Layer,
    LayerNorm,
    Pool,
    PRelu,
    Reshape,
    Softmax,
    Transpose,
)
from .channels import Channels, joined
from .drawn import MOST_SCORES, Drawn
from .filters import ungrouped
from .program import DoesNotFit, Planned

SCORES_BYTES = 136 * 1024  # of a partition for the weights of the last layer, which are there all at a time


def draw(model: Model, dtype: np.dtype[Any], image: Shape) -> list[Planned]:
    """The layers in order, to run in `dtype`; DoesNotFit where the kernel has no body for one.

    Flattening is in the window of the dense layer after it, a concatenation, slice or shuffle in what reads it, and a
    sum in the convolution that feeds it.
    """
    drawn = Drawn(model, dtype, {INPUT: Channels.of(-1, image[0])}, {INPUT: image}, [])
    for layer in model.network.layers:
        if type(layer) not in _BODIES:
            raise DoesNotFit(f"there is no body for layer {layer.name!r} ({layer.kind})")
        _BODIES[type(layer)](drawn, layer)
    last = drawn.planned[-1] if drawn.planned else None
    if last is not None and drawn.is_last(model.network.layers[-1].name) and _gives_scores(last, dtype.itemsize):
        drawn.planned[-1] = replace(last, kind="scores")
    elif last is None or last.kind != "scores":
        drawn.add_identity("scores", model.network.layers[-1].name, "")
    return drawn.planned


def _gives_scores(layer: Planned, itemsize: int) -> bool:
    """Whether the last layer's body can compute it: what it gives is one number a channel. Larger layers run as others
    do, and the last one only brings their numbers to where the answers are found."""
    return (
        layer.kind == "conv2d"
        and layer.after[1:] == (1, 1)
        and layer.channels <= MOST_SCORES
        and layer.filters is not None
        and layer.filters.size * itemsize <= PARTITIONS * SCORES_BYTES
        and (layer.pool_size, layer.groups, len(layer.sources)) == (1, 1, 1)
        and not any(layer.padding)
    )


def _by(numbers: np.ndarray) -> str:
    """What a layer's numbers go by, as the kernel has it."""
    return "elements" if numbers.ndim > 1 else ""


def _slice(drawn: Drawn, layer: ChannelSlice) -> None:
    source = layer.inputs[0]
    window = drawn.shapes[source][1:]
    each = math.prod(window) if len(drawn.model.network.shapes()[source]) == 1 else 1  # of a flattened image
    if layer.first % each or layer.last % each:
        raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) cuts an image's rows")
    first, last = layer.first // each, layer.last // each
    drawn.places[layer.name] = drawn.places[source].picked(np.arange(first, last))
    drawn.shapes[layer.name] = (last - first, *window)


def _view(drawn: Drawn, layer: Layer) -> None:
    """The layer gives what it reads."""
    source = layer.inputs[0]
    drawn.places[layer.name], drawn.shapes[layer.name] = drawn.places[source], drawn.shapes[source]


def _reshape(drawn: Drawn, layer: Reshape) -> None:
    """Features lie as an image of one pixel already, so that a gate made of them is no other layer."""
    if len(layer.shape) == 3 and layer.shape != drawn.shapes[layer.inputs[0]]:
        raise DoesNotFit(f"there is no body for layer {layer.name!r} ({layer.kind})")
    _view(drawn, layer)


def _transpose(drawn: Drawn, layer: Transpose) -> None:
    """The host turns the axes of an input that nothing else reads."""
    if layer.inputs != (INPUT,) or drawn.model.network.readers()[INPUT] > 1:
        raise DoesNotFit(f"there is no body for layer {layer.name!r} ({layer.kind})")
    _view(drawn, layer)


def _concat(drawn: Drawn, layer: Concat) -> None:
    shapes = [drawn.shapes[read] for read in layer.inputs]
    if len({shape[1:] for shape in shapes}) > 1:
        raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) joins what has no place side by side")
    drawn.places[layer.name] = joined([drawn.places[read] for read in layer.inputs])
    drawn.shapes[layer.name] = (sum(shape[0] for shape in shapes), *shapes[0][1:])


def _shuffle(drawn: Drawn, layer: ChannelShuffle) -> None:
    _view(drawn, layer)
    order = np.arange(drawn.shapes[layer.name][0]).reshape(layer.groups, -1).T.ravel()
    drawn.places[layer.name] = drawn.places[layer.name].picked(order)


def _prelu(drawn: Drawn, layer: PRelu) -> None:
    slope = drawn.numbers_of(layer, "slope", 1.0)
    after = drawn.shapes[layer.inputs[0]]
    drawn.append_by_channel("prelu", layer.name, layer.inputs, after, numbers=(slope,), operation=_by(slope))


def _convolution(drawn: Drawn, layer: Conv2d) -> None:
    read, groups = layer.inputs[0], layer.groups
    after = layer.output_shape(drawn.shapes[read])
    is_depthwise = groups == layer.in_channels
    if _gathers_first(drawn, layer, math.prod(after[1:]) * layer.pool_size**2, is_depthwise):
        drawn.gather(read)
    source, each = drawn.places[read], layer.out_channels // groups
    filters = drawn.model.tensors[f"{layer.name}.weight"]
    bias = drawn.model.tensors[f"{layer.name}.bias"].astype(np.float32)
    fields: dict[str, Any] = {
        "kernel": layer.kernel_size,
        "stride": layer.stride,
        "dilation": layer.dilation,
        "padding": layer.padding,
        "pool_size": layer.pool_size,
        "activation": layer.activation,
        "parameters": layer.activation_parameters,
        "groups": groups,
    }
    if is_depthwise and groups > 1 and source.are_all:
        lying = source.given_by(0, each)
        fields.update(filters=lying.spread(filters, 0.0), numbers=(lying.spread(bias, 0.0),))
        drawn.append_by_channel("conv2d", layer.name, layer.inputs, after, each, **fields)
        return
    if not source.are_plain:
        filters, fields["groups"] = source.filters(ungrouped(filters, groups)), 1
    drawn.append("conv2d", layer.name, layer.inputs, after, filters=filters, numbers=(bias,), **fields)


def _gathers_first(drawn: Drawn, layer: Conv2d, pixels: int, is_depthwise: bool) -> bool:
    """Whether a convolution that computes so many `pixels` is quicker, or can only be told, once what it reads is
    laid out anew: tiles of few channels each take matmuls of their own."""
    source, shape = drawn.places[layer.inputs[0]], drawn.shapes[layer.inputs[0]]
    read, fewest = len(drawn.heights(source)), ceil_div(shape[0], PARTITIONS)
    taps = math.prod(layer.kernel_size)
    lies_right = source.are_plain or (is_depthwise and source.are_all)
    if layer.groups > 1 and not lies_right and taps > 1 and source.total > PARTITIONS:
        return True  # filters of all groups at a time would be large
    if read == fewest:
        return False
    tiles = 1 if is_depthwise else ceil_div(layer.out_channels, PARTITIONS)
    column = matmuls_ns(drawn.dtype.itemsize, 1, 0)
    gathering = math.prod(shape[1:]) * fewest * (read * column + VECTOR_NS)
    return gathering < pixels * (read - fewest) * taps * tiles * column


def _dense(drawn: Drawn, layer: Dense) -> None:
    channels, *window = drawn.shapes[layer.inputs[0]]
    weight = drawn.model.tensors[f"{layer.name}.weight"]
    drawn.append(
        "conv2d",
        layer.name,
        layer.inputs,
        (layer.out_features, 1, 1),
        shown="dense",
        filters=drawn.places[layer.inputs[0]].filters(weight.T.reshape(layer.out_features, channels, *window)),
        numbers=(drawn.model.tensors[f"{layer.name}.bias"].astype(np.float32),),
        kernel=tuple(window),
        activation=layer.activation,
        parameters=layer.activation_parameters,
    )


def _pooling(drawn: Drawn, layer: Pool) -> None:
    drawn.append_by_channel(
        f"{layer.method}_pool",
        layer.name,
        layer.inputs,
        layer.output_shape(drawn.shapes[layer.inputs[0]]),
        kernel=layer.window,
        stride=layer.stride,
        dilation=layer.dilation,
        padding=layer.padding,
        count_include_pad=layer.count_include_pad,
        ceil_mode=layer.ceil_mode,
    )


def _combine(drawn: Drawn, layer: Combine) -> None:
    """A sum goes into the convolution that feeds it and nothing else: it then runs when both operands are there."""
    function: dict[str, Any] = {"activation": layer.activation, "parameters": layer.activation_parameters}
    for name, other in (layer.inputs, layer.inputs[::-1]):
        if layer.operation == "add" and _feeds_alone(drawn, name, other):
            if not drawn.is_gathered(other):
                drawn.gather(other)
            drawn.move_to_end(drawn.places[name].parts[0])
            sources = (*drawn.planned[-1].sources, drawn.places[other].parts)
            drawn.planned[-1] = replace(drawn.planned[-1], sources=sources, **function)
            drawn.places[layer.name], drawn.shapes[layer.name] = drawn.places[name], drawn.shapes[name]
            return
    first, second = (drawn.places[name] for name in layer.inputs)
    alike = drawn.heights(first) == drawn.heights(second) and np.array_equal(first.order, second.order)
    if not alike or not first.are_all:  # what is not read might not be finite then
        for name in layer.inputs:
            if not drawn.is_gathered(name):
                drawn.gather(name)
    after = drawn.shapes[layer.inputs[0]]
    drawn.append_by_channel("combine", layer.name, layer.inputs, after, operation=layer.operation, **function)


def _feeds_alone(drawn: Drawn, name: str, other: str) -> bool:
    """Whether a layer is a convolution that can take its sum with another, and nothing else reads it."""
    place = drawn.places[name]
    fed = drawn.planned[place.parts[0]] if place.parts[0] >= 0 else None
    if fed is None or (fed.kind, fed.name) != ("conv2d", name) or drawn.model.network.readers()[name] > 1:
        return False
    plain = (fed.pool_size, fed.activation, len(fed.sources)) == (1, "identity", 1) and place.are_plain
    return plain and name != other and drawn.shapes[name] == drawn.shapes[other]


def _affine(drawn: Drawn, layer: Affine | Activation) -> None:
    source = layer.inputs[0]
    if isinstance(layer, Affine):  # of channels that nothing reads any activation makes 1 finite
        scale, shift = drawn.numbers_of(layer, "scale", 0.0), drawn.numbers_of(layer, "shift", 1.0)
    else:
        ones = np.ones(drawn.shapes[source][0], np.float32)
        scale, shift = drawn.places[source].spread(ones, 0.0), drawn.places[source].spread(0 * ones, 1.0)
    drawn.append_by_channel(
        "affine",
        layer.name,
        layer.inputs,
        drawn.shapes[source],
        shown=layer.kind,
        numbers=(scale, shift),
        operation=_by(scale),
        activation=layer.activation,
        parameters=layer.activation_parameters,
    )


def _norm(drawn: Drawn, layer: LayerNorm | GroupNorm) -> None:
    source = layer.inputs[0]
    if drawn.shapes[source][0] != layer.channels:
        raise DoesNotFit(f"layer {layer.name!r} ({layer.kind}) normalises the numbers of a flattened image")
    by_place = isinstance(layer, GroupNorm) and not drawn.places[source].are_plain
    if by_place or not drawn.places[source].are_all:
        drawn.gather(source)
    drawn.append_by_channel(
        layer.kind,
        layer.name,
        layer.inputs,
        drawn.shapes[source],
        numbers=(drawn.numbers_of(layer, "scale", 0.0), drawn.numbers_of(layer, "shift", 0.0)),
        groups=layer.groups if isinstance(layer, GroupNorm) else 1,
        parameters=(layer.epsilon,),
    )


def _softmax(drawn: Drawn, layer: Softmax) -> None:
    kind = "log_softmax" if layer.log else "softmax"
    last = drawn.planned[-1] if drawn.planned and drawn.is_last(layer.inputs[0]) else None
    if last is not None and _gives_scores(last, drawn.dtype.itemsize) and last.activation == "identity":
        drawn.planned[-1] = replace(last, kind="scores", softmax=kind)
    else:
        drawn.add_identity(layer.name, layer.inputs[0], kind)


_BODIES: dict[type[Layer], Callable[[Drawn, Any], None]] = {
    Flatten: _view,
    Reshape: _reshape,
    Transpose: _transpose,
    Conv2d: _convolution,
    Dense: _dense,
    Pool: _pooling,
    Softmax: _softmax,
    Concat: _concat,
    ChannelSlice: _slice,
    ChannelShuffle: _shuffle,
    Combine: _combine,
    Affine: _affine,
    Activation: _affine,
    LayerNorm: _norm,
    GroupNorm: _norm,
    PRelu: _prelu,
}
