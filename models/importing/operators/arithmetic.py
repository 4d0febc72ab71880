"""Addition, multiplication and similar binary operators on two values or on a value and constants, for any view."""

from __future__ import annotations

import math

import numpy as np

from ...errors import ModelError
from ..importer import Importer
from ..onnx_file import Node
from ..steps import activate, affine_view, clip, combine_views
from ..view import View

_NAMES = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide", "Max": "maximum", "Min": "minimum"}


def _binary(importer: Importer, node: Node) -> None:
    operation = _NAMES[node.op]
    if len(node.inputs) != 2:
        raise ModelError(f"has {len(node.inputs)} inputs")
    views = [importer.views.get(name) for name in node.inputs]
    if views[0] is not None and views[1] is not None:
        importer.give(node, combine_views(importer, operation, views[0], views[1]))
        return
    position = 0 if views[0] is not None else 1
    view = importer.data(node, position)
    values = importer.constant(node, 1 - position)
    if values is None or not values.size:
        raise ModelError("one of its inputs is missing")
    importer.give(node, _with_numbers(importer, operation, view, values.astype(np.float64), position == 1))


def _with_numbers(importer: Importer, operation: str, view: View, values: np.ndarray, numbers_first: bool) -> View:
    scale_one, zero = np.ones(1), np.zeros(1)
    if operation == "add":
        return affine_view(importer, view, scale_one, values)
    if operation == "subtract":
        return affine_view(
            importer, view, -scale_one if numbers_first else scale_one, values if numbers_first else -values
        )
    if operation == "multiply":
        return affine_view(importer, view, values, zero)
    if operation == "divide":
        if numbers_first:
            return affine_view(importer, activate(importer, view, "reciprocal"), values, zero)
        if not values.all():
            raise ModelError("divides by zero")
        return affine_view(importer, view, 1 / values, zero)
    if values.size != 1:
        return combine_views(importer, operation, view, affine_view(importer, view, zero, values))
    limit = float(values.ravel()[0])
    return clip(importer, view, *((limit, math.inf) if operation == "maximum" else (-math.inf, limit)))


def _pow(importer: Importer, node: Node) -> None:
    view, exponent = importer.data(node), importer.scalar(node, 1, math.nan)
    if not math.isfinite(exponent):
        raise ModelError(f"an exponent of {exponent:g} is not supported")
    importer.give(node, power(importer, view, exponent))


def power(importer: Importer, view: View, exponent: float) -> View:
    """Raise a view to a power; fractional exponents other than 0.5 require positive values."""
    if exponent == 1:
        return view
    if exponent == 0.5:
        return activate(importer, view, "sqrt")
    if exponent == -1:
        return activate(importer, view, "reciprocal")
    if exponent in (2, 3, 4):  # valid for values of any sign
        square = combine_views(importer, "multiply", view, view)
        if exponent == 2:
            return square
        return combine_views(importer, "multiply", square, view if exponent == 3 else square)
    if exponent == int(exponent):
        raise ModelError(f"an exponent of {exponent:g} is not supported; -1, 1 to 4 and fractions are supported")
    return activate(importer, view, "power", (exponent,))


def _sum(importer: Importer, node: Node) -> None:
    """Convert the sum or mean of any number of inputs."""
    total = importer.data(node)
    for position in range(1, len(node.inputs)):
        total = combine_views(importer, "add", total, importer.data(node, position))
    if node.op == "Mean":
        total = affine_view(importer, total, np.full(1, 1 / len(node.inputs)), np.zeros(1))
    importer.give(node, total)


def _negate(importer: Importer, node: Node) -> None:
    importer.give(node, affine_view(importer, importer.data(node), -np.ones(1), np.zeros(1)))


OPERATORS = {
    **dict.fromkeys(_NAMES, _binary),
    "Sum": _sum,
    "Mean": _sum,
    "Neg": _negate,
    "Pow": _pow,
    "Reciprocal": lambda importer, node: importer.give(node, power(importer, importer.data(node), -1)),
}
