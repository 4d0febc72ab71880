"""Remove code in functions that is never traced: branches with constant conditions, and statements after a return."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from contextlib import suppress
from typing import Any

ENDING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
UNKNOWN = object()


def drop_dead_code(tree: ast.Module) -> None:
    """Remove code in a module's functions that, judging by literals and constants, is never executed."""
    constants = _constants(tree)
    with suppress(RecursionError):  # a chain of a thousand elifs is checked unchanged
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                node.body = _living(node.body, constants)
                _BranchSelector(constants).generic_visit(node)


def _constants(tree: ast.Module) -> dict[str, Any]:
    """Return the names of the module that are bound once, with their literal values."""
    nodes = list(ast.walk(tree))
    bound = Counter(node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    unknown = 0  # the last line that binds names which the file does not contain
    for node in nodes:
        names = _bound_otherwise(node)
        bound.update(names)
        if "*" in names:
            unknown = max(unknown, node.lineno)  # type: ignore[attr-defined]  # an import has a line
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.lineno > unknown
        if isinstance(node.targets[0], ast.Name) and bound[node.targets[0].id] == 1
    }


def _bound_otherwise(node: ast.AST) -> list[str]:
    """Return the names that a node other than a Name binds: parameters, imports, definitions, errors and patterns."""
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    return [name] if isinstance(name, str) else []


def _living(body: list[ast.stmt], constants: dict[str, Any]) -> list[ast.stmt]:
    """Return the statements of a block that may be executed."""
    statements: list[ast.stmt] = []
    for node in body:
        branch = _branch(node, constants)
        if branch is None:
            _shorten_blocks(node, constants)
            statements.append(node)
        else:
            statements += _living(branch, constants) if branch else []
        if statements and isinstance(statements[-1], ENDING):
            break
    return statements or [ast.copy_location(ast.Pass(), body[0])]


def _shorten_blocks(node: ast.stmt, constants: dict[str, Any]) -> None:
    """Remove the statements that are never executed from the blocks of a statement other than a definition."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return
    owners = (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ()))
    for owner, name in itertools.product(owners, ("body", "orelse", "finalbody")):
        part = getattr(owner, name, None)
        if isinstance(part, list) and part:
            setattr(owner, name, _living(part, constants))


def _branch(node: ast.stmt, constants: dict[str, Any]) -> list[ast.stmt] | None:
    """Return the statements that a statement with a constant condition executes, or None for other statements."""
    if isinstance(node, (ast.If, ast.While)):
        value = _value(node.test, constants)
        if value is UNKNOWN or (value and isinstance(node, ast.While)):
            return None
        return node.body if value else node.orelse
    return node.orelse if isinstance(node, ast.For) and _is_empty_range(node.iter, constants) else None


def _is_empty_range(node: ast.expr, constants: dict[str, Any]) -> bool:
    """Return True if an expression is a call of range whose constant arguments yield no number."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "range":
        return False
    bounds = [_value(argument, constants) for argument in node.args]
    known = bool(bounds) and all(type(bound) is int for bound in bounds) and bounds[2:] != [0]
    return known and not range(*bounds)


def _value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Return the value of a literal, a constant of the module, or its negation, or UNKNOWN."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return constants.get(node.id, UNKNOWN)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = _value(node.operand, constants)
        return value if value is UNKNOWN else not value
    return UNKNOWN


class _BranchSelector(ast.NodeTransformer):
    """A transformer that replaces `a if constant else b` with the expression that is chosen."""

    def __init__(self, constants: dict[str, Any]) -> None:
        self._constants = constants

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        value = _value(node.test, self._constants)
        return node if value is UNKNOWN else node.body if value else node.orelse
