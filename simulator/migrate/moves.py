"""Rewrite nl.load and nl.store: masks become shorter slices, and vectors become columns."""

from __future__ import annotations

import ast

from .context import Result, Tensor
from .expressions import Expressions
from .instructions import Operands, allocate, dtype_of, emit_call, keywords_of, name, shape_of
from .notes import CannotError
from .placing import is_number
from .views import View, clip_whole


def load(ex: Expressions, call: ast.Call, dst: View | None) -> Result:
    """Rewrite nl.load(src, mask, dtype) as the loaded tile, or as a DMA if there is a mask or a `dst`."""
    keywords = keywords_of(call, ("src",))
    operands = Operands(ex, keywords.pop("mask", None))
    view = _rows(ex, operands.view(keywords["src"]), dst is None)
    dtype = ""
    if "dtype" in keywords and not (isinstance(keywords["dtype"], ast.Constant) and keywords["dtype"].value is None):
        dtype = ex.rewrite(keywords["dtype"]).text
    if dst is not None:
        emit_call(ex.ctx, operands, f"{ex.ctx.nisa}.dma_copy(dst={dst.text}, src={view.text})")
        return Result(dst.text, dst.tensor)
    if not operands.clips and not operands.condition:
        options = f", dtype={dtype}" if dtype else ""
        return Result(f"{ex.ctx.nl}.load({view.text}{options})", Tensor("sbuf", dtype or dtype_of(view), view.full))
    tile = allocate(ex.ctx, ex, shape_of(view), dtype or dtype_of(view), "sbuf")
    part = clip_whole(tile, operands.clips).text if operands.clips else tile.text
    emit_call(ex.ctx, operands, f"{ex.ctx.nisa}.dma_copy(dst={part}, src={view.text})")
    return tile


def _rows(ex: Expressions, view: View, fresh: bool) -> View:
    """Return a vector in HBM as a column, which is the shape of its tile."""
    if not fresh:
        return view
    rank = len(view.shape) if view.shape is not None else ex.ctx.ranks.get(view.text, 0)
    if rank == 1:
        extent = view.shape[0] if view.shape is not None else f"{view.text}.shape[0]"
        text = f"{view.text}.reshape(({extent}, 1))"
        return View(text, view.tensor, (extent, "1"), (extent, "1"))
    if rank == 0 and view.tensor.region != "sbuf":
        return View(f"{ex.ctx.needs('as_rows')}({view.text})", view.tensor, view.shape, view.full)
    return view


def load_transposed(ex: Expressions, call: ast.Call) -> Result:
    """Rewrite nl.load_transpose2d(src, mask, dtype)."""
    keywords = keywords_of(call, ("src",))
    operands = Operands(ex, keywords.pop("mask", None))
    if operands.clips:
        raise CannotError("nl.load_transpose2d does not accept a mask: shorten the slices with min(...)")
    view = operands.view(keywords["src"])
    dtype = f", dtype={ex.rewrite(keywords['dtype']).text}" if "dtype" in keywords else ""
    shape = tuple(reversed(view.full)) if view.full is not None and len(view.full) == 2 else None
    found = dtype.removeprefix(", dtype=") or dtype_of(view)
    return Result(f"{ex.ctx.nl}.load_transpose2d({view.text}{dtype})", Tensor("sbuf", found, shape))


def store(ex: Expressions, call: ast.Call) -> Result:
    """Rewrite nl.store(dst, value, mask)."""
    keywords = keywords_of(call, ("dst", "value"))
    operands = Operands(ex, keywords.pop("mask", None))
    view = operands.view(keywords["dst"])
    value = ex.rewrite(keywords["value"])
    if value.tensor is not None and value.tensor.region == "psum":
        value = Result(f"{ex.ctx.nl}.copy({value.text})", Tensor("sbuf", value.tensor.dtype, value.tensor.shape))
    if value.tensor is None and not isinstance(keywords["value"], (ast.Name, ast.Subscript)):
        value = Result(value.text, Tensor("sbuf"))
    if is_number(ex.ctx, keywords["value"]):
        value = Result(f"{ex.ctx.needs('filled')}({view.text}, {value.text})", Tensor("sbuf"))
    elif operands.clips:
        if not isinstance(keywords["value"], (ast.Name, ast.Subscript)) or value.text.startswith(f"{ex.ctx.nl}."):
            value = name(ex.ctx, value)
            part = clip_whole(value, operands.clips).text
        else:
            part = operands.view(keywords["value"]).text
        value = Result(part, value.tensor)
    text = f"{ex.ctx.nl}.store({view.text}, {value.text})"
    if operands.guard:
        emit_call(ex.ctx, operands, text)
        return Result("None")
    return Result(text)
