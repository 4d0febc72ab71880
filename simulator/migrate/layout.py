"""Lay out generated code: preserve the comments of replaced statements, and break long lines."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from typing import Any

import libcst as cst

from ..machine.syntax import parse

WIDTH = 110


def wrapped(line: str) -> str:
    """Break a call that is too long for one line, with line breaks after its arguments."""
    if len(line) <= WIDTH or "\n" in line or line.lstrip().startswith("#"):
        return line
    try:
        node = parse(line).body[0]
    except SyntaxError:
        return line
    value = getattr(node, "value", None)
    if not isinstance(value, ast.Call) or not (value.args or value.keywords):
        return line
    assert value.func.end_col_offset is not None
    opening = value.func.end_col_offset
    encoded = line.encode()
    start = encoded[:opening].decode()
    rest = encoded[opening:].decode()
    if not rest.startswith("(") or not rest.endswith(")"):
        return line
    parts = []
    for argument in value.args:
        parts.append(ast.get_source_segment(line, argument) or ast.unparse(argument))
    for keyword in value.keywords:
        text = ast.get_source_segment(line, keyword.value) or ast.unparse(keyword.value)
        parts.append(f"{keyword.arg}={text}" if keyword.arg is not None else f"**{text}")
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{start}(\n{inner})"


def in_place_of(node: cst.SimpleStatementLine, lines: Sequence[str | cst.BaseSmallStatement]) -> list[Any]:
    """Convert lines, which are new text or the node itself, to statements that have the comments of the node."""
    body: list[Any] = []
    before: list[cst.EmptyLine] = []  # comments before the next statement
    for line in lines:
        if isinstance(line, cst.BaseSmallStatement):
            statement = line.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            parsed = cst.Module([cst.SimpleStatementLine([statement])])
        else:
            parsed = cst.parse_module(f"{wrapped(line)}\n")
        before += parsed.header
        if parsed.body:
            first, *others = parsed.body
            body += [first.with_changes(leading_lines=[*before, *getattr(first, "leading_lines", ())]), *others]
            before = []
    if body:
        body[0] = body[0].with_changes(leading_lines=[*node.leading_lines, *body[0].leading_lines])
        if node.trailing_whitespace.comment is not None and isinstance(body[-1], cst.SimpleStatementLine):
            body[-1] = body[-1].with_changes(trailing_whitespace=node.trailing_whitespace)
    return body


def enclosed(text: str) -> str:
    """Parenthesise an expression if it contains a line break outside all brackets."""
    if "\n" not in text:
        return text
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(f"({text})").readline):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.string, 0) * (token.type == tokenize.OP)
        if token.type == tokenize.NL and depth == 1:
            return f"({text})"
    return text
