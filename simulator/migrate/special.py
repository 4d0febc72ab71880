"""Rewrite instructions that need special treatment: iota and affine_select, which took index expressions, and
memset."""

from __future__ import annotations

import ast

from .context import Result, Tensor
from .expressions import Expressions, as_index
from .indices import Index, Mask
from .instructions import Operands, allocate, dtype_of, emit_call, keywords_of, name, shape_of
from .notes import CannotError
from .sums import Sum
from .views import View


def memset(ex: Expressions, call: ast.Call, dst: View | None) -> Result:
    """Rewrite nisa.memset(shape, value, dtype)."""
    keywords = keywords_of(call, ("shape", "value", "dtype"))
    operands = Operands(ex, keywords.pop("mask", None))
    value = ex.rewrite(keywords["value"]).text
    if dst is None:
        operands.clips = {}
        shape = ex.rewrite(keywords["shape"]).text
        tile = allocate(ex.ctx, ex, shape, ex.rewrite(keywords["dtype"]).text, "sbuf")
        dst = View(tile.text, tile.tensor or Tensor(), None, None)
    emit_call(ex.ctx, operands, f"{ex.ctx.nisa}.memset(dst={dst.text}, value={value}{_engine(ex, keywords)})")
    return Result(dst.text, dst.tensor)


def _engine(ex: Expressions, keywords: dict[str, ast.expr]) -> str:
    text = ex.rewrite(keywords["engine"]).text if "engine" in keywords else ""
    return f", engine={text}" if text and not text.endswith("engine.unknown") else ""


def _pattern(index: Index, shape: tuple[str, ...] = ()) -> tuple[str, str, str]:
    """Return the pattern, offset and channel multiplier of an index as an affine sequence over a tile.

    `shape`: the shape of the tile, along which the index is repeated, or () for that of the index.
    """
    rank = max(index.rank, 2)
    first = index.axes.get(-rank)
    pairs = []
    for at in range(-rank + 1, 0):
        axis = index.axes.get(at)
        repeated = f"[0, {shape[at] if shape else 1}]"
        pairs.append(f"[{axis.factor.text}, {axis.count.text}]" if axis is not None else repeated)
    return f"[{', '.join(pairs)}]", index.base.text, first.factor.text if first is not None else "0"


def iota(ex: Expressions, call: ast.Call, dst: View | None) -> Result:
    """Rewrite nisa.iota(expression, dtype)."""
    keywords = keywords_of(call, ("expr", "dtype"))
    operands = Operands(ex, keywords.pop("mask", None))
    index = as_index(ex.rewrite(keywords["expr"]))
    if index is None or not index.axes:
        raise CannotError("nisa.iota supports only index arrays")
    rank = max(index.rank, 2)
    pattern, offset, multiplier = _pattern(index)
    if dst is None:
        operands.clips = {}
        extents = [index.axes[at].count.text if at in index.axes else "1" for at in range(-rank, 0)]
        tile = allocate(ex.ctx, ex, f"({', '.join(extents)})", ex.rewrite(keywords["dtype"]).text, "sbuf")
        dst = View(tile.text, tile.tensor or Tensor(), None, None)
    elif operands.clips:
        raise CannotError("nisa.iota with a mask")
    text = f"{ex.ctx.nisa}.iota(dst={dst.text}, pattern={pattern}, offset={offset}, channel_multiplier={multiplier})"
    emit_call(ex.ctx, operands, text)
    return Result(dst.text, dst.tensor)


def affine_select(ex: Expressions, call: ast.Call, dst: View | None) -> Result:
    """Rewrite nisa.affine_select(pred, on_true_tile, on_false_value)."""
    keywords = keywords_of(call, ("pred", "on_true_tile", "on_false_value"))
    operands = Operands(ex, keywords.pop("mask", None))
    if operands.clips:
        raise CannotError("nisa.affine_select with a mask")
    predicate = ex.rewrite(keywords["pred"]).value
    if not isinstance(predicate, Mask) or len(predicate.below) != 1:
        raise CannotError("nisa.affine_select: pred is not a single comparison of index arrays")
    below = predicate.below[0].scaled(Sum(-1))  # -index >= 0
    view = operands.view(keywords["on_true_tile"])
    if view.tensor.region == "psum":  # GpSimd, which executes affine_select, cannot access PSUM
        copied = name(ex.ctx, Result(f"{ex.ctx.nl}.copy({view.text})", Tensor("sbuf", view.tensor.dtype, view.shape)))
        view = View(copied.text, copied.tensor or Tensor(), view.shape, view.full)
    rank = max(below.rank, 2)
    full = view.full if view.full is not None and len(view.full) == rank else ()
    if not full and any(at not in below.axes for at in range(1 - rank, 0)):
        raise CannotError("nisa.affine_select: pred does not cover all dimensions of the tile")
    pattern, offset, multiplier = _pattern(below, full)
    dtype = keywords.get("dtype")
    if dst is None:
        dtype_text = ex.rewrite(dtype).text if dtype is not None else dtype_of(view)
        tile = allocate(ex.ctx, ex, shape_of(view), dtype_text, "sbuf")
        dst = View(tile.text, tile.tensor or Tensor(), None, None)
    other = ex.rewrite(keywords["on_false_value"]).text
    text = (
        f"{ex.ctx.nisa}.affine_select(dst={dst.text}, pattern={pattern}, channel_multiplier={multiplier}, "
        f"offset={offset}, on_true_tile={view.text}, on_false_value={other}, cmp_op={ex.ctx.nl}.greater_equal)"
    )
    emit_call(ex.ctx, operands, text)
    return Result(dst.text, dst.tensor)


def where_of_mask(ex: Expressions, keywords: dict[str, ast.expr]) -> Result:
    """Rewrite nl.where(condition, tile, number) for a comparison of index arrays."""
    other = keywords["y"]
    if isinstance(other, ast.Call) and ex.ctx.names.dotted(other.func) == "nki.language.full":
        other = keywords_of(other, ("shape", "fill_value", "dtype"))["fill_value"]
    if ex.rewrite(keywords["x"]).tensor is None or ex.rewrite(other).tensor is not None:
        raise CannotError("nl.where of a condition on index arrays, unless x is a tile and y a number")
    arguments = [ast.keyword("dtype", keywords["dtype"])] if "dtype" in keywords else []
    return affine_select(ex, ast.Call(keywords["x"], [keywords["condition"], keywords["x"], other], arguments), None)
