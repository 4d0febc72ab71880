"""Find comparisons that a file asserts to be false, such as `assertFalse(np.allclose(a, b))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

RAISING = frozenset({"assertRaises", "assertRaisesRegex", "raises"})  # unittest, pytest
EQUAL = {"assertEqual": True, "assertIs": True, "assertNotEqual": False, "assertIsNot": False}


def different_lines(tree: ast.AST) -> set[int]:
    """Return the lines of expressions whose value must be false, and of statements that must raise an error."""
    return _lines(tree, False) - undecided_lines(tree)


def undecided_lines(tree: ast.AST) -> set[int]:
    """Return the lines of groups of expressions in which at least one must be true (or false) and the rest may be
    either."""
    return _lines(tree, None)


def _lines(tree: ast.AST, expected: bool | None) -> set[int]:
    lines: set[int] = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        nodes = list(_own(scope))
        parts = [part for node in nodes for part, value in _required(node) if value is expected]
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        for node in nodes:
            if isinstance(node, ast.Assign) and names & {t.id for t in node.targets if isinstance(t, ast.Name)}:
                parts.append(node.value)
        for part in parts:
            lines.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return lines


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, except for nodes inside nested functions."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
            yield from _own(child)


def _required(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, bool | None]]:
    """Yield the expressions in a statement or an assertion of unittest, each with the value that it must have."""
    if isinstance(node, ast.Assert):
        yield from _parts(node.test, False)
    elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
        yield from _parts(node.test, True)
    elif isinstance(node, ast.With):
        if any(_name(item.context_expr) in RAISING for item in node.items):
            yield from ((statement, False) for statement in node.body)
    elif isinstance(node, ast.Call) and node.args:
        name = _name(node)
        if name in ("assertFalse", "assertTrue"):
            yield from _parts(node.args[0], name == "assertFalse")
        elif name in EQUAL and len(node.args) > 1:
            yield from _compared(node.args[0], node.args[1], EQUAL[name], False)


def _parts(node: ast.expr, negative: bool) -> Iterator[tuple[ast.expr, bool | None]]:
    """Yield the parts of an expression that must be true, or false if `negative`, each with its value if known."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _parts(node.operand, not negative)
    elif isinstance(node, ast.BoolOp):
        one_is_enough = isinstance(node.op, ast.And) == negative and sum(map(_is_result, node.values)) > 1
        for value in node.values:
            for part, required in _parts(value, negative):
                yield part, None if one_is_enough else required
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.Is, ast.NotEq, ast.IsNot)):
        yield from _compared(node.left, node.comparators[0], isinstance(node.ops[0], (ast.Eq, ast.Is)), negative)
    else:
        yield node, not negative


def _is_result(node: ast.expr) -> bool:
    """Return True for an expression that may be the result of a comparison of arrays: one with a call or a name."""
    return any(isinstance(part, (ast.Call, ast.Name)) for part in ast.walk(node))


def _compared(left: ast.expr, right: ast.expr, equal: bool, negative: bool) -> Iterator[tuple[ast.expr, bool | None]]:
    """Yield the parts of a comparison with True or False, each with its value."""
    if isinstance(right, ast.Constant) and isinstance(right.value, bool):
        yield from _parts(left, negative ^ (right.value is not equal))


def _name(node: ast.expr) -> str:
    """Return the last part of the name of a called function."""
    function = node.func if isinstance(node, ast.Call) else node
    return getattr(function, "attr", getattr(function, "id", ""))
