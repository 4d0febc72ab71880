"""Rewrite device loops: `for i in nl.dynamic_range(...)` and `while register` become calls that take the body as a
function."""

from __future__ import annotations

import ast
from typing import Any

import libcst as cst
from libcst import matchers as m

from .context import Context
from .notes import CHECK, CannotError


def counted(node: cst.For, loop: ast.For, ctx: Context) -> tuple[list[str], cst.BaseSuite]:
    """Return the header of the body function, the call of nl.fori_loop, and the body."""
    _check(node)
    variable, call = ctx.source.of(loop.target), loop.iter
    assert isinstance(call, ast.Call)
    bounds = [ast.unparse(argument) for argument in call.args]
    named = {str(keyword.arg): ast.unparse(keyword.value) for keyword in call.keywords}
    bounds += [named[each] for each in ("start", "stop", "step") if each in named]
    start, stop = ("0", bounds[0]) if len(bounds) == 1 else bounds[:2]
    step = f", step={bounds[2]}" if len(bounds) > 2 else ""
    name = ctx.fresh("loop_body")
    registers = m.Call(func=m.Attribute(attr=m.MatchIfTrue(lambda attr: attr.value.startswith("register_"))))
    if m.findall(node.body, registers) and not any(bound in ctx.registers for bound in bounds):
        ctx.add(CHECK, f"{variable} is an NkiScalar since NKI 0.7: nisa.scalar_store stores it, registers do not")
    return [f"def {name}({variable}):", f"{ctx.nl}.fori_loop({start}, {stop}, {name}{step})"], node.body


def conditional(node: cst.While, loop: ast.While, ctx: Context) -> tuple[list[str], cst.BaseSuite]:
    """Return the header of the body function, the call of nl.while_loop, and the body, which returns the register."""
    _check(node)
    register = ctx.source.of(loop.test)
    name = ctx.fresh("loop_body")
    body: Any = node.body
    assert isinstance(body, cst.IndentedBlock)
    returned = cst.parse_statement(f"return {register}")
    body = body.with_changes(body=[*body.body, returned])
    return [f"def {name}({register}):", f"{ctx.nl}.while_loop({register}, {name})"], body


def _check(node: cst.For | cst.While) -> None:
    """Reject statements that are valid in a loop but not in the body function that replaces it."""
    if node.orelse is not None:
        raise CannotError("a device loop cannot have an else branch")
    for kind, shown in ((m.Break(), "break"), (m.Continue(), "continue"), (m.Return(), "return")):
        if m.findall(node.body, kind):
            raise CannotError(f"`{shown}` in a device loop, whose body is a function that is traced once")


def refuse_carried(tree: ast.FunctionDef | None, loop: ast.For | ast.While, ctx: Context) -> None:
    """Reject names whose values are carried to the next iteration of a loop or to statements after the loop."""
    assert tree is not None
    variable = loop.target.id if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) else ""
    assigned = {
        n.id for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    }
    carried = sorted(
        name
        for name in assigned - ctx.registers - {variable}
        if _reads_first(loop.body, name) or _reads_first(_after(tree, loop), name)
    )
    if carried:
        names = ", ".join(carried)
        raise CannotError(
            f"a device loop passes {names} to its next iteration, but its body is traced only once: "
            f"keep the value in SBUF or HBM"
        )


def _after(tree: ast.FunctionDef, loop: ast.For | ast.While) -> list[ast.stmt]:
    """Return the statements of a function that follow a loop."""
    end = loop.end_lineno or loop.lineno
    return sorted(
        (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno > end),
        key=lambda node: node.lineno,
    )


def _reads_first(body: list[ast.stmt], name: str) -> bool | None:
    """Return True if the first use of a name in the statements may be a read, and None if they do not use it."""
    for statement in body:
        header, blocks = _parts(statement)
        uses = [n for part in header for n in ast.walk(part) if isinstance(n, ast.Name) and n.id == name]
        if uses:
            return isinstance(statement, ast.AugAssign) or any(isinstance(use.ctx, ast.Load) for use in uses)
        reads = [_reads_first(block, name) for block in blocks]
        if any(reads):
            return True
        decides = False in reads and (None not in reads or not isinstance(statement, ast.If))
        if decides:  # blocks of statements other than `if` are assumed to run
            return False
    return None


def _parts(statement: ast.stmt) -> tuple[list[ast.AST], list[list[ast.stmt]]]:
    """Return the parts of a statement outside its blocks, and its blocks (none for functions, classes and similar)."""
    if isinstance(statement, ast.If):
        return [statement.test], [statement.body, statement.orelse]
    if isinstance(statement, ast.For):
        return [statement.iter, statement.target], [statement.body, statement.orelse]
    if isinstance(statement, ast.While):
        return [statement.test], [statement.body, statement.orelse]
    if isinstance(statement, ast.With):
        return [*statement.items], [statement.body]
    return [statement], []
