"""Layers for products of two values that are not part of an attention layer.

Examples are logits that are mixed between heads, and logits with a data-dependent bias. The scores (see scores.py) are
computed by an attention layer whose values are the identity matrix, so that its output is the softmax weights or the
product itself.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .importer import Importer
from .onnx_file import Node
from .operators.rearranging import mix_entries
from .scores import Scores, attend
from .steps import LARGEST, affine_view
from .view import View


def write_out_inputs(importer: Importer, node: Node) -> None:
    """Replace the scores that a node reads with layers that compute them."""
    for name in node.inputs:
        if name in importer.views:
            importer.views[name] = written_out(importer, importer.views[name])


def written_out(importer: Importer, view: View) -> View:
    """Convert a view of scores to a view of a layer that computes them; return other views unchanged."""
    if view.layer not in importer.scores:
        return view
    scores = importer.scores[view.layer]
    if view.layer not in importer.products:
        importer.products[view.layer] = _compute(importer, scores, view.batched)
    product = importer.products[view.layer]
    axes = dict(zip(View.of(view.layer, scores.shape).axes, product.axes))
    if all(not axis or axis in axes for axis in view.axes):  # the view is at most transposed, with added axes of size 1
        return View(product.layer, tuple(axes[axis] if axis else () for axis in view.axes), view.batched)
    return dataclasses.replace(view, layer=importer.rows(product))


def _compute(importer: Importer, scores: Scores, batched: bool) -> View:
    """Return a view [*lead, queries, keys] of a layer that computes the scores."""
    if scores.is_softmax:
        return attend(importer, scores, _identity(importer, scores.keys), batched)
    plain = dataclasses.replace(scores, bias=None, kept=None)
    last = len(scores.shape) - 1
    if scores.queries.shape[-2] < scores.keys.shape[-2]:  # use the transpose, for which the identity matrix is smaller
        plain = dataclasses.replace(plain, queries=scores.keys, keys=scores.queries)
        result = attend(importer, plain, _identity(importer, plain.keys), batched)
        result = result.permuted((*range(last - 1), last, last - 1))
    else:
        result = attend(importer, plain, _identity(importer, plain.keys), batched)
    if scores.bias is None:
        return result
    kept = np.ones(1) if scores.kept is None else scores.kept.astype(np.float64)
    return affine_view(importer, result, kept, np.clip(scores.bias, -LARGEST, LARGEST))


def _identity(importer: Importer, keys: View) -> View:
    """Return identity matrices as values [*lead, keys, keys]."""
    count, features = keys.shape[-2:]
    zeros = mix_entries(importer, keys, len(keys.axes) - 1, np.zeros((count, features), np.float32))
    return affine_view(importer, zeros, np.ones(1), np.eye(count))
