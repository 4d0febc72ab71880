"""Track tiles in lists, tuples and dictionaries, and the loop variables that refer to them."""

from __future__ import annotations

import ast
from dataclasses import replace

from .context import Container, Context, Tensor, Window


def elements_of(target: ast.expr, iterated: ast.expr, ctx: Context) -> dict[str, Tensor | Window]:
    """Return the loop variables that refer to tensors or slices of a container.

    The loop may iterate over `tiles`, enumerate(tiles), zip(tiles, ...), tiles.values() or tiles.items().
    """
    pair = target.elts if isinstance(target, ast.Tuple) else []
    match iterated:
        case ast.Name(id=container) if isinstance(target, ast.Name):
            known = ctx.scope.get(container)
            if isinstance(known, Container) and known.windows:
                return {target.id: Window()}
            if isinstance(known, Container) and known.element is not None:
                return {target.id: replace(known.element, dtype=f"{target.id}.dtype", shape=None)}
        case ast.Call(func=ast.Attribute(value=inner, attr="values")):
            return elements_of(target, inner, ctx)
        case ast.Call(func=ast.Attribute(value=inner, attr="items")) if len(pair) == 2:
            return elements_of(pair[1], inner, ctx)
        case ast.Call(func=ast.Name(id="reversed" | "list" | "tuple"), args=[inner]):
            return elements_of(target, inner, ctx)
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *_]) if len(pair) == 2:
            return elements_of(pair[1], inner, ctx)
        case ast.Call(func=ast.Name(id="zip"), args=arguments) if len(pair) == len(arguments):
            groups = [elements_of(node, argument, ctx) for node, argument in zip(pair, arguments)]
            return {name: element for elements in groups for name, element in elements.items()}
    return {}


def unpacked(target: ast.Tuple | ast.List, container: Container) -> dict[str, Tensor]:
    """Return the names to which the tensors of a container are assigned."""
    element, names = container.element, [node.id for node in target.elts if isinstance(node, ast.Name)]
    return {} if element is None else {name: replace(element, dtype=f"{name}.dtype", shape=None) for name in names}
