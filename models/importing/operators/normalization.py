"""Normalisations, and the softmax at the end."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...network import LayerNorm, LocalResponseNorm, ModelError, Softmax
from .. import fold
from ..importer import Importer
from ..onnx_attributes import integer, number
from ..onnx_file import Node
from ..onnx_patterns import NORM_OVER_AXIS
from ..steps import activate, affine_view
from ..view import View


def _batch_normalization(importer: Importer, node: Node) -> None:
    if integer(node, "training_mode", 0) or not integer(node, "spatial", 1):
        raise ModelError("supported for inference, by channel, alone: export the network after model.eval()")
    gamma, beta, mean, variance = (importer.weight(node, position, (1,)) for position in range(1, 5))
    affine = fold.batch_norm(gamma, beta, mean, variance, number(node, "epsilon", 1e-5))
    view = importer.data(node).with_batch()
    if not view.batched or not view.axes or view.shape[0] != len(affine.scale):
        raise ModelError(f"has numbers for {len(affine.scale)} channels, but {importer.told(view)} comes in")
    extents = (len(affine.scale), *(1,) * (len(view.axes) - 1))
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
    made = importer.add(layer)
    importer.give(node, dataclasses.replace(view, layer=made.layer) if view.arrangement() is None else made)


def _layer_normalization(importer: Importer, node: Node) -> None:
    view = importer.data(node).with_batch()
    axis = importer.axis(view, integer(node, "axis", -1))
    if axis != len(view.axes) - 1:
        raise ModelError("supported over the channels of each pixel, or over features, alone")
    if any(node.outputs[1:]):
        raise ModelError("its mean and deviation are not supported as outputs")
    scale = importer.weight(node, 1).reshape(-1)
    shift = importer.optional(node, 2)
    shift = np.zeros_like(scale) if shift is None else shift.reshape(-1)
    importer.give(node, _normalized(importer, view, axis, number(node, "epsilon", 1e-5), scale, shift))


def _norm_over_axis(importer: Importer, node: Node) -> None:
    """A layer normalisation that was spelled out, with numbers that broadcast along its axis."""
    view = importer.data(node).with_batch()
    axis = importer.axis(view, integer(node, "axis", -1))
    numbers = [importer.weight(node, position) for position in (1, 2)]
    trailing = view.rank - 1 - (axis + view.batched)
    for values in numbers:
        place = values.ndim - 1 - trailing
        if values.size != 1 and not (place >= 0 and values.shape[place] == values.size):
            raise ModelError(f"its numbers are {list(values.shape)}, where one for each channel fits")
    scale, shift = (np.broadcast_to(values.reshape(-1), (view.shape[axis],)) for values in numbers)
    importer.give(node, _normalized(importer, view, axis, number(node, "epsilon", 1e-5), scale, shift))


def _normalized(
    importer: Importer, view: View, axis: int, epsilon: float, scale: np.ndarray, shift: np.ndarray
) -> View:
    """A view normalised over one of its axes, which the layer reads as its channels."""
    others = tuple(other for other in view.order() if other != axis)
    planes = view.permuted((axis, *others))
    sides = planes.shape[1:]
    shape = (planes.shape[0], *((1, *sides) if len(sides) == 1 else sides))
    if len(shape) not in (1, 3):
        raise ModelError(f"normalises {importer.told(view)}; images and features are supported")
    source = importer.builder.arrange(planes, shape)
    layer = LayerNorm(importer.name("norm"), shape[0], epsilon, inputs=(source,))
    made = importer.add(layer, {"scale": scale, "shift": shift}).reshaped(planes.shape, view.batched)
    back = sorted(range(len(view.axes)), key=lambda position: (axis, *others)[position])
    return made.permuted(tuple(back))


def _softmax(importer: Importer, node: Node) -> None:
    view = importer.data(node).with_batch()
    last_alone = importer.opset >= 13
    axis = importer.axis(view, integer(node, "axis", -1 if last_alone else 1))
    over = view.shape[axis : axis + 1] if last_alone else view.shape[axis:]
    if int(np.prod(over)) != int(np.prod(view.shape)):
        raise ModelError(
            f"over a part of {importer.told(view)}, as attention or an answer for each pixel has it, is not supported"
        )
    layer = Softmax(importer.name("softmax"), node.op == "LogSoftmax", inputs=(importer.rows(view),))
    made = importer.add(layer)
    importer.give(node, made.reshaped(view.shape, view.batched))


def _log(importer: Importer, node: Node) -> None:
    """A logarithm; of a softmax it is one with it, and numbers that keep it from zero are left out."""
    view = importer.data(node)
    layer = importer.builder.layers.get(view.layer)
    if not isinstance(layer, Softmax) or layer.log:
        importer.give(node, activate(importer, view, "log"))
        return
    made = importer.add(Softmax(importer.name("softmax"), True, inputs=layer.inputs))
    importer.give(node, dataclasses.replace(view, layer=made.layer))


OPERATORS = {
    "BatchNormalization": _batch_normalization,
    "LRN": _local_response,
    "LayerNormalization": _layer_normalization,
    NORM_OVER_AXIS: _norm_over_axis,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Log": _log,
}
