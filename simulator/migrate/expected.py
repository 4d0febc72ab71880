"""Comparisons that a file asserts to fail, such as `assertFalse(np.allclose(a, b))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

RAISING = frozenset({"assertRaises", "assertRaisesRegex", "raises"})  # unittest, pytest
EQUAL = {"assertEqual": True, "assertIs": True, "assertNotEqual": False, "assertIsNot": False}


def different_lines(tree: ast.AST) -> set[int]:
    """Return the lines of expressions whose value must be false, and of statements that must raise an error."""
    lines: set[int] = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        nodes = list(_own(scope))
        false = [part for node in nodes for part in _false_parts(node)]
        names = {part.id for part in false if isinstance(part, ast.Name)}
        for node in nodes:
            if isinstance(node, ast.Assign) and names & {t.id for t in node.targets if isinstance(t, ast.Name)}:
                false.append(node.value)
        for part in false:
            lines.update(range(part.lineno, (part.end_lineno or part.lineno) + 1))
    return lines


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield child
            yield from _own(child)


def _false_parts(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the expressions that a statement or an assertion of unittest requires to be false."""
    if isinstance(node, ast.Assert):
        yield from _negated(node.test, False)
    elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
        yield from _negated(node.test, True)
    elif isinstance(node, ast.With):
        if any(_name(item.context_expr) in RAISING for item in node.items):
            yield from node.body
    elif isinstance(node, ast.Call) and node.args:
        name = _name(node)
        if name in ("assertFalse", "assertTrue"):
            yield from _negated(node.args[0], name == "assertFalse")
        elif name in EQUAL and len(node.args) > 1:
            yield from _compared(node.args[0], node.args[1], EQUAL[name], False)


def _negated(node: ast.expr, negative: bool) -> Iterator[ast.expr]:
    """Yield the parts of an expression that must be false for it to be true, or to be false if `negative`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _negated(node.operand, not negative)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _negated(value, negative)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.Is, ast.NotEq, ast.IsNot)):
        yield from _compared(node.left, node.comparators[0], isinstance(node.ops[0], (ast.Eq, ast.Is)), negative)
    elif negative:
        yield node


def _compared(left: ast.expr, right: ast.expr, equal: bool, negative: bool) -> Iterator[ast.expr]:
    """Yield the parts that must be false in a comparison with True or False."""
    if isinstance(right, ast.Constant) and isinstance(right.value, bool):
        yield from _negated(left, negative ^ (right.value is not equal))


def _name(node: ast.expr) -> str:
    """Return the last part of the name of a called function."""
    function = node.func if isinstance(node, ast.Call) else node
    return getattr(function, "attr", getattr(function, "id", ""))
