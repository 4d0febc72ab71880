"""Comparisons, logical operators and selections on values of 0 or 1, and activations composed of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import ModelError
from ...layers import Activation, Affine, Combine
from ..importer import Importer
from ..onnx_attributes import integer, number
from ..onnx_file import Node
from ..steps import activate, affine_view, chosen_everywhere, clip, combine_views, finite
from ..view import View

_TURNED = {"Greater": "Less", "Less": "Greater", "GreaterOrEqual": "LessOrEqual", "LessOrEqual": "GreaterOrEqual"}

# Activations that may return infinity, so that multiplying their results by 0 may give NaN instead of 0.
_UNBOUNDED = ("exp", "reciprocal", "power", "log", "softplus")


def _compare(importer: Importer, node: Node) -> None:
    """Convert a comparison, whose result is 1 where it holds and 0 elsewhere."""
    if len(node.inputs) != 2:
        raise ModelError(f"has {len(node.inputs)} inputs")
    op, views = node.op, [importer.views.get(name) for name in node.inputs]
    if views[0] is not None and views[1] is not None:
        view, limits = combine_views(importer, "subtract", views[0], views[1]), np.zeros(1)
    else:
        first = int(views[0] is None)  # index of the data operand
        view, constant = importer.data(node, first), importer.constant(node, 1 - first)
        if constant is None or not constant.size or not np.isfinite(constant.astype(np.float64)).all():
            raise ModelError("comparing with NaN or infinity is not supported")
        limits = constant.astype(np.float64)
        op = _TURNED.get(op, op) if first else op
    if limits.size > 1 and np.unique(limits).size > 1:
        view, limits = affine_view(importer, view, np.ones(1), -limits), np.zeros(1)
    importer.give(node, _comparison(importer, op, view, float(np.float32(limits.ravel()[0]))))


def _comparison(importer: Importer, op: str, view: View, limit: float) -> View:
    """Return 1 where the comparison `op` of a view with the number `limit` holds, and 0 elsewhere."""
    if op == "Greater":
        return activate(importer, view, "step", (limit,))
    if op == "LessOrEqual":
        return _not(importer, _comparison(importer, "Greater", view, limit))
    if op == "Less":
        return _comparison(importer, "Greater", _scaled(importer, view, -1), -limit)
    if op == "GreaterOrEqual":
        return _not(importer, _comparison(importer, "Less", view, limit))
    above, below = (_comparison(importer, name, view, limit) for name in ("Greater", "Less"))
    return _not(importer, combine_views(importer, "add", above, below))


def _not(importer: Importer, view: View) -> View:
    return affine_view(importer, view, -np.ones(1), np.ones(1))


def _scaled(importer: Importer, view: View, factor: float) -> View:
    return affine_view(importer, view, np.full(1, factor), np.zeros(1))


def _logic(operation: str) -> Callable[[Importer, Node], None]:
    """Return an operator that combines two values whose elements are 0 or 1."""

    def operator(importer: Importer, node: Node) -> None:
        constants = [importer.constants.get(name) for name in node.inputs]
        if len(constants) == 2 and constants[0] is None and constants[1] is None:
            importer.give(node, combine_views(importer, operation, importer.data(node, 0), importer.data(node, 1)))
            return
        position = 0 if constants[0] is None else 1
        values = constants[1 - position]
        if len(constants) != 2 or values is None:
            raise ModelError("one of its inputs is missing")
        mask = values.astype(np.float64)
        numbers = (mask, np.zeros(1)) if operation == "multiply" else (1 - mask, mask)
        importer.give(node, affine_view(importer, importer.data(node, position), *numbers))

    return operator


def _xor(importer: Importer, node: Node) -> None:
    difference = combine_views(importer, "subtract", importer.data(node, 0), importer.data(node, 1))
    importer.give(node, activate(importer, difference, "abs"))


def _where(importer: Importer, node: Node) -> None:
    """Select the second input where the first is 1, and the third elsewhere."""
    condition = importer.constants.get(node.inputs[0])
    selected = chosen_everywhere(importer, node)
    if selected is not None:
        importer.give(node, selected)
        return
    numbers = next((name for name in node.inputs[1:3] if name in importer.constants), None)
    if condition is not None and numbers is not None:
        place = 1 if numbers == node.inputs[2] else 2
        kept = condition.astype(np.float64) if place == 1 else 1 - condition.astype(np.float64)
        filled = (1 - kept) * finite(importer.constants[numbers].astype(np.float64))
        importer.give(node, affine_view(importer, importer.data(node, place), kept, filled))
        return
    mask: View | np.ndarray = importer.data(node) if condition is None else condition.astype(np.float64)
    parts = []
    for position, name in ((1, node.inputs[1]), (2, node.inputs[2])):
        branch_mask = mask if position == 1 else (1 - mask if isinstance(mask, np.ndarray) else _not(importer, mask))
        part = _chosen(importer, node, position, branch_mask)
        if part is not None:
            parts.append(part)
        elif name not in importer.constants:
            raise ModelError(f"its input number {position + 1} is missing")
    if not parts:
        raise ModelError("selecting from constants that are all zero is not supported")
    importer.give(node, parts[0] if len(parts) == 1 else combine_views(importer, "add", parts[0], parts[1]))


def _chosen(importer: Importer, node: Node, place: int, mask: View | np.ndarray) -> View | None:
    """Return the input at `place` where the mask selects it, and 0 elsewhere; None if the input is constant 0."""
    values = importer.constants.get(node.inputs[place])
    if values is not None:
        values = finite(values.astype(np.float64))
        if not values.any():
            return None
        assert isinstance(mask, View)
        return affine_view(importer, mask, values, np.zeros(1))
    view = importer.data(node, place)
    if isinstance(mask, np.ndarray):
        return affine_view(importer, view, mask, np.zeros(1))
    if not _may_be_infinite(importer, view.layer):
        return combine_views(importer, "multiply", view, mask)
    bound = _scaled(importer, mask, float(np.finfo(np.float32).max))  # 0 if not selected, else unbounded
    low = combine_views(importer, "minimum", view, bound)
    return combine_views(importer, "maximum", low, _scaled(importer, bound, -1))


def nonzero(importer: Importer, view: View) -> View:
    """Return 1 where a view is not 0, and 0 elsewhere."""
    return view if is_zero_or_one(importer, view) else _not(importer, _comparison(importer, "Equal", view, 0.0))


def is_zero_or_one(importer: Importer, view: View) -> bool:
    """Return whether a view is the result of comparisons, so that its elements are 0 or 1."""
    layer = importer.builder.layers.get(view.layer)
    if isinstance(layer, Affine) and layer.activation == "identity":  # 1 - x, a logical negation
        scale, shift = (importer.builder.tensors[f"{layer.name}.{part}"] for part in ("scale", "shift"))
        layer = importer.builder.layers.get(layer.inputs[0]) if (scale == -1).all() and (shift == 1).all() else None
    if isinstance(layer, Combine) and layer.operation in ("multiply", "maximum", "add"):
        layer = importer.builder.layers.get(layer.inputs[0])
    return isinstance(layer, Activation) and layer.activation in ("step", "sign")


def _may_be_infinite(importer: Importer, name: str) -> bool:
    """Return whether one of the last layers that compute a value may overflow."""
    for _ in range(8):
        layer = importer.builder.layers.get(name)
        if layer is None:
            return False
        if isinstance(layer, Activation) and layer.activation in _UNBOUNDED:
            return True
        if isinstance(layer, Combine):
            return layer.operation == "divide" or any(_may_be_infinite(importer, read) for read in set(layer.inputs))
        name = layer.inputs[0]
    return False


def _shrink(importer: Importer, node: Node) -> None:
    """Compute x - `bias` if x > `lambd`, x + `bias` if x < -`lambd`, and 0 otherwise."""
    view, limit, bias = importer.data(node), number(node, "lambd", 0.5), number(node, "bias", 0.0)
    if limit < 0:
        raise ModelError(f"its lambd must be at least 0, got {limit:g}")
    if limit == bias:  # softshrink: x minus its clipped value
        importer.give(node, combine_views(importer, "subtract", view, clip(importer, view, -limit, limit)))
        return
    above = _comparison(importer, "Greater", view, limit)
    below = _comparison(importer, "Less", view, -limit)
    result = combine_views(importer, "multiply", view, combine_views(importer, "add", above, below))
    if bias:
        moved = _scaled(importer, combine_views(importer, "subtract", below, above), bias)
        result = combine_views(importer, "add", result, moved)
    importer.give(node, result)


def _thresholded(importer: Importer, node: Node) -> None:
    limit = number(node, "alpha", 1.0)
    function = ("threshold", (limit,)) if limit else ("relu", ())
    importer.give(node, activate(importer, importer.data(node), *function))


def _is_nan(importer: Importer, node: Node) -> None:
    """Return False, because torch.export inserts IsNaN to guard a softmax over rows without keys, and no such rows
    exist."""
    importer.give(node, np.zeros(1, bool))


def _round(importer: Importer, node: Node) -> None:
    raise ModelError("rounding data to integers is not supported; select an earlier output with --output-name")


def _triangle(importer: Importer, node: Node) -> None:
    """Keep the upper or lower triangle of matrices, and set the other entries to 0."""
    view = importer.data(node)
    if len(view.axes) < 2:
        raise ModelError(f"expects matrices, but its input is {importer.describe(view)}")
    ones, diagonal = np.ones(view.shape[-2:]), int(importer.scalar(node, 1, 0))
    mask = np.triu(ones, diagonal) if integer(node, "upper", 1) else np.tril(ones, diagonal)
    importer.give(node, affine_view(importer, view, mask, np.zeros(1)))


OPERATORS = {
    "Trilu": _triangle,
    **dict.fromkeys((*_TURNED, "Equal"), _compare),
    "Not": lambda importer, node: importer.give(node, _not(importer, importer.data(node))),
    "And": _logic("multiply"),
    "Or": _logic("maximum"),
    "Xor": _xor,
    "Where": _where,
    "IsNaN": _is_nan,
    "Shrink": _shrink,
    "ThresholdedRelu": _thresholded,
    "Floor": _round,
    "Ceil": _round,
    "Round": _round,
}
