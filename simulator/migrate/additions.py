"""The helpers and imports that a migrated file needs."""

from __future__ import annotations

import ast
from typing import Any

import libcst as cst

from ..machine.syntax import parse
from . import support
from .imports import ENTRY_POINTS
from .names import Names

ON_HOST = ("as_kernel", "simulate_kernel")


def _parsed_helpers(helpers: str) -> list[Any]:
    """Return the statements of the helpers, separated by empty lines, below a comment."""
    empty = cst.EmptyLine(indent=False)
    body = cst.parse_module(helpers.strip("\n") + "\n").body
    parsed = [statement.with_changes(leading_lines=[empty, empty]) for statement in body]
    comment = cst.EmptyLine(comment=cst.Comment("# Helpers that trninfer migrate added"))
    parsed[0] = parsed[0].with_changes(leading_lines=[empty, empty, comment])
    return parsed


def with_support(module: cst.Module, names: Names, helper_names: set[str], keep_runners: bool = False) -> cst.Module:
    """Return the file with the helpers it uses and the imports it needs."""
    nl, nisa = names.nl, names.nisa
    tree = parse(module.code)
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    aliases = {} if keep_runners else {n: _helper(d) for n, d in names.bound_to(ENTRY_POINTS).items() if n in loaded}
    helper_names = {name for name in helper_names if name in loaded or name not in ON_HOST} | set(aliases.values())
    helpers = support.source(helper_names, nl, nisa)
    helpers += "".join(f"\n{name} = {helper}\n" for name, helper in sorted(aliases.items()) if name != helper)
    used = {node.id for root in (tree, parse(helpers)) for node in ast.walk(root) if isinstance(node, ast.Name)}
    needed = []
    for line, alias in (
        (f"import nki.isa as {nisa}", nisa),
        (f"import nki.language as {nl}", nl),
        ("import nki", "nki"),
        ("import inspect", "inspect" if "inspect." in helpers else ""),
        ("import math", "math" if "math." in helpers else ""),
    ):
        if alias in used and not _imports(tree, alias):
            needed.append(line)
    if not needed and not helpers:
        return module
    body = list(module.body)
    at = _after_imports(body)
    added = [*cst.parse_module("".join(f"{line}\n" for line in sorted(needed))).body]
    if helpers:
        added += _parsed_helpers(helpers)
    return module.with_changes(body=[*body[:at], *added, *body[at:]])


def _helper(dotted: str) -> str:
    """Return the helper that replaces an entry point that is used as a value."""
    return "simulate_kernel" if dotted == "nki.simulate_kernel" else "as_kernel"


def _imports(tree: ast.Module, alias: str) -> bool:
    """Return True if a top-level import of a module binds a name."""
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in node.names:
                if (name.asname or name.name.split(".")[0]) == alias:
                    return True
    return False


def _after_imports(body: list[Any]) -> int:
    """Return the index of the first statement after the imports of a module."""
    last = 0
    for position, statement in enumerate(body):
        if isinstance(statement, cst.SimpleStatementLine) and any(
            isinstance(small, (cst.Import, cst.ImportFrom)) for small in statement.body
        ):
            last = position + 1
        elif isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            break
    if last == 0 and body and isinstance(body[0], cst.SimpleStatementLine) and isinstance(body[0].body[0], cst.Expr):
        return 1
    return last
