"""Einsum of two values, or of data and weights, as in Keras's EinsumDense layer and graph convolutions; CumSum."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import NamedTuple

import numpy as np

from ...errors import ModelError
from ..importer import Importer
from ..onnx_attributes import integer, text
from ..onnx_file import Node
from ..scores import multiply_values
from ..steps import affine_view, combine_views
from ..view import View
from .convolution import dense, dense_by_lead
from .rearranging import MAX_SELECTED, reshaped


def _einsum(importer: Importer, node: Node) -> None:
    """Convert an Einsum of data and weights, or of two values.

    Axes that occur in both data and weights are summed over. If they also occur in the result, each entry has separate
    weights instead."""
    equation = text(node, "equation", "").replace(" ", "")
    places = [position for position, name in enumerate(node.inputs) if name in importer.views]
    if len(places) > 1:
        importer.give(node, _of_values(importer, node, equation))
        return
    inputs, arrow, result = equation.partition("->")
    terms = inputs.split(",")
    if len(node.inputs) != 2 or len(terms) != 2:
        raise ModelError(f"its equation {equation!r} is not supported; it must be a product of data and one weight")
    position = places[0]
    view = importer.data(node, position)
    weight = importer.weight(node, 1 - position)
    unused = "".join(letter for letter in ascii_uppercase if letter not in equation)
    dots = unused[: max(0, view.rank - len(terms[position]) + 3)]
    letters, others = (terms[at].replace("...", dots) for at in (position, 1 - position))
    result = (result if arrow else _implicit(inputs)).replace("...", dots)
    product = _product(letters, others, result)
    first = int(view.batched)
    has_all_axes = (len(letters), len(others)) == (view.rank, weight.ndim)
    if has_all_axes and product.scales(letters, others, result, first):
        importer.give(node, _scaled(importer, view, weight, (letters[first:], others, result[first:])))
        return
    if not has_all_axes or not product.is_supported(letters, others, result, first):
        raise ModelError(
            f"its equation {equation!r} of {importer.describe(view)} and weights {list(weight.shape)} is not "
            f"supported; sums must be over axes that occur in both operands but not in the result"
        )
    sizes, extents = dict(zip(letters[first:], view.shape)), dict(zip(others, weight.shape))
    if any(sizes[letter] != extents[letter] for letter in product.summed + product.lead):
        raise ModelError(f"cannot multiply {importer.describe(view)} by {list(weight.shape)} as {equation!r}")
    importer.give(node, _summed(importer, view, weight, product, (letters[first:], others, result[first:])))


def _summed(importer: Importer, view: View, weight: np.ndarray, product: _Product, axes: tuple[str, str, str]) -> View:
    """Multiply data by weights; `axes` are those of the data, the weights and the result, without the batch axis."""
    letters, others, result = axes
    summed, lead, new = product.summed, product.lead, product.new
    sizes, extents = dict(zip(letters, view.shape)), dict(zip(others, weight.shape))
    depth = math.prod(extents[letter] for letter in summed)
    rows = lead + _without("".join(letter for letter in letters if letter in product.kept), lead)
    ordered = view.permuted(tuple(map(letters.index, rows + summed)))
    outer = tuple(sizes[letter] for letter in rows)
    matrices = weight.transpose([others.index(letter) for letter in lead + summed + new])
    if lead:
        groups, pixels = math.prod(outer[: len(lead)]), math.prod(outer[len(lead) :])
        wide = reshaped(importer, ordered, (groups, pixels, depth), view.batched)
        product_view = dense_by_lead(importer, wide, matrices.reshape(groups, depth, -1))
    else:
        product_view = dense(
            importer, reshaped(importer, ordered, (*outer, depth), view.batched), matrices.reshape(depth, -1), None
        )
    spread = reshaped(importer, product_view, (*outer, *(extents[letter] for letter in new)), view.batched)
    return spread.permuted(tuple(map((rows + new).index, result)))


class _Product(NamedTuple):
    """The axes of a product of data and weights.

    `kept` contains the axes of the data that occur in the result, and `summed` those that do not. `lead` contains the
    kept axes that also occur in the weights, and `new` the axes of the weights that do not occur in the data.
    """

    kept: str
    summed: str
    lead: str
    new: str

    def scales(self, letters: str, others: str, result: str, batched: int) -> bool:
        """Return True if the weights only scale the data: no axis is summed or new, and the batch axis stays first."""
        if self.summed or self.new or sorted(result) != sorted(letters) or len(set(others)) < len(others):
            return False
        return not batched or (result[0] == letters[0] and letters[0] not in others)

    def is_supported(self, letters: str, others: str, result: str, batched: int) -> bool:
        """Return True if axes are summed, no operand has the same axis twice, and the batch axis, if there is one,
        remains the first axis."""
        if len(set(letters)) < len(letters) or len(set(others)) < len(others) or not self.summed:
            return False
        if batched and (letters[0] != self.kept[:1] or self.lead[:1] == letters[0] or result[:1] != letters[0]):
            return False
        return sorted(result) == sorted(self.kept + self.new)


def _product(letters: str, others: str, result: str) -> _Product:
    """Return the axes of a product of data with axes `letters` and weights with axes `others`."""
    kept_letters = "".join(letter for letter in letters if letter in result or letter not in others)
    lead = "".join(letter for letter in kept_letters if letter in others)
    return _Product(kept_letters, _without(letters, kept_letters), lead, _without(others, letters))


def _scaled(importer: Importer, view: View, weight: np.ndarray, axes: tuple[str, str, str]) -> View:
    """Multiply data by weights that have some of its axes; `axes` are those of the data, the weights and the result."""
    letters, others, result = axes
    sizes = dict(zip(others, weight.shape))
    ordered = weight.transpose([others.index(letter) for letter in letters if letter in others])
    scale = ordered.reshape([sizes.get(letter, 1) for letter in letters])
    scaled = affine_view(importer, view, scale[None] if view.batched else scale, np.zeros(1))
    return scaled.permuted(tuple(map(letters.index, result)))


def _without(letters: str, left_out: str) -> str:
    return "".join(letter for letter in letters if letter not in left_out)


def _of_values(importer: Importer, node: Node, equation: str) -> View:
    """Multiply two values; axes that occur in both values and in the result are batch axes."""
    inputs, _, result = equation.partition("->")
    terms = inputs.split(",")
    views = [importer.data(node, position) for position in range(len(terms))]
    plain = len(terms) == 2 and "." not in equation and all(len(set(term)) == len(term) for term in (*terms, result))
    if not plain or any(view.rank != len(term) for view, term in zip(views, terms)):
        raise ModelError(f"its equation {equation!r} of two values is not supported")
    first, second = terms
    if any(view.batched for view in views):
        if not all(view.batched and term[0] == result[:1] for view, term in zip(views, terms)):
            raise ModelError(f"its equation {equation!r} mixes the examples of a batch")
        first, second, result = first[1:], second[1:], result[1:]
    rows, columns = _without(first, second), _without(second, first)
    both = _without(first, rows)
    summed = _without(both, result)
    lead = _without(both, summed)
    if sorted(result) != sorted(lead + rows + columns):
        raise ModelError(f"its equation {equation!r} of two values is not supported")
    if not summed:
        aligned = (_with_axes(view, letters, result) for view, letters in zip(views, (first, second)))
        return combine_views(importer, "multiply", *aligned)
    sizes = dict(zip(first + second, (*views[0].shape, *views[1].shape)))
    left = _joined(importer, views[0], first, (*lead, rows, summed), sizes)
    right = _joined(importer, views[1], second, (*lead, summed, columns), sizes)
    product, letters = multiply_values(importer, left, right), lead + rows + columns
    if (len(rows), len(columns)) != (1, 1):
        product = reshaped(importer, product, tuple(sizes[letter] for letter in letters), product.batched)
    return product.permuted(tuple(map(letters.index, result)))


def _with_axes(view: View, letters: str, result: str) -> View:
    """Return a view with the axes of a result, with axes of size 1 inserted for those that it lacks."""
    axes = tuple(view.axes[letters.index(letter)] if letter in letters else () for letter in result)
    return dataclasses.replace(view, axes=axes)


def _joined(importer: Importer, view: View, letters: str, groups: Sequence[str], sizes: Mapping[str, int]) -> View:
    """Return a view with one axis for each group of its axes, such as the rows and columns of an image."""
    ordered = view.permuted(tuple(letters.index(letter) for group in groups for letter in group))
    if all(len(group) == 1 for group in groups):
        return ordered
    shape = tuple(math.prod(sizes[letter] for letter in group) for group in groups)
    return reshaped(importer, ordered, shape, view.batched)


def _implicit(inputs: str) -> str:
    """Return the implicit result of an equation: `...` if it occurs, then the letters that occur once, sorted."""
    counts = Counter(inputs.replace(",", "").replace(".", ""))
    once = sorted(letter for letter in counts if counts[letter] == 1)
    return "".join(["..." if "..." in inputs else "", *once])


def _cumulate(importer: Importer, node: Node) -> None:
    """Compute cumulative sums along an axis, by a product with a triangular matrix."""
    view = importer.data(node)
    axis = importer.axis(view, int(importer.scalar(node, 1, 0)))
    size = view.shape[axis]
    if size > MAX_SELECTED:
        raise ModelError(f"cannot sum {size} entries cumulatively; the limit is {MAX_SELECTED}")
    weights = np.triu(np.ones((size, size), np.float32), integer(node, "exclusive", 0))
    order = (*(other for other in range(len(view.axes)) if other != axis), axis)
    result = dense(importer, view.permuted(order), weights.T if integer(node, "reverse", 0) else weights, None)
    importer.give(node, result.permuted(tuple(order.index(other) for other in range(len(order)))))


OPERATORS = {"CumSum": _cumulate, "Einsum": _einsum}
