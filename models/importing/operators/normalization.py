"""Normalisations, and the softmax at the end."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...network import LayerNorm, LocalResponseNorm, ModelError, Softmax
from .. import fold
from ..importer import Importer
from ..onnx_attributes import integer, number
from ..onnx_file import Node
from ..steps import affine_view


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
    others = tuple(other for other in view.order() if other != axis)
    planes = view.permuted((axis, *others))
    sides = planes.shape[1:]
    shape = (planes.shape[0], *((1, *sides) if len(sides) == 1 else sides))
    if len(shape) not in (1, 3):
        raise ModelError(f"normalises {importer.told(view)}; images and features are supported")
    source = importer.builder.arrange(planes, shape)
    layer = LayerNorm(importer.name("norm"), shape[0], number(node, "epsilon", 1e-5), inputs=(source,))
    own = {"scale": scale, "shift": np.zeros_like(scale) if shift is None else shift.reshape(-1)}
    made = importer.add(layer, own).reshaped(planes.shape, view.batched)
    back = sorted(range(len(view.axes)), key=lambda position: (axis, *others)[position])
    importer.give(node, made.permuted(tuple(back)))


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
    """The logarithm of a softmax, and of nothing else; numbers that keep it from zero are left out."""
    view = importer.data(node)
    layer = importer.builder.layers.get(view.layer)
    if not isinstance(layer, Softmax) or layer.log:
        raise ModelError("a logarithm is supported after a softmax alone")
    made = importer.add(Softmax(importer.name("softmax"), True, inputs=layer.inputs))
    importer.give(node, dataclasses.replace(view, layer=made.layer))


OPERATORS = {
    "BatchNormalization": _batch_normalization,
    "LRN": _local_response,
    "LayerNormalization": _layer_normalization,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Log": _log,
}
