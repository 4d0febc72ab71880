"""Elementwise activations, which are applied to the output of a layer regardless of how it is viewed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...errors import ModelError
from ...layers import PRelu
from ..importer import Importer
from ..onnx_attributes import integer, number, text
from ..onnx_file import Node
from ..steps import activate, affine_view, channel_numbers, clip, combine_views, times
from .comparing import is_zero_or_one, nonzero

BOOL, FLOATS = 9, (1, 10, 11, 16)  # data type codes of bool and of the floating-point types in ONNX


def _plain(activation: str, *attributes: tuple[str, float]) -> Callable[[Importer, Node], None]:
    """Return the operator of an activation whose parameters are the given attributes, each with its default value."""

    def operator(importer: Importer, node: Node) -> None:
        parameters = tuple(number(node, name, default) for name, default in attributes)
        importer.give(node, activate(importer, importer.data(node), activation, parameters))

    return operator


def _gelu(importer: Importer, node: Node) -> None:
    way = text(node, "approximate", "none")
    if way not in ("none", "tanh"):
        raise ModelError(f"its approximation {way!r} is unknown")
    importer.give(node, activate(importer, importer.data(node), "gelu" if way == "none" else "gelu_tanh"))


def _fast_gelu(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    bias = importer.optional(node, 1)
    if bias is not None:
        view = affine_view(importer, view, np.ones(1), bias)
    importer.give(node, activate(importer, view, "gelu_tanh"))


def _bias_gelu(importer: Importer, node: Node) -> None:
    view = affine_view(importer, importer.data(node), np.ones(1), importer.weight(node, 1))
    importer.give(node, activate(importer, view, "gelu"))


def _quick_gelu(importer: Importer, node: Node) -> None:
    """Convert x * sigmoid(alpha * x)."""
    view = importer.data(node)
    scaled = times(importer, view, number(node, "alpha", 1.702))
    importer.give(node, combine_views(importer, "multiply", view, activate(importer, scaled, "sigmoid")))


def _clip(importer: Importer, node: Node) -> None:
    view = importer.data(node)
    low = number(node, "min", -math.inf) if "min" in node.attributes else importer.scalar(node, 1, -math.inf)
    high = number(node, "max", math.inf) if "max" in node.attributes else importer.scalar(node, 2, math.inf)
    importer.give(node, clip(importer, view, low, high))


def _prelu(importer: Importer, node: Node) -> None:
    view, slope = importer.data(node), importer.weight(node, 1)
    if slope.size == 1:
        importer.give(node, activate(importer, view, "leaky_relu", (float(slope.ravel()[0]),)))
        return
    source, numbers, back = channel_numbers(importer, view, slope)
    if numbers.ndim != 1:  # with one slope per element, as in Keras: relu(x) - slope * relu(-x)
        below = activate(importer, affine_view(importer, view, -np.ones(1), np.zeros(1)), "relu")
        above = activate(importer, view, "relu")
        importer.give(node, combine_views(importer, "add", above, affine_view(importer, below, -slope, np.zeros(1))))
        return
    layer = PRelu(importer.name("prelu"), len(numbers), inputs=(source,))
    importer.give(node, back(importer.add(layer, {"slope": numbers})))


def _swish(importer: Importer, node: Node) -> None:
    if number(node, "alpha", 1.0) != 1:
        raise ModelError("its alpha is not 1")
    importer.give(node, activate(importer, importer.data(node), "silu"))


def _erfc(importer: Importer, node: Node) -> None:
    """Convert 1 - erf(x)."""
    result = activate(importer, importer.data(node), "erf")
    importer.give(node, affine_view(importer, result, -np.ones(1), np.ones(1)))


def _celu(importer: Importer, node: Node) -> None:
    """Convert alpha * elu(x / alpha)."""
    alpha = number(node, "alpha", 1.0)
    if not alpha > 0:
        raise ModelError("its alpha is not positive")
    view = affine_view(importer, importer.data(node), np.full(1, 1 / alpha), np.zeros(1))
    result = activate(importer, view, "elu", (1.0,))
    importer.give(node, affine_view(importer, result, np.full(1, alpha), np.zeros(1)))


def _identity(importer: Importer, node: Node) -> None:
    importer.give(node, importer.data(node))


def _dropout(importer: Importer, node: Node) -> None:
    training = importer.constant(node, 2)
    if training is not None and training.any():
        raise ModelError("supported only in inference mode")
    importer.give(node, importer.data(node))


def _cast(importer: Importer, node: Node) -> None:
    to = integer(node, "to", 1)
    _cast_data(importer, node, "b" if to == BOOL else "f" if to in FLOATS else "i")


def _cast_like(importer: Importer, node: Node) -> None:
    """Convert data to the type of a constant, or a constant to the type of data (float, or 0 and 1 for conditions)."""
    like = importer.constants.get(node.inputs[1])
    if node.inputs[0] in importer.views:
        _cast_data(importer, node, "f" if like is None else like.dtype.kind)
        return
    values = importer.constants[node.inputs[0]].astype(np.float32)
    if is_zero_or_one(importer, importer.data(node, 1)) and not np.isin(values, (0, 1)).all():
        raise ModelError("casting numbers other than 0 and 1 to the type of a condition is not supported")
    importer.give(node, values)


def _cast_data(importer: Importer, node: Node, kind: str) -> None:
    """Convert data to a type of a kind: "b" (bool), "f" (floating point) or "i" and "u" (integers)."""
    view = importer.data(node)
    if kind in "iu" and not is_zero_or_one(importer, view):
        raise ModelError("casting data to integers is not supported; select an earlier output with --output-name")
    importer.give(node, nonzero(importer, view) if kind == "b" else view)


OPERATORS = {
    "Relu": _plain("relu"),
    "Sigmoid": _plain("sigmoid"),
    "Tanh": _plain("tanh"),
    "Gelu": _gelu,
    "com.microsoft.Gelu": _plain("gelu"),
    "com.microsoft.FastGelu": _fast_gelu,
    "com.microsoft.BiasGelu": _bias_gelu,
    "com.microsoft.QuickGelu": _quick_gelu,
    "HardSwish": _plain("hardswish"),
    "HardSigmoid": _plain("hardsigmoid", ("alpha", 0.2), ("beta", 0.5)),
    "LeakyRelu": _plain("leaky_relu", ("alpha", 0.01)),
    "Elu": _plain("elu", ("alpha", 1.0)),
    "Celu": _celu,
    "Selu": _plain("selu", ("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "Softplus": _plain("softplus"),
    "Softsign": _plain("softsign"),
    "Mish": _plain("mish"),
    "Swish": _swish,
    "Exp": _plain("exp"),
    "Abs": _plain("abs"),
    "Sqrt": _plain("sqrt"),
    "Erf": _plain("erf"),
    "Erfc": _erfc,
    "Sign": _plain("sign"),
    "Sin": _plain("sin"),
    "Cos": _plain("cos"),
    "Clip": _clip,
    "PRelu": _prelu,
    "Identity": _identity,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
}
