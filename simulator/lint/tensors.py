"""Which memory and dtype the local tensors of a function have, as far as their allocations tell.

No flow is followed: a name counts as a tensor of a memory only if every assignment to it in the function says so.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from .api import api, arguments_of
from .source import External, FunctionNode, Resolved, parameters, stored_names

CREATORS = frozenset(f"nki.language.{name}" for name in ("ndarray", "zeros", "ones", "full", "rand", "load"))
Resolve = Callable[[ast.expr], "Resolved | None"]


@dataclass(frozen=True)
class Tensor:
    """A tensor's memory ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm") and dtype, None where not told."""

    buffer: str | None
    dtype: str | None


class LocalTensors:
    """The tensors of one function."""

    def __init__(self, function: FunctionNode, resolve: Resolve) -> None:
        self._resolve = resolve
        self._assigned: dict[str, list[ast.expr | None]] = {}
        for argument in parameters(function.args):
            self._assigned.setdefault(argument.arg, []).append(None)
        for statement in function.body:
            self._collect(statement)

    def _collect(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value)
        elif isinstance(node, ast.AnnAssign):
            self._assign(node.target, node.value)
        elif isinstance(node, (ast.For, ast.AugAssign, ast.NamedExpr, ast.AsyncFor)):
            self._assign(node.target, None)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for argument in parameters(node.args):
                self._assigned.setdefault(argument.arg, []).append(None)
        for child in ast.iter_child_nodes(node):
            self._collect(child)

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        for name in stored_names(target):
            self._assigned.setdefault(name, []).append(value if isinstance(target, ast.Name) else None)

    def of(self, expression: ast.expr) -> Tensor | None:
        """The tensor that an expression is or is a view of; None where that cannot be told."""
        return self._of(expression, frozenset())

    def _of(self, expression: ast.expr, seen: frozenset[str]) -> Tensor | None:
        if isinstance(expression, ast.Call):
            resolved = self._resolve(expression.func)
            if isinstance(resolved, External):
                return self._created(resolved.dotted, expression) if resolved.dotted in CREATORS else None
            if isinstance(expression.func, ast.Attribute) and expression.func.attr in api().views:
                base = self._of(expression.func.value, seen)
                changes = expression.func.attr in ("view", "ap")  # either may give another dtype
                return replace(base, dtype=None) if base is not None and changes else base
            return None
        if isinstance(expression, ast.Subscript):
            return self._of(expression.value, seen)
        if isinstance(expression, ast.Name) and expression.id in self._assigned and expression.id not in seen:
            tensors = [
                self._of(value, seen | {expression.id}) if value is not None else None
                for value in self._assigned[expression.id]
            ]
            known = [tensor for tensor in tensors if tensor is not None]
            if len(known) < len(tensors):
                return None
            buffers = {tensor.buffer for tensor in known}
            dtypes = {tensor.dtype for tensor in known}
            return Tensor(buffers.pop() if len(buffers) == 1 else None, dtypes.pop() if len(dtypes) == 1 else None)
        return None

    def _created(self, function: str, call: ast.Call) -> Tensor:
        bound = arguments_of(call, api().signatures[function])
        return Tensor(
            self._language_name(bound["buffer"]) if "buffer" in bound else "sbuf",
            self._language_name(bound["dtype"]) if "dtype" in bound else None,
        )

    def _language_name(self, expression: ast.expr) -> str | None:
        resolved = self._resolve(expression)
        if isinstance(resolved, External) and resolved.dotted.startswith("nki.language."):
            return resolved.dotted.removeprefix("nki.language.").removeprefix("MemoryRegion.")
        return None
