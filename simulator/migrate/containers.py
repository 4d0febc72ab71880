"""Track tiles in lists, tuples and dictionaries, and the loop variables that refer to them."""

from __future__ import annotations

import ast
from dataclasses import replace

from .context import Container, Context, Tensor, Window


def elements_of(target: ast.expr, iterated: ast.expr, ctx: Context) -> dict[str, Tensor | Window]:
    """Return the loop variables that refer to tensors or slices of a container.

    The loop may iterate over `tiles`, enumerate(tiles), zip(tiles, ...), tiles.values() or tiles.items().
    """
    if isinstance(iterated, ast.Name):
        known = ctx.scope.get(iterated.id)
        if isinstance(known, Container) and known.windows and isinstance(target, ast.Name):
            return {target.id: Window()}
        if isinstance(known, Container) and known.element is not None and isinstance(target, ast.Name):
            return {target.id: replace(known.element, dtype=f"{target.id}.dtype", shape=None)}
        return {}
    if not isinstance(iterated, ast.Call):
        return {}
    function, arguments = iterated.func, iterated.args
    pair = target.elts if isinstance(target, ast.Tuple) else []
    if isinstance(function, ast.Attribute) and function.attr == "values":
        return elements_of(target, function.value, ctx)
    if isinstance(function, ast.Attribute) and function.attr == "items" and len(pair) == 2:
        return elements_of(pair[1], function.value, ctx)
    called = function.id if isinstance(function, ast.Name) else ""
    if called in ("reversed", "list", "tuple") and len(arguments) == 1:
        return elements_of(target, arguments[0], ctx)
    if called == "enumerate" and len(pair) == 2 and arguments:
        return elements_of(pair[1], arguments[0], ctx)
    found: dict[str, Tensor | Window] = {}
    if called == "zip" and len(pair) == len(arguments):
        for each, argument in zip(pair, arguments):
            found.update(elements_of(each, argument, ctx))
    return found


def unpacked(target: ast.Tuple | ast.List, container: Container) -> dict[str, Tensor]:
    """Return the names to which the tensors of a container are assigned."""
    element, names = container.element, [each.id for each in target.elts if isinstance(each, ast.Name)]
    return {} if element is None else {name: replace(element, dtype=f"{name}.dtype", shape=None) for name in names}
