"""Determine how a function uses its names, from its source before any part of it is migrated."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType

from .indices import Index, without_unit_axes
from .names import Names


def tensor_uses(tree: ast.FunctionDef, names: Names) -> dict[str, set[str]]:
    """Return the names that a function uses as tensors.

    The key "hbm of" contains the names from which it loads or to which it stores.
    """
    found: dict[str, set[str]] = {"hbm of": set()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in ("shape", "dtype", "reshape", "broadcast_to", "ap", "permute", "select"):
                found.setdefault(node.value.id, set())
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(node.slice, (ast.Tuple, ast.Slice)):
                found.setdefault(node.value.id, set())
        elif isinstance(node, ast.Call):
            dotted = names.dotted(node.func)
            if dotted in ("nki.language.load", "nki.language.store", "nki.language.load_transpose2d") and node.args:
                base = node.args[0].value if isinstance(node.args[0], ast.Subscript) else node.args[0]
                if isinstance(base, ast.Name):
                    found.setdefault(base.id, set())
                    found["hbm of"].add(base.id)
    return found


def ranks_of(tree: ast.FunctionDef) -> dict[str, int]:
    """Return the number of dimensions of each tensor, as shown by an unpacked shape or else by its longest index."""
    found: dict[str, int] = {}
    exact: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Tuple):
            if not any(isinstance(e, ast.Constant) and e.value in (Ellipsis, None) for e in node.slice.elts):
                found[node.value.id] = max(found.get(node.value.id, 0), len(node.slice.elts))
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Tuple, ast.List)):
            value = node.value
            if isinstance(value, ast.Attribute) and value.attr == "shape" and isinstance(value.value, ast.Name):
                exact[value.value.id] = len(node.targets[0].elts)
    return {**found, **exact}


def accumulators_of(
    tree: ast.FunctionDef, names: Names, products: Mapping[ast.stmt, ast.Call] = MappingProxyType({})
) -> set[str]:
    """Return the names whose only writes are additions of products."""
    added: set[str] = set()
    other: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            base = node.target
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value  # type: ignore[assignment]
            if not isinstance(base, ast.Name):
                continue
            value = products.get(node, node.value)
            dotted = names.dotted(value.func) if isinstance(value, ast.Call) else ""
            product = dotted in ("nki.isa.nc_matmul", "nki.language.matmul") and isinstance(node.op, ast.Add)
            (added if product else other).add(base.id)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    other.add(target.value.id)
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
