"""Functions for tests of the checker's parts: the scope of a function, and the findings for it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from pathlib import Path

from trninfer.simulator.checking.lint.rules import Finding
from trninfer.simulator.checking.lint.scope import FunctionScope
from trninfer.simulator.checking.lint.source import Files, FunctionNode, parse_module

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\nimport numpy as np\n\n"


def scope_of(text: str, name: str = "kernel") -> tuple[FunctionScope, list[Finding]]:
    """Return the scope of a function in a file, and the list that receives its findings."""
    module, found = parse_module(text, "kernel.py", None), list[Finding]()
    function, enclosing = next(each for each in _functions(module.tree, ()) if each[0].name == name)
    return FunctionScope(module, function, enclosing, Files(), found.append), found


def _functions(node: ast.AST, around: tuple[FunctionNode, ...]) -> list[tuple[FunctionNode, tuple[FunctionNode, ...]]]:
    found = []
    for child in ast.iter_child_nodes(node):
        inner = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append((child, around))
            inner = (*around, child)
        found += _functions(child, inner)
    return found


def reported(
    check: Callable[[FunctionScope], None], body: str, before: str = "", parameters: str = "a, n"
) -> list[tuple[int, str, str]]:
    """Return (line of the body, rule, message) of the findings of one part of the checker for a kernel."""
    text = f"{HEAD}{before}def kernel({parameters}):\n{textwrap.indent(body, '    ')}\n"
    scope, found = scope_of(text)
    check(scope)
    first = scope.function.lineno
    return [(finding.line - first, finding.rule, finding.message) for finding in sorted(found)]


def write_files(folder: Path, **files: str) -> None:
    """Write Python files given by name, in which `__` separates folders."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
