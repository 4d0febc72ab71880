"""Rewrite launch grids: the programs of a kernel, which ran sequentially, become a loop inside the kernel."""

from __future__ import annotations

from typing import Any

import libcst as cst
from libcst import matchers as m

from .context import Context
from .notes import CANNOT, MARK, CannotError

_CODE = cst.Module([])
LAUNCH = "the launch grid is an argument: kernel(..., grid=(2,)), not kernel[2](...)"


def over_programs(node: cst.FunctionDef, ctx: Context) -> cst.FunctionDef:
    """Add a parameter `grid` to the kernel, and enclose everything except the outputs in a loop over the programs."""
    assert isinstance(node.body, cst.IndentedBlock)
    body = list(node.body.body)
    first = 1 if body and _is_docstring(body[0]) else 0
    last = len(body) - 1
    if last < 0 or not _is_return(body[last]):
        last += 1
    outputs = [p for p in range(first, last) if _makes_output(body[p])]
    front = _front(body, first, outputs)
    inside = [body[p] for p in range(first, last) if p not in front]
    loops = cst.IndentedBlock(body=inside)
    for axis in reversed(range(ctx.programs)):
        loop = cst.parse_statement(f"for program_{axis} in range(grid[{axis}]):\n    pass")
        assert isinstance(loop, cst.For)
        loops = cst.IndentedBlock(body=[loop.with_changes(body=loops)])
    on_cores = cst.parse_statement(f'assert {ctx.nl}.num_programs(0) == 1, "{LAUNCH}"')
    new = [*body[:first], on_cores, *(body[p] for p in front), *loops.body, *body[last:]]
    parameter = cst.Param(cst.Name("grid"), default=cst.parse_expression(f"({', '.join(['1'] * ctx.programs)},)"))
    parameters = node.params.with_changes(params=[*node.params.params, parameter])
    return node.with_changes(body=node.body.with_changes(body=new), params=parameters)


def with_programs(node: cst.FunctionDef, ctx: Context) -> cst.FunctionDef:
    """Assign the program IDs and grid sizes of a kernel to the names that the loops would define."""
    assert isinstance(node.body, cst.IndentedBlock)
    body = list(node.body.body)
    first = 1 if body and _is_docstring(body[0]) else 0
    lines = [f"program_{axis} = {ctx.nl}.program_id({axis})" for axis in range(ctx.programs)]
    extents = "".join(f"{ctx.nl}.num_programs({axis}), " for axis in range(ctx.programs))
    added = [cst.parse_statement(line) for line in (*lines, f"grid = ({extents.strip()})")]
    return node.with_changes(body=node.body.with_changes(body=[*body[:first], *added, *body[first:]]))


def _is_docstring(node: Any) -> bool:
    return (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Expr)
        and isinstance(node.body[0].value, (cst.SimpleString, cst.ConcatenatedString))
    )


def _is_return(node: Any) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Return)


def _makes_output(node: Any) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and "shared_hbm" in _CODE.code_for_node(node)


def _front(body: list[Any], first: int, outputs: list[int]) -> list[int]:
    """Return the positions of the statements before the loop: the outputs and the statements on which they depend."""
    chosen = set(outputs)
    needed: set[str] = set()
    for position in reversed(range(first, max(outputs, default=-1) + 1)):
        if position in chosen or _stored(body[position]) & needed:
            chosen.add(position)
            needed |= _names(body[position])
    if any(name.startswith("program_") for name in needed):
        raise CannotError("the shape of an output must not depend on nl.program_id")
    return sorted(chosen)


def _names(*nodes: Any) -> set[str]:
    return {name.value for node in nodes for name in m.findall(node, m.Name()) if isinstance(name, cst.Name)}


def _stored(node: Any) -> set[str]:
    """Return the names that a statement assigns."""
    targets = m.AssignTarget() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr() | m.CompFor()
    assigning: list[Any] = [*m.findall(node, targets)]
    defining: list[Any] = [*m.findall(node, m.FunctionDef() | m.ClassDef() | m.AsName())]
    return _names(*(each.target for each in assigning), *(each.name for each in defining))


def over_programs_or_note(node: cst.FunctionDef, ctx: Context) -> cst.FunctionDef:
    """Return the result of `over_programs` or, if that fails, the function with a parameter `grid` and a note."""
    try:
        return over_programs(node, ctx)
    except CannotError as error:
        ctx.add(CANNOT, str(error))
        comment = cst.EmptyLine(comment=cst.Comment(f"{MARK}{error}"))
        return with_programs(node, ctx).with_changes(leading_lines=[*node.leading_lines, comment])
