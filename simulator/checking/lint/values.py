"""Python's own functions, containers and arithmetic, as far as the NKI compiler has them.

Source: the compiler's open-source tracer (leanprover/KLR, `KLR/Trace/Python.lean` and `Term.lean`) and the language
guide ("NKI Values"). The type of a name follows from its assignments in a function; without a type there are no
findings.
"""

from __future__ import annotations

import ast

from .scope import FunctionScope
from .source import stored_names

METHODS: dict[str, frozenset[str]] = {
    "list": frozenset({"append", "clear", "copy", "count", "extend", "index", "pop", "remove", "reverse"}),
    "dict": frozenset({"clear", "copy", "get", "items", "keys", "pop", "setdefault", "values"}),
    "str": frozenset(),
}
KINDS = {ast.List: "list", ast.Dict: "dict", ast.JoinedStr: "str"}


class Containers:
    """Local names of a function that are lists, dicts or strings."""

    def __init__(self, scope: FunctionScope) -> None:
        self._scope = scope
        self._kinds: dict[str, set[str]] = {}
        arguments = scope.function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._kinds[argument.arg] = {""}
        for node in ast.walk(scope.function):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.For)):
                targets = [node.target]
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            for target in targets:
                kind = self._of_value(value) if isinstance(target, ast.Name) and value is not None else ""
                for name in stored_names(target):
                    self._kinds.setdefault(name, set()).add(kind)

    def _of_value(self, value: ast.expr) -> str:
        if isinstance(value, ast.Constant):
            return "str" if isinstance(value.value, str) else ""
        if isinstance(value, ast.Call):
            called = (self._scope.external(value.func) or "").removeprefix("builtins.")
            return called if called in METHODS else ""
        return KINDS.get(type(value), "")

    def of(self, expression: ast.expr) -> str:
        """Return "list", "dict", "str", or "" if unknown."""
        if isinstance(expression, ast.Name):
            kinds = self._kinds.get(expression.id, {""})
            return next(iter(kinds)) if len(kinds) == 1 else ""
        return self._of_value(expression)


def check_values(scope: FunctionScope) -> None:
    """Check what a function does with Python's own functions, containers and numbers."""
    containers = Containers(scope)
    for node in ast.walk(scope.function):
        if isinstance(node, ast.Call):
            _check_call(scope, containers, node)
        elif isinstance(node, ast.Subscript):
            _check_subscript(scope, containers, node)
        elif isinstance(node, ast.BinOp):
            _check_arithmetic(scope, node)


def _check_call(scope: FunctionScope, containers: Containers, call: ast.Call) -> None:
    name = (scope.external(call.func) or "").removeprefix("builtins.")
    if name in ("min", "max"):
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        if call.keywords or (len(call.args) not in (1, 2) and not starred):
            came = f"{len(call.args)} arguments" if not call.keywords else f"{call.keywords[0].arg}="
            message = f"the NKI compiler takes {name} of one list or tuple, or of two numbers, got {came}"
            scope.report(call, "min-max", message)
        return
    if not isinstance(call.func, ast.Attribute):
        return
    kind, method = containers.of(call.func.value), call.func.attr
    if not kind:
        return
    if method not in METHODS[kind]:
        has = ", ".join(sorted(METHODS[kind])) or "no methods"
        message = f"the NKI compiler has no {kind}.{method}: a {kind} has {has}"
        scope.report(call, "container-method", message)
    elif kind == "list" and method == "pop" and (call.args or call.keywords):
        scope.report(call, "container-method", "the NKI compiler's list.pop takes the last element only, no index")


def _check_subscript(scope: FunctionScope, containers: Containers, node: ast.Subscript) -> None:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        if isinstance(part, ast.Slice) and part.step is not None and _is_negative(part.step):
            shown = ast.unparse(node)
            scope.report(node, "reversed-slice", f"the NKI compiler does not take {shown}: slices run forward")
    key = node.slice
    if containers.of(node.value) == "dict" and isinstance(key, ast.Constant) and not isinstance(key.value, str):
        scope.report(node, "dict-key", f"the NKI compiler takes strings as keys, got {ast.unparse(key)}")


def _check_arithmetic(scope: FunctionScope, node: ast.BinOp) -> None:
    """`a // b` and `a % b` are Euclidean: with a negative divisor they differ from Python's. A power of integers is an
    integer, and 1 where the exponent is negative."""
    shown = ast.unparse(node)
    if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and _is_negative(node.right):
        if not isinstance(node.left, ast.Constant) or not isinstance(node.left.value, str):
            message = f"{shown}: the NKI compiler rounds so that the remainder is never negative, Python down"
            scope.report(node, "integer-arithmetic", message)
    elif isinstance(node.op, ast.Pow) and _is_integer(node.left) and _is_negative(node.right):
        message = f"{shown} is 1 for the NKI compiler: take a float as the base"
        scope.report(node, "integer-arithmetic", message)


def _is_negative(node: ast.expr) -> bool:
    """True if an expression is written with a minus sign."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_integer(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_integer(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) is int
