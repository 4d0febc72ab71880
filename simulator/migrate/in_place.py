"""Rewrite instructions that have always written to `dst`. Only their operands change, to those that NKI 0.7 accepts."""

from __future__ import annotations

import ast

from . import later
from .context import Result
from .expressions import Expressions
from .instructions import IN_PLACE, Operands, emit_call, is_none, keywords_of
from .notes import CHECK, CannotError
from .views import View


def cumulative(ex: Expressions, call: ast.Call) -> Result | None:
    """Rewrite calls of nisa.tensor_scalar_cumulative.

    An imm1 that has no effect is omitted, because NKI 0.7 rejects it.
    """
    keywords = keywords_of(call, ())
    command = ex.ctx.names.dotted(keywords.get("reduce_cmd")) if "reduce_cmd" in keywords else "reset_reduce"
    if is_none(keywords.get("imm1", ast.Constant(None))) or command.endswith("load_reduce"):
        return None
    if not command:
        ex.ctx.add(
            CHECK, "imm1 is allowed only with reduce_cmd=nisa.reduce_cmd.load_reduce: pass None with other commands"
        )
        return None
    del keywords["imm1"]
    arguments = ", ".join(f"{parameter}={ex.rewrite(node).text}" for parameter, node in keywords.items())
    return Result(f"{ex.ctx.nisa}.tensor_scalar_cumulative({arguments})")


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _predicate(ex: Expressions, view: View, reverse: bool) -> str:
    """Return a predicate, which must consist of unsigned integers. The first compilers also accepted other dtypes."""
    if not reverse and view.tensor.dtype in (f"{ex.ctx.nl}.uint8", f"{ex.ctx.nl}.uint16"):
        return view.text
    return f"{ex.ctx.needs('as_predicate')}({view.text}{', reverse=True' if reverse else ''})"


def in_place(ex: Expressions, call: ast.Call, op: str) -> Result | None:
    """Rewrite an instruction that already had a `dst` parameter in the first NKI."""
    keywords = keywords_of(call, IN_PLACE[op])
    mask = keywords.pop("mask", None)
    if "dst" not in keywords and not call.args:
        return None
    operands = Operands(ex, mask)
    keywords.pop("dtype", None)
    if op == "dma_copy" and "dst_rmw_op" in keywords:
        raise CannotError("nisa.dma_copy with dst_rmw_op: use nisa.dma_compute(dst, [src], reduce_op=...)")
    if op == "nc_stream_shuffle" and not call.keywords and len(call.args) == 3 and not ex.ctx.names.is_first_dialect:
        return None
    reverse = op == "tensor_copy_predicated" and _is_true(keywords.get("reverse_pred"))
    reverse = reverse and ex.rewrite(keywords["src"]).tensor is not None
    if reverse:  # a tile does not accept reverse_pred
        del keywords["reverse_pred"]
    order = ["dst", *(parameter for parameter in keywords if parameter != "dst")]
    arguments = ", ".join(
        f"{parameter}={_operand(ex, operands, op, parameter, keywords[parameter], reverse)}" for parameter in order
    )
    text = f"{ex.ctx.nisa}.{op}({arguments})"
    if operands.guard:
        emit_call(ex.ctx, operands, text)
        return Result("None")
    return Result(text)


def _operand(ex: Expressions, operands: Operands, op: str, parameter: str, node: ast.expr, reverse: bool) -> str:
    """Return an argument as source text. `reverse` inverts the predicate."""
    if parameter == "predicate":
        return _predicate(ex, operands.view(node), reverse)
    if parameter in ("dst", "src", "on_true", "data"):
        view = operands.view(node)
        if op == "dma_copy" and parameter == "src" and view.tensor.region == "psum":
            ex.ctx.add(CHECK, "a DMA cannot read PSUM: its source is copied to SBUF first")
            return f"{ex.ctx.nl}.copy({view.text})"
        return view.text
    if parameter == "reduce_op":
        return ex.ctx.names.operator(node) or ex.rewrite(node).text
    return later.enumerated(ex, parameter, node) or ex.rewrite(node).text
