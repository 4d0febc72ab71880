"""Parsing of Python source, shared by lint, migrate and simulate."""

from __future__ import annotations

import ast
from typing import Literal, overload


@overload
def parse(text: str | bytes, name: str = ..., *, mode: Literal["exec"] = ...) -> ast.Module: ...
@overload
def parse(text: str | bytes, name: str = ..., *, mode: Literal["eval"]) -> ast.Expression: ...
def parse(text: str | bytes, name: str = "<unknown>", *, mode: str = "exec") -> ast.AST:
    """Parse a text as `ast.parse` does, and a second time if CPython 3.11 fails.

    If another thread parses at the same time, its parser may raise SystemError ("AST constructor recursion depth
    mismatch") for a valid text.
    """
    try:
        return ast.parse(text, name, mode)
    except SystemError:
        return ast.parse(text, name, mode)
