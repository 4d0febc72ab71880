"""Normalisations, softmax and logarithm."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ...errors import ModelError
from ...layers import GroupNorm, LayerNorm, LocalResponseNorm, Softmax
from .. import fold
from ..importer import Importer
from ..onnx_attributes import integer, number
from ..onnx_file import Node
from ..onnx_patterns import NORM_OVER_AXIS
from ..steps import activate, affine_view, whole_shape
from ..view import View
from .reducing import softmax_over


def _batch_normalization(importer: Importer, node: Node) -> None:
    if integer(node, "training_mode", 0) or not integer(node, "spatial", 1):
        raise ModelError(
            "only per-channel normalisation in inference mode is supported; export the network after model.eval()"
        )
    gamma, beta, mean, variance = (importer.weight(node, position, (1,)) for position in range(1, 5))
    affine = fold.batch_norm(gamma, beta, mean, variance, number(node, "epsilon", 1e-5))
    view = importer.data(node).with_batch()
    channel_axis = 0 if view.batched else 1  # the first axis may contain the tokens of one example
    if len(view.axes) <= channel_axis or view.shape[channel_axis] != len(affine.scale):
        raise ModelError(f"has parameters for {len(affine.scale)} channels, but its input is {importer.describe(view)}")
    extents = (len(affine.scale), *(1,) * (len(view.axes) - 1 - channel_axis))
    importer.give(node, affine_view(importer, view, affine.scale.reshape(extents), affine.shift.reshape(extents)))


def _local_response(importer: Importer, node: Node) -> None:
    view = importer.image(node)
    layer = LocalResponseNorm(
        importer.name("norm"),
        integer(node, "size", 0),
        number(node, "alpha", 1e-4),
        number(node, "beta", 0.75),
        number(node, "bias", 1.0),
        inputs=(importer.planes(view),),
    )
    result = importer.add(layer)
    importer.give(node, dataclasses.replace(view, layer=result.layer) if view.arrangement() is None else result)


def _layer_normalization(importer: Importer, node: Node) -> None:
    view = importer.data(node).with_batch()
    axis = importer.axis(view, integer(node, "axis", -1))
    if any(node.outputs[1:]):
        raise ModelError("its outputs for the mean and the deviation are not supported")
    if axis == 0 and len(view.axes) > 1:
        importer.give(node, _normalized_whole(importer, node, view))
        return
    if axis != len(view.axes) - 1:
        raise ModelError(
            "its axes are not supported; normalise over the channels of each pixel, the features, or all axes of an "
            "example"
        )
    scale = importer.weight(node, 1).reshape(-1)
    shift = importer.optional(node, 2)
    shift = np.zeros_like(scale) if shift is None else shift.reshape(-1)
    importer.give(node, _normalized(importer, view, axis, number(node, "epsilon", 1e-5), scale, shift))


def _normalized_whole(importer: Importer, node: Node, view: View) -> View:
    """Normalise a view over all its axes, with one scale and one shift per element."""
    scale = importer.weight(node, 1)
    shift = importer.optional(node, 2)
    shape = whole_shape(view.shape)
    source = importer.builder.arrange(view, shape if len(shape) == 3 else (1, 1, shape[0]))
    channels = importer.builder.shapes[source][0]
    layer = GroupNorm(importer.name("norm"), channels, 1, number(node, "epsilon", 1e-5), inputs=(source,))
    result = importer.add(layer, {"scale": np.ones(channels), "shift": np.zeros(channels)})
    shift = np.zeros(1) if shift is None else shift
    return affine_view(importer, result.reshaped(view.shape, True), scale, shift)


def _norm_over_axis(importer: Importer, node: Node) -> None:
    """Convert a layer normalisation written in elementary operators; its scales and shifts vary only along the axis."""
    view = importer.data(node).with_batch()
    axis = importer.axis(view, integer(node, "axis", -1))
    numbers = [importer.weight(node, position) for position in (1, 2)]
    trailing = view.rank - 1 - (axis + view.batched)
    for values in numbers:
        first_axis = values.ndim - 1 - trailing
        if values.size != 1 and not (first_axis >= 0 and values.shape[first_axis] == values.size):
            raise ModelError(f"its parameters have shape {list(values.shape)}; expected one value per channel")
    scale, shift = (np.broadcast_to(values.reshape(-1), (view.shape[axis],)) for values in numbers)
    importer.give(node, _normalized(importer, view, axis, number(node, "epsilon", 1e-5), scale, shift))


def _normalized(
    importer: Importer, view: View, axis: int, epsilon: float, scale: np.ndarray, shift: np.ndarray
) -> View:
    """Normalise a view over one axis, which becomes the channel axis of the layer."""
    others = view.around(axis)
    planes = view.permuted((axis, *others))
    sides = planes.shape[1:]
    shape = (planes.shape[0], *((1, *sides) if len(sides) == 1 else sides))
    if len(shape) not in (1, 3):
        raise ModelError(f"cannot normalise {importer.describe(view)}; only images and features can be normalised")
    source = importer.builder.arrange(planes, shape)
    layer = LayerNorm(importer.name("norm"), shape[0], epsilon, inputs=(source,))
    result = importer.add(layer, {"scale": scale, "shift": shift}).reshaped(planes.shape, view.batched)
    back = sorted(range(len(view.axes)), key=lambda position: (axis, *others)[position])
    return result.permuted(tuple(back))


def _instance_normalization(importer: Importer, node: Node) -> None:
    scale, shift = importer.weight(node, 1, (1,)), importer.weight(node, 2, (1,))
    importer.give(node, _by_groups(importer, node, len(scale), scale, shift))


def _group_normalization(importer: Importer, node: Node) -> None:
    """Convert a group normalisation, whose scales and shifts are per channel or, before opset 21, per group."""
    scale, shift = importer.weight(node, 1, (1,)), importer.weight(node, 2, (1,))
    importer.give(node, _by_groups(importer, node, integer(node, "num_groups", 0), scale, shift))


def _by_groups(importer: Importer, node: Node, groups: int, scale: np.ndarray, shift: np.ndarray) -> View:
    """Normalise a view [batch, C, ...] in groups of channels.

    A group may span several channels of the viewed layer, because PyTorch exports group normalisation as an instance
    normalisation of [batch, groups, remaining elements]. In this case the channels of the viewed layer are kept.
    """
    view = importer.data(node).with_batch()
    if not view.batched or len(view.axes) < 2 or groups < 1 or view.shape[0] % groups or scale.shape != shift.shape:
        raise ModelError(f"cannot normalise {importer.describe(view)} in {groups} groups with {len(scale)} scales")
    shape = importer.shape(view)
    is_whole = groups == len(scale) == 1  # the result does not depend on the order of the elements
    if (is_whole or view.arrangement() is None) and len(shape) == 3 and shape[0] % view.shape[0] == 0:
        source = view.layer
    else:
        count = view.shape[0]
        shape = (count, 1, math.prod(view.shape[1:])) if len(view.axes) != 3 else view.shape
        source = importer.builder.arrange(view, shape)
        view = View.of(source, shape).reshaped(view.shape, True)
    if shape[0] % len(scale):
        raise ModelError(f"has parameters for {len(scale)} channels, but its input is {importer.describe(view)}")
    layer = GroupNorm(importer.name("norm"), shape[0], groups, number(node, "epsilon", 1e-5), inputs=(source,))
    group_size = shape[0] // len(scale)
    result = importer.add(layer, {"scale": np.repeat(scale, group_size), "shift": np.repeat(shift, group_size)})
    return dataclasses.replace(view, layer=result.layer)


def _softmax(importer: Importer, node: Node) -> None:
    view = importer.data(node).with_batch()
    last_alone = importer.opset >= 13
    axis = importer.axis(view, integer(node, "axis", -1 if last_alone else 1))
    axes = (axis,) if last_alone else tuple(range(axis, len(view.axes)))
    if math.prod(view.shape[axis] for axis in axes) != math.prod(view.shape):
        importer.give(node, softmax_over(importer, view, axes, node.op == "LogSoftmax"))
        return
    layer = Softmax(importer.name("softmax"), node.op == "LogSoftmax", inputs=(importer.rows(view),))
    result = importer.add(layer)
    importer.give(node, result.reshaped(view.shape, view.batched))


def _log(importer: Importer, node: Node) -> None:
    """Convert a logarithm; a logarithm of a softmax is fused into a log-softmax, which also avoids log(0)."""
    view = importer.data(node)
    layer = importer.builder.layers.get(view.layer)
    if not isinstance(layer, Softmax) or layer.log:
        importer.give(node, activate(importer, view, "log"))
        return
    result = importer.add(Softmax(importer.name("softmax"), True, inputs=layer.inputs))
    importer.give(node, dataclasses.replace(view, layer=result.layer))


OPERATORS = {
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "GroupNormalization": _group_normalization,
    "LRN": _local_response,
    "LayerNormalization": _layer_normalization,
    NORM_OVER_AXIS: _norm_over_axis,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Log": _log,
}
