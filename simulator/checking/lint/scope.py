"""Resolve the names used in a kernel's functions, and report findings about them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TypeAlias

from .api import Api, api
from .rules import RULES, Finding
from .source import (
    Definition,
    External,
    Files,
    FunctionNode,
    Import,
    Module,
    Resolved,
    bindings_of,
    local_names,
)

Located: TypeAlias = ast.expr | ast.stmt | ast.arg


class FunctionScope:
    """A function that the NKI compiler processes or, if `function` is None, the scope in which a function is
    defined."""

    def __init__(
        self,
        module: Module,
        function: FunctionNode | None,
        enclosing: tuple[FunctionNode, ...],
        files: Files,
        add: Callable[[Finding], None],
    ) -> None:
        self.module = module
        self._function = function
        self.locals = local_names(function) if function is not None else set()
        self._imports = _imports_of(function) if function is not None else {}
        self._outer = [module.bindings_in(outer) for outer in enclosing]
        self._enclosing = enclosing
        self.files = files
        self._add = add

    @property
    def function(self) -> FunctionNode:
        """The function that is being checked."""
        assert self._function is not None
        return self._function

    @property
    def api(self) -> Api:
        """The NKI API."""
        return api()

    def report(self, node: Located, rule: str, message: str) -> None:
        """Add a finding about a node."""
        assert rule in RULES, rule
        self._add(Finding(self.module.shown, node.lineno, rule, message))

    def resolve(self, expression: ast.expr) -> Resolved | None:
        """Resolve a name or a chain of attributes. Return None for local and unresolvable names."""
        if isinstance(expression, ast.Attribute):
            return self.files.attribute(self.resolve(expression.value), expression.attr)
        if not isinstance(expression, ast.Name) or expression.id in self.locals:
            return None
        name = expression.id
        if name in self._imports:
            return self.files.imported(self.module, self._imports[name])
        for depth in reversed(range(len(self._outer))):
            binding = self._outer[depth].get(name)
            if isinstance(binding, Import):
                return self.files.imported(self.module, binding)
            if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return Definition(self.module, binding, self._enclosing[: depth + 1])
            if binding is not None:
                return None
        if name in self.module.bindings:
            return self.files.member(self.module, name)
        return External(f"builtins.{name}") if hasattr(builtins, name) else None

    def external(self, expression: ast.expr) -> str | None:
        """Return the dotted path of a name if it is from a module whose source is not analysed."""
        resolved = self.resolve(expression)
        return resolved.dotted if isinstance(resolved, External) else None

    def changed_global(self, name: str) -> int | None:
        """Return the line that changes the global variable that a name refers to, if any."""
        shadowed = name in self.locals or any(name in bindings for bindings in self._outer)
        return None if shadowed else self.module.changed.get(name)


def _imports_of(function: FunctionNode) -> dict[str, Import]:
    """Return the imports inside a function."""
    imports = bindings_of(node for node in ast.walk(function) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {name: binding for name, binding in imports.items() if isinstance(binding, Import)}
