"""Determine how a function uses its names, from its source before any part of it is migrated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from .indices import Index, without_unit_axes
from .names import Names

OF_TENSORS = frozenset({"shape", "dtype", "reshape", "broadcast_to", "ap", "permute", "select"})
MOVES = frozenset({"nki.language.load", "nki.language.store", "nki.language.load_transpose2d"})


def tensor_uses(tree: ast.FunctionDef, names: Names) -> dict[str, set[str]]:
    """Return the names that a function uses as tensors.

    The key "hbm of" contains the names from which it loads or to which it stores.
    """
    found: dict[str, set[str]] = {"hbm of": set()}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in OF_TENSORS:
                found.setdefault(name, set())
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple() | ast.Slice()):
                found.setdefault(name, set())
            case ast.Call(args=[ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)), *_]):
                if names.dotted(node.func) in MOVES:
                    found.setdefault(name, set())
                    found["hbm of"].add(name)
    return found


def ranks_of(tree: ast.FunctionDef) -> dict[str, int]:
    """Return the number of dimensions of each tensor, as shown by an unpacked shape or else by its longest index."""
    found: dict[str, int] = {}
    exact: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=parts)):
                if not any(isinstance(part, ast.Constant) and part.value in (Ellipsis, None) for part in parts):
                    found[name] = max(found.get(name, 0), len(parts))
            case ast.Assign(
                targets=[ast.Tuple(elts=parts) | ast.List(elts=parts), *_],
                value=ast.Attribute(value=ast.Name(id=name), attr="shape"),
            ):
                exact[name] = len(parts)
    return {**found, **exact}


def accumulators_of(
    tree: ast.FunctionDef, names: Names, products: Mapping[ast.stmt, ast.Call] = MappingProxyType({})
) -> set[str]:
    """Return the names whose only writes are additions of products."""
    added: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            base: ast.expr = node.target
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            value = products.get(node, node.value)
            dotted = names.dotted(value.func) if isinstance(value, ast.Call) else ""
            is_product = dotted in ("nki.isa.nc_matmul", "nki.language.matmul") and isinstance(node.op, ast.Add)
            if isinstance(base, ast.Name):
                (added if is_product else other).add(base.id)
        elif isinstance(node, ast.Assign):
            tiles = [target.value for target in node.targets if isinstance(target, ast.Subscript)]
            other |= {tile.id for tile in tiles if isinstance(tile, ast.Name)}
    return added - other


def named_grid(
    tree: ast.FunctionDef | None, target: ast.Tuple | ast.List, grid: tuple[Index, ...]
) -> tuple[Index, ...]:
    """Return the index arrays that are assigned to names, without their axes of size 1.

    These axes are kept if a subscript uses all of the names together, such as `t[i, j, k]`.
    """
    names = {element.id for element in target.elts if isinstance(element, ast.Name)}
    subscripts = [node for node in ast.walk(tree) if isinstance(node, ast.Subscript)] if tree is not None else []
    for node in subscripts:
        if names <= {part.id for part in ast.walk(node.slice) if isinstance(part, ast.Name)}:
            return grid
    return without_unit_axes(grid)


def registers_of(tree: ast.FunctionDef, names: Names) -> set[str]:
    """Return the names of allocated device registers."""
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and names.dotted(node.value.func) == "nki.isa.register_alloc"
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def compares_none(call: ast.Call, dotted: str) -> bool:
    """Return True for `nl.equal(x, None)` and `nl.not_equal(x, None)`, which the first compilers traced as `is`."""
    none = any(isinstance(argument, ast.Constant) and argument.value is None for argument in call.args)
    return none and dotted in ("nki.language.equal", "nki.language.not_equal")
