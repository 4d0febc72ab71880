"""Find uses of named values that only the first NKI allowed: products that a later statement accumulates, and ranges
that index a whole axis."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from typing import TypeGuard

from .names import Names, is_stored, stored

PRODUCTS = ("nki.isa.nc_matmul", "nki.language.matmul")
RANGES = frozenset(f"nki.language.{name}_range" for name in ("affine", "sequential", "static"))


def named_products(tree: ast.FunctionDef, names: Names) -> dict[ast.stmt, ast.Call]:
    """Find products that are added to a tensor in PSUM through a name that is not read anywhere else.

    In `part = nisa.nc_matmul(x, y); acc += part`, the product accumulates in PSUM, just as in
    `acc += nisa.nc_matmul(x, y)`. The result maps both statements to the call of `nc_matmul`.
    """
    in_psum = _in_psum(tree, names)
    loads = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not is_stored(n))
    pairs = [pair for block in _blocks(tree) for pair in _pairs(block, names, in_psum)]
    paired = Counter(name for _, _, name in pairs)
    found: dict[ast.stmt, ast.Call] = {}
    for product, addition, name in pairs:
        if paired[name] == loads[name]:
            found[product] = found[addition] = product.value  # type: ignore[assignment]  # _pairs only yields calls
    return found


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                yield block


def _pairs(block: list[ast.stmt], names: Names, in_psum: set[str]) -> Iterator[tuple[ast.Assign, ast.AugAssign, str]]:
    """Yield pairs of a product's assignment and its addition, provided that no statement in between changes the
    operands."""
    for position, statement in enumerate(block):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            continue
        if not isinstance(statement.value, ast.Call) or names.dotted(statement.value.func) not in PRODUCTS:
            continue
        reads = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        addition = _addition_of(target.id, block[position + 1 :], reads, in_psum)
        if addition is not None:
            yield statement, addition, target.id


def _addition_of(name: str, block: list[ast.stmt], reads: set[str], in_psum: set[str]) -> ast.AugAssign | None:
    """Return the addition of a product to a tensor in PSUM, unless a statement before it may change the operands."""
    for later in block:
        if isinstance(later, ast.AugAssign) and isinstance(later.op, ast.Add):
            is_product = isinstance(later.value, ast.Name) and later.value.id == name
            return later if is_product and _base(later) in in_psum else None
        if not isinstance(later, ast.Assign) or stored([later]) & (reads | {name}):
            return None
        if not all(isinstance(target, ast.Name) for target in later.targets):
            return None
    return None


def _base(node: ast.stmt) -> str:
    """Return the name of the tensor to which the statement adds."""
    assert isinstance(node, ast.AugAssign)
    target = node.target
    while isinstance(target, (ast.Subscript, ast.Attribute)):
        target = target.value  # type: ignore[assignment]
    return target.id if isinstance(target, ast.Name) else ""


def _in_psum(tree: ast.FunctionDef, names: Names) -> set[str]:
    """Return the names of tensors that are created in PSUM."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            buffers = [keyword.value for keyword in node.value.keywords if keyword.arg == "buffer"]
            if any(_is_psum(buffer, names) for buffer in buffers):
                found.add(node.targets[0].id)
    return found


def _is_psum(buffer: ast.expr, names: Names) -> bool:
    place = buffer.func if isinstance(buffer, ast.Call) else buffer
    return "psum" in names.dotted(place).split(".")


def _is_range(target: ast.expr, value: ast.expr, names: Names) -> TypeGuard[ast.Name]:
    """Return True if an assignment binds a name to a range."""
    return isinstance(target, ast.Name) and isinstance(value, ast.Call) and names.dotted(value.func) in RANGES


def whole_axes(tree: ast.AST, names: Names) -> set[str]:
    """Return the names of ranges that are used only as indices and therefore select a whole axis.

    An example is `rows = nl.affine_range(n)` in `t[rows, columns]`.
    """
    nodes = list(ast.walk(tree))
    assignments = [node for node in nodes if isinstance(node, ast.Assign) and len(node.targets) == 1]
    pairs = [pair for node in assignments for pair in _each(node.targets[0], node.value)]
    assigned = Counter(target.id for target, value in pairs if _is_range(target, value, names))
    mentioned = Counter(node.id for node in nodes if isinstance(node, ast.Name))
    indices: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, ast.Subscript):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            indices.update(part.id for part in parts if isinstance(part, ast.Name))
    return {name for name, count in assigned.items() if indices[name] and mentioned[name] == count + indices[name]}


def _each(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        yield from zip(target.elts, value.elts)
    else:
        yield target, value
