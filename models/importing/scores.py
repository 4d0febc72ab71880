"""Products of two values: incomplete attention scores, and the attention layers built from them.

A product of two values is not a layer. It is represented as attention scores, which are a view of a layer that does not
exist yet. Like any other view, they can be reshaped and transposed. Scales, biases and masks are collected; a softmax
over the keys and a product with a third value complete the attention.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from ..checks import Shape
from ..errors import ModelError
from ..layers import Affine, Attention
from ..layers.attention import MAX_TOKENS
from .importer import Importer
from .onnx_attributes import integer
from .onnx_file import Node
from .operators.rearranging import slice_axis
from .operators.reducing import sum_axes
from .steps import LARGEST, affine_view, chosen_everywhere, combine_views, widen
from .view import Factor, View

OF_TWO_VALUES = (
    "a product of two values that depend on the input is supported only as attention: a softmax over keys, and then a "
    "product with a third value"
)
LARGE = 1_000.0  # scores that are lower than others by LARGE are masked: their weights are 0
LEAST_MASK = 1e8  # a number of this size leaves nothing of the scores to which it is added, because of rounding
MOVING = (
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Identity",
    "Cast",
    "Dropout",
    "MatMul",
    "Einsum",
    "Flatten",
    "IsNaN",
)


@dataclass(frozen=True)
class Scores:
    """scale * queries keys^T + bias, [*lead, queries, keys]: the elements of the layer named by views, in order.

    Queries and keys are [*lead, tokens, features]; the bias is [*lead, queries, keys], as is `kept`. Where `kept` is
    False, the product is replaced with 0, so that only the bias remains.
    """

    queries: View
    keys: View
    scale: float = 1.0
    bias: np.ndarray | None = None
    kept: np.ndarray | None = None
    is_softmax: bool = False

    @property
    def shape(self) -> Shape:
        """The shape of the scores."""
        return (*self.queries.shape[:-1], self.keys.shape[-2])


def reads_scores(importer: Importer, node: Node) -> bool:
    """Return True if an input of a node consists of attention scores."""
    return any(name in importer.views and importer.views[name].layer in importer.scores for name in node.inputs)


def multiply_values(importer: Importer, left: View, right: View) -> View:
    """Return the product of two values, [*lead, rows, features] and [*lead, features, columns]."""
    if left.batched != right.batched:
        left, right = left.with_batch(), right.with_batch()
    if left.batched != right.batched or len(left.axes) != len(right.axes) or len(left.axes) < 2:
        raise ModelError(f"multiplies {importer.describe(left)} by {importer.describe(right)}")
    left, right = _of_all_heads(importer, left, right), _of_all_heads(importer, right, left)
    if left.shape[:-2] != right.shape[:-2] or left.shape[-1] != right.shape[-2]:
        raise ModelError(f"multiplies {importer.describe(left)} by {importer.describe(right)}")
    last = len(left.axes) - 1
    swapped = (*range(last - 1), last, last - 1)
    if left.layer in importer.scores:
        return _attend(importer, left, right)
    if right.layer in importer.scores and importer.scores[right.layer].is_softmax:
        return _attend(importer, right.permuted(swapped), left.permuted(swapped)).permuted(swapped)
    if right.layer in importer.scores:  # a (b c) equals (a b) c
        scores = importer.scores[right.layer]
        first = Scores(left, scores.queries.permuted(swapped), scores.scale, scores.bias)
        if right != View.of(right.layer, scores.shape, right.batched) or scores.bias is not None:
            raise ModelError(OF_TWO_VALUES)
        return _attend(importer, _view(importer, first, left.batched), scores.keys.permuted(swapped))
    if right.shape[-1] == 1 and right.shape[-2] > MAX_TOKENS:
        products = combine_views(importer, "multiply", left, right.permuted(swapped))
        return sum_axes(importer, products, (last,), True)
    if right.shape[-1] == 1:  # a weighted mean of tokens, as in global context blocks: attention with a single query
        token = _one_token(importer, right.permuted(swapped))
        weights = Scores(token, right)
        return _attend(importer, _view(importer, weights, left.batched), left.permuted(swapped)).permuted(swapped)
    return _view(importer, Scores(left, right.permuted(swapped)), left.batched)


def _of_all_heads(importer: Importer, view: View, other: View) -> View:
    """Return a view whose leading axes of size 1, such as the heads of shared keys, are repeated to match `other`."""
    lead = tuple(
        max(extent, wide) if extent == 1 else extent for extent, wide in zip(view.shape[:-2], other.shape[:-2])
    )
    if lead == view.shape[:-2] or view.layer in importer.scores:
        return view
    return widen(importer, view, (*lead, *view.shape[-2:]))


def change_scores(importer: Importer, node: Node) -> None:
    """Scale or mask scores, add a bias, or apply the softmax."""
    position = next(n for n, name in enumerate(node.inputs) if name in importer.views)
    view = importer.data(node, position)
    scores = importer.scores[view.layer]
    replacement = chosen_everywhere(importer, node) if node.op == "Where" else None
    if replacement is not None:
        importer.give(node, replacement)
        return
    if scores.is_softmax or sum(name in importer.views for name in node.inputs) > 1:
        raise ModelError(OF_TWO_VALUES)
    if node.op == "Softmax":
        axis = importer.axis(view, integer(node, "axis", -1 if importer.opset >= 13 else 1))
        if view.axes[axis] != (Factor(scores.shape[-1], 1),)[: scores.shape[-1] > 1] or axis != len(view.axes) - 1:
            raise ModelError("the softmax of a product of two values must be computed along the axis of the keys")
        new_scores = dataclasses.replace(_without_masked_rows(importer, scores), is_softmax=True)
    elif node.op == "Where":
        new_scores = _masked(importer, node, view, scores, position)
    elif node.op in ("Mul", "Div", "Add", "Sub"):
        new_scores = _with_numbers(importer, node, view, scores, position)
    else:
        raise ModelError(OF_TWO_VALUES)
    importer.give(node, dataclasses.replace(view, layer=_view(importer, new_scores, view.batched).layer))


def scale_scores(importer: Importer, view: View, factor: float) -> View:
    """Return a view of the scores multiplied by a number."""
    scores = importer.scores[view.layer]
    bias = None if scores.bias is None else scores.bias * np.float32(factor)
    new_scores = dataclasses.replace(scores, scale=scores.scale * factor, bias=bias)
    return dataclasses.replace(view, layer=_view(importer, new_scores, view.batched).layer)


def _one_token(importer: Importer, weights: View) -> View:
    """Return ones of the shape [*lead, 1, 1], for weights [*lead, 1, tokens]."""
    first = slice_axis(importer, weights, len(weights.axes) - 1, 0, 1)
    return affine_view(importer, first, np.zeros(1), np.ones(1))


def _view(importer: Importer, scores: Scores, batched: bool) -> View:
    name = f"scores {len(importer.scores)}"
    importer.scores[name] = scores
    return View.of(name, scores.shape, batched)


def _with_numbers(importer: Importer, node: Node, view: View, scores: Scores, place: int) -> Scores:
    values = importer.weight(node, 1 - place)
    if node.op in ("Add", "Sub"):
        if node.op == "Sub" and place == 1:
            raise ModelError(OF_TWO_VALUES)
        return _biased(scores, _in_order(importer, view, scores, values if node.op == "Add" else -values))
    if node.op == "Div" and place == 1:
        raise ModelError(OF_TWO_VALUES)
    values = values if node.op == "Mul" else 1 / values
    if values.size == 1:
        factor = float(values.ravel()[0])
        bias = None if scores.bias is None else scores.bias * np.float32(factor)
        return dataclasses.replace(scores, scale=scores.scale * factor, bias=bias)
    full = np.broadcast_to(values, (1, *view.shape) if view.batched else view.shape)
    by_lead = _in_order(importer, view, scores, full)
    if scores.bias is not None or (by_lead != by_lead[..., :1, :1]).any():
        raise ModelError("a product of two values may be scaled only by a single number")
    queries = affine_view(importer, scores.queries, by_lead[..., :1, :1], np.zeros(1))  # one temperature per head
    return dataclasses.replace(scores, queries=queries)


def _masked(importer: Importer, node: Node, view: View, scores: Scores, place: int) -> Scores:
    """Replace some scores with constants; a large negative number acts as a mask."""
    condition = importer.constant(node, 0)
    if condition is None or place == 0:
        raise ModelError(OF_TWO_VALUES)
    other = importer.weight(node, 3 - place)
    is_kept = condition.astype(bool) if place == 1 else ~condition.astype(bool)
    if is_kept.all():
        return scores
    kept = _in_order(importer, view, scores, is_kept)
    bias = np.zeros((), np.float32) if scores.bias is None else scores.bias
    bias = np.where(kept, bias, _in_order(importer, view, scores, other))
    return dataclasses.replace(scores, bias=bias, kept=kept if scores.kept is None else scores.kept & kept)


def _biased(scores: Scores, bias: np.ndarray) -> Scores:
    total = bias if scores.bias is None else scores.bias + bias
    leaves = np.abs(bias) < LEAST_MASK
    kept = leaves if scores.kept is None else scores.kept & leaves
    return dataclasses.replace(scores, bias=total, kept=None if kept.all() else kept)


def _without_masked_rows(importer: Importer, scores: Scores) -> Scores:
    """Return scores for a softmax over the keys, whose bias alone masks keys.

    If all keys of a query are masked, their largest bias becomes 0 where it would be clipped, and the query becomes 0
    if nothing of the product is kept, so that the weights of these keys are equal. Raises ModelError if the product is
    kept for some of them.
    """
    if scores.bias is None:
        return scores
    bias = scores.bias
    largest = bias.max(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # infinity minus infinity: the file computes NaN
        bias = np.where(largest < -LARGEST, np.nan_to_num(bias - largest, neginf=-LARGEST), bias)
    if scores.kept is not None:
        matters = bias - bias.max(axis=-1, keepdims=True) > -LARGE
        is_lost = (matters & ~scores.kept).any(axis=-1, keepdims=True)
        if (is_lost & (matters & scores.kept)).any():
            raise ModelError("entries of a product of two values may be replaced only by a mask")
        if is_lost.any():
            queries = affine_view(importer, scores.queries, 1.0 - is_lost, np.zeros(1))
            scores = dataclasses.replace(scores, queries=queries)
    return dataclasses.replace(scores, bias=np.clip(bias, -LARGEST, LARGEST), kept=None)


def _in_order(importer: Importer, view: View, scores: Scores, values: np.ndarray) -> np.ndarray:
    """Convert values that broadcast over a view of scores to [*lead, queries, keys]."""
    extents = (1, *view.shape) if view.batched else view.shape
    if values.ndim > len(extents) or any(a not in (1, b) for a, b in zip(values.shape[::-1], extents[::-1])):
        raise ModelError(f"{list(values.shape)} cannot be broadcast to {importer.describe(view)}")
    full = np.broadcast_to(values, extents)
    factors = [factor for axis in view.axes for factor in axis]
    order = sorted(range(len(factors)), key=lambda n: -factors[n].stride)
    apart = full.reshape([factor.extent for factor in factors])
    return np.ascontiguousarray(apart.transpose(order)).reshape(scores.shape)


def _attend(importer: Importer, view: View, values: View) -> View:
    """Return a view of the product of the scores and the values [*lead, keys, features]."""
    scores = importer.scores[view.layer]
    plain = View.of(view.layer, scores.shape, view.batched)
    if view != plain or values.shape[:-2] != scores.shape[:-2]:
        raise ModelError(OF_TWO_VALUES)
    return attend(importer, scores, values, view.batched)


def attend(importer: Importer, scores: Scores, values: View, batched: bool) -> View:
    """Return the product of scores (after a softmax, or without a bias) and values [*lead, keys, features].

    The result has the shape [*lead, queries, features].
    """
    if scores.bias is not None and not scores.is_softmax:
        raise ModelError(OF_TWO_VALUES)
    queries, scale = _unscaled(importer, scores.queries)
    keys, other = _unscaled(importer, scores.keys)
    operands = (queries, keys, values)
    heads = _heads(importer, queries)
    rows = tuple(axis for axis in range(len(scores.shape) - 2) if axis not in heads)
    lead = scores.shape[:-2]
    count, row_count = math.prod(lead[axis] for axis in heads), math.prod(lead[axis] for axis in rows)
    images = _images(importer, operands, row_count, bool(rows))
    order = (*heads, len(lead) + 1, *rows, len(lead))  # heads, features, rows, tokens
    sources = tuple(
        _arranged(importer, operand.permuted(order), (count * operand.shape[-1], *image))
        for operand, image in zip(operands, images)
    )
    bias = None if scores.bias is None else _folded(scores.bias, heads, rows, count)
    layer = Attention(
        importer.name("attention"),
        count,
        scale * other * scores.scale,
        bool(rows),
        () if bias is None else bias.shape,
        not scores.is_softmax,
        inputs=sources,
    )
    result = importer.add(layer, {} if bias is None else {"bias": bias})
    sizes = [*(lead[axis] for axis in heads), values.shape[-1], *(lead[axis] for axis in rows), scores.shape[-2]]
    spread = result.reshaped(tuple(sizes), batched)
    return spread.permuted(tuple(order.index(axis) for axis in (*range(len(lead)), len(lead), len(lead) + 1)))


def _arranged(importer: Importer, view: View, shape: Shape) -> str:
    """Return the layer that arranges a view in `shape`, reusing the layer of another consumer of the same view."""
    with contextlib.suppress(ModelError):
        view = view.reshaped(shape, view.batched)
    return importer.builder.arrange(view, shape)


def _unscaled(importer: Importer, view: View) -> tuple[View, float]:
    """Return a view without the layers that multiply it by a single number, and the product of these numbers."""
    scale = 1.0
    while True:
        layer = importer.builder.layers.get(view.layer)
        if not isinstance(layer, Affine) or layer.activation != "identity":
            return view, scale
        numbers = importer.builder.tensors[f"{layer.name}.scale"]
        if importer.builder.tensors[f"{layer.name}.shift"].any() or np.ptp(numbers) > 0:
            return view, scale
        scale *= float(numbers.ravel()[0])
        view = dataclasses.replace(view, layer=layer.inputs[0])


def _heads(importer: Importer, queries: View) -> tuple[int, ...]:
    """Return the axes before tokens and features that are heads (groups of channels); all other axes are sequences."""
    lead = range(len(queries.axes) - 2)
    shape = importer.shape(queries)
    if len(shape) != 3:
        return tuple(lead[-1:])
    plane = math.prod(shape[1:])
    return tuple(axis for axis in lead if all(factor.stride >= plane for factor in queries.axes[axis]))


def _images(importer: Importer, operands: tuple[View, ...], rows: int, by_rows: bool) -> tuple[Shape, ...]:
    """Return (H, W) of queries, keys and values; if the tokens are pixels, these are the sizes of their layers."""
    if by_rows:
        return tuple((rows, operand.shape[-2]) for operand in operands)
    shapes = [importer.shape(operand)[1:] for operand in operands]
    fits = [len(image) == 2 and math.prod(image) == operand.shape[-2] for image, operand in zip(shapes, operands)]
    plain: list[Shape] = [(1, operand.shape[-2]) for operand in operands]
    alike = fits[1] and fits[2] and shapes[1] == shapes[2]
    return shapes[0] if fits[0] else plain[0], *(shapes[1:] if alike else plain[1:])


def _folded(bias: np.ndarray, heads: tuple[int, ...], rows: tuple[int, ...], count: int) -> np.ndarray:
    """Return a bias as [heads, rows, queries, keys]; heads or rows have size 1 if all of them share one bias."""
    lead = bias.ndim - 2
    ordered = bias.transpose(*heads, *rows, lead, lead + 1).reshape(count, -1, *bias.shape[-2:])
    for axis in (0, 1):
        first = ordered.take([0], axis)
        ordered = first if (ordered == first).all() else ordered
    return np.ascontiguousarray(ordered)
