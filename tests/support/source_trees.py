"""Syntax trees of the product's files, shared by several tests of the code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from trninfer.simulator.machine.syntax import parse


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    """Return all nodes of a file's syntax tree."""
    return list(ast.walk(tree_of(path)))
