"""Handle the first partitions of operands.

Operands of engines can start only at partition 0, 32, 64 or 96, whereas operands of DMAs can start at any partition.

The first compilers moved operands that began elsewhere. Since NKI 0.7 rejects them, the migration uses a DMA to write
copies and numbers, and adds a note to other instructions.
"""

from __future__ import annotations

import ast

from ..machine.syntax import parse
from .context import Context, Result, Tensor
from .expressions import Expressions
from .instructions import name
from .names import is_stored
from .notes import CHECK
from .sums import Sum

STEP = 32  # distance in partitions between the positions at which an engine's operand can start


def starts_anywhere(ctx: Context, tensor: Tensor | None) -> bool:
    """Return True unless the source shows that a tensor starts at a partition that engines support."""
    return tensor is not None and tensor.region != "hbm" and bool(_odd_parts(ctx, tensor))


def note_start(ctx: Context, *tensors: Tensor | None) -> None:
    """Add a note for operands of an engine that start at a partition that engines do not support, either always or in
    some iterations of a loop."""
    for tensor in tensors:
        if tensor is None or tensor.region not in ("sbuf", "psum"):
            continue
        odd = _odd_parts(ctx, tensor)
        if odd and all(text in ctx.loops or text.isdigit() for text in odd):
            message = (
                "engines start at partition 0, 32, 64 or 96: copy the operand to a separate tile with nisa.dma_copy"
            )
            ctx.add(CHECK, f"an operand starts at partition {tensor.start}; {message}")


def _odd_parts(ctx: Context, tensor: Tensor) -> list[str]:
    """Return the terms of the first partition of a tensor that are not known to be multiples of STEP."""
    start = Sum.of(tensor.start)
    odd = [str(start.number)] if start.number % STEP else []
    for text, factor in start.terms.items():
        if factor * ctx.names.factor(parse(text, mode="eval").body) % STEP:
            odd.append(text)
    return odd


def copied(ctx: Context, dst: Result, value: Result) -> str:
    """Return a call that copies a tile or a number to part of a tile that may start at any partition."""
    ctx.add(
        CHECK,
        f"engines cannot start at partition {dst.tensor.start if dst.tensor else 0}: a DMA copies the value there",
    )
    source = value.tensor.start if value.tensor is not None else "0"
    return f"{ctx.needs('place')}({dst.text}, {value.text}, ({dst.tensor.start if dst.tensor else 0}, {source}))"


def is_number(ctx: Context, node: ast.expr) -> bool:
    """Return True for a number and for a name to which the function assigns only numbers."""
    if isinstance(node, ast.UnaryOp):
        return is_number(ctx, node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if not isinstance(node, ast.Name) or ctx.tree is None:
        return False
    parts = list(ast.walk(ctx.tree))
    stored = [part for part in parts if isinstance(part, ast.Name) and part.id == node.id and is_stored(part)]
    values = [
        part.value
        for part in parts
        if isinstance(part, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in part.targets)
    ]
    only_assigned = 0 < len(values) == len(stored)  # the name is not bound by a loop or by `+=`
    return only_assigned and all(isinstance(value, ast.Constant) and is_number(ctx, value) for value in values)


def outputs(ex: Expressions, node: ast.expr) -> str:
    """Return the outputs of a kernel. Tiles are first stored to HBM, which the first compilers did themselves."""
    if isinstance(node, ast.Tuple):
        texts = [outputs(ex, element) for element in node.elts]
        changed = any(text != ex.ctx.source.of(element) for text, element in zip(texts, node.elts))
        return ", ".join(texts) + ("," if len(texts) == 1 else "") if changed else ex.rewrite(node).text
    result = ex.rewrite(node)
    if result.tensor is None or result.tensor.region not in ("sbuf", "psum"):
        return result.text
    nl, tile = ex.ctx.nl, name(ex.ctx, result).text if not result.text.isidentifier() else result.text
    output = ex.ctx.fresh("output")
    ex.ctx.emit(f"{output} = {nl}.ndarray({tile}.shape, dtype={tile}.dtype, buffer={nl}.shared_hbm)")
    ex.ctx.emit(f"{nl}.store({output}, {f'{nl}.copy({tile})' if result.tensor.region == 'psum' else tile})")
    ex.ctx.add(CHECK, f"outputs of a kernel must be in HBM: {ast.unparse(node)} is stored in {output}")
    return output
