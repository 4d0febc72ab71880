"""Long lines of generated code, broken as a formatter breaks them."""

from __future__ import annotations

import ast

WIDTH = 110


def wrapped(line: str) -> str:
    """A statement with the arguments of its call on lines of their own, where it is too long for one."""
    if len(line) <= WIDTH or "\n" in line or line.lstrip().startswith("#"):
        return line
    try:
        node = ast.parse(line).body[0]
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
