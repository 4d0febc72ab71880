"""Operators of the ai.onnx.ml domain, which skl2onnx generates for the scalers and linear models of scikit-learn."""

from __future__ import annotations

import numpy as np

from ...errors import ModelError
from ...layers import Softmax
from ..importer import Importer
from ..onnx_attributes import number, numbers, text
from ..onnx_file import Node
from ..steps import activate, affine_view, combine_views
from ..view import View
from . import reducing
from .convolution import dense
from .rearranging import select_entries


def _scaler(importer: Importer, node: Node) -> None:
    view = importer.data(node).with_batch()
    scale = np.asarray(numbers(node, "scale", (1.0,)), np.float64)
    offset = np.asarray(numbers(node, "offset", (0.0,)), np.float64)
    importer.give(node, affine_view(importer, view, scale, -offset * scale))


def _linear(importer: Importer, node: Node, scale: float = 1.0) -> tuple[View, int]:
    """Return the scores of a linear model multiplied by `scale`, and the number of scores."""
    view = importer.data(node).with_batch()
    if len(view.axes) != 1:
        raise ModelError(f"expects features, but its input is {importer.describe(view)}")
    features = view.shape[0]
    coefficients = np.asarray(numbers(node, "coefficients"), np.float32)
    if not coefficients.size or coefficients.size % features:
        raise ModelError(f"has {coefficients.size} coefficients, but its input has {features} features")
    weight = coefficients.reshape(-1, features).T * np.float32(scale)
    bias = np.asarray(numbers(node, "intercepts"), np.float32) * np.float32(scale)
    return dense(importer, view, weight, bias if bias.size else None), weight.shape[1]


def _are_opposite(node: Node) -> bool:
    """Return whether there are two scores, one of which is the negative of the other, so that their sigmoids sum to
    1."""
    coefficients, intercepts = numbers(node, "coefficients"), numbers(node, "intercepts")
    half = len(coefficients) // 2
    negated = tuple(-value for value in coefficients[half:])
    return len(intercepts) == 2 and intercepts[0] == -intercepts[1] and coefficients[:half] == negated


def _linear_classifier(importer: Importer, node: Node) -> None:
    way = text(node, "post_transform", "NONE")
    halved = way == "LOGISTIC" and _are_opposite(node)
    view, count = _linear(importer, node, 0.5 if halved else 1.0)
    if halved:  # sigmoid(z) and sigmoid(-z) equal the softmax of z / 2 and -z / 2
        way = "SOFTMAX"
    if way == "SOFTMAX":
        view = importer.add(Softmax(importer.name("softmax"), inputs=(view.layer,)))
    elif way == "LOGISTIC":
        view = activate(importer, view, "sigmoid")
    elif way != "NONE":
        raise ModelError(f"its post_transform {way!r} is not supported")
    if count == 1:
        raise ModelError("a two-class classifier with a single score is not supported")
    importer.give(node, view, 1)


def _linear_regressor(importer: Importer, node: Node) -> None:
    if text(node, "post_transform", "NONE") != "NONE":
        raise ModelError("its post_transform is not supported")
    view = _linear(importer, node)[0]
    importer.values.add(view.layer)
    importer.give(node, view)


def _normalizer(importer: Importer, node: Node) -> None:
    """Divide by a norm; the L1 norm is skipped after a softmax, whose outputs already sum to 1."""
    view = importer.data(node).with_batch()
    way = text(node, "norm", "MAX")
    if way == "L1" and isinstance(importer.builder.layers.get(view.layer), Softmax):
        importer.give(node, view)
        return
    if way not in _NORMS or len(view.axes) != 1:
        raise ModelError(f"its norm {way!r} of {importer.describe(view)} is not supported")
    importer.give(node, combine_views(importer, "divide", view, _NORMS[way](importer, view, (0,), True)))


_NORMS = {"L1": reducing.absolute, "L2": reducing.norm, "MAX": reducing.largest_of}


def _some_features(importer: Importer, node: Node) -> None:
    view = importer.data(node).with_batch()
    entries = importer.constant(node, 1)
    if entries is None or entries.dtype.kind not in "iu" or not view.axes:
        raise ModelError("its entries are not a list of integers")
    indices, extent = entries.ravel().tolist(), view.shape[-1]
    if not indices or not 0 <= min(indices) <= max(indices) < extent:
        raise ModelError(f"cannot select the entries {indices[:8]} of an input with {extent} entries")
    importer.give(node, select_entries(importer, view, len(view.axes) - 1, indices))


def _zip_map(importer: Importer, node: Node) -> None:
    importer.give(node, importer.data(node))


def _imputer(importer: Importer, node: Node) -> None:
    """Omit the replacement of missing values, because inputs with NaN are rejected."""
    replaced = node.attributes.get("replaced_value_float", 0.0)
    if not isinstance(replaced, float) or not np.isnan(replaced):
        raise ModelError(f"replacing {replaced} is not supported; only missing values (NaN) can be replaced")
    importer.note("missing values (NaN) are not replaced; rows that contain NaN are rejected")
    importer.give(node, importer.data(node))


def _binarizer(importer: Importer, node: Node) -> None:
    importer.give(node, activate(importer, importer.data(node), "step", (number(node, "threshold", 0.0),)))


OPERATORS = {
    "ai.onnx.ml.Imputer": _imputer,
    "ai.onnx.ml.Binarizer": _binarizer,
    "ai.onnx.ml.Scaler": _scaler,
    "ai.onnx.ml.LinearClassifier": _linear_classifier,
    "ai.onnx.ml.LinearRegressor": _linear_regressor,
    "ai.onnx.ml.Normalizer": _normalizer,
    "ai.onnx.ml.ArrayFeatureExtractor": _some_features,
    "ai.onnx.ml.ZipMap": _zip_map,
}
