"""Infer arguments for kernels whose source contains all sizes, from how the kernel uses each parameter.

For example, `nisa.dma_copy(dst=tile, src=a)` implies that `a` has the shape of the tile; `a[0:128, i : i + 512]`
requires only that `a` has at least 128 rows and enough columns. A kernel that uses a parameter in any other way, for
example as a number or to read its shape, is not literal.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from ..checking.lint.constants import number_of
from ..checking.lint.operand_limits import local_tensors
from ..checking.lint.scope import FunctionScope
from ..checking.lint.source import Files
from ..checking.lint.tensors import LocalTensors
from ..machine.chip import PARTITIONS, PSUM_BANK_FLOATS
from .kernel import TensorSpec

LARGE = 1 << 15  # an extent that is large enough for every slice with bounds
USUAL = (PARTITIONS, PSUM_BANK_FLOATS)  # the shape of a parameter whose uses do not determine one
OF_OTHERS = {"src": "dst", "dst": "src"}
LOADS = ("nki.language.load", "nki.language.store")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class AtLeast:
    """The extent of a dimension that must not be smaller than `extent`."""

    extent: int = LARGE


Extents = tuple[int | AtLeast, ...]


def literal_kernels(path: Path) -> dict[str, dict[str, TensorSpec]]:
    """Return the kernels of a file in which all sizes are literal, with arguments for their required parameters.

    Raises:
        SourceError: the file cannot be read or is not Python.
    """
    files = Files()
    module = files.read(path, str(path))
    functions = [node for node in module.tree.body if isinstance(node, ast.FunctionDef)]
    kernels = {}
    for function in functions:
        text = ast.unparse(function)
        decorated = any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
        inlined = any(_mentions(other, function.name) for other in functions if other is not function)
        if decorated and not inlined and "shared_hbm" in text and function.args.vararg is None:
            scope = FunctionScope(module, function, (), files, lambda finding: None)
            specs = _arguments(scope, function)
            if specs is not None:
                kernels[function.name] = specs
    return kernels


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(child, ast.Name) and child.id == name for child in ast.walk(node))


def _arguments(scope: FunctionScope, function: ast.FunctionDef) -> dict[str, TensorSpec] | None:
    """Return a spec for each required parameter, or None if some use of a parameter is not supported."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    required = arguments[: len(arguments) - len(function.args.defaults)]
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    tensors = local_tensors(scope)
    specs = {}
    for argument in required:
        shape = _shape_of(argument.arg, function, parents, scope, tensors)
        if shape is None:
            return None
        specs[argument.arg] = TensorSpec(shape, "float32")
    return specs


def _shape_of(
    name: str, function: ast.FunctionDef, parents: dict[ast.AST, ast.AST], scope: FunctionScope, tensors: LocalTensors
) -> Shape | None:
    """Return a shape for a parameter, or None if it is used other than as an operand in HBM."""
    exact: set[Shape] = set()
    partial: list[Extents] = []
    uses = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name]
    for node in uses:
        constraint = _constraint(node, parents, scope, tensors)
        if constraint is None:
            return None
        exact |= constraint[0]
        partial += constraint[1]
    return _fitting(exact, partial)


def _constraint(
    node: ast.Name, parents: dict[ast.AST, ast.AST], scope: FunctionScope, tensors: LocalTensors
) -> tuple[set[Shape], list[Extents]] | None:
    """Return the shapes and the extents that a use of a parameter requires.

    Return None if it is not an operand in HBM.
    """
    parent = parents[node]
    if isinstance(parent, ast.Attribute) and isinstance(node.ctx, ast.Load):
        return (set(), []) if parent.attr == "dtype" or _is_shape_of_output(parent, parents) else None
    operand = _operand_of(node, parents, scope, tensors)
    if operand is None:
        return None
    index, known, is_moved = operand
    if index is not None:
        extents = _extents(index, known, scope, is_open=not is_moved)
        return None if extents is None else (set(), [extents])
    if not is_moved:
        return set(), []
    return None if known is None else ({known}, [])


def _operand_of(
    node: ast.Name, parents: dict[ast.AST, ast.AST], scope: FunctionScope, tensors: LocalTensors
) -> tuple[ast.expr | None, Shape | None, bool] | None:
    """Return (index, shape of the other operand if known, whether the data is moved unchanged) for an operand of an
    instruction. Return None for any other use."""
    use: ast.AST = parents[node]
    index = None
    if isinstance(use, ast.Subscript) and use.value is node:
        index, use = use.slice, parents[use]
    keyword = None
    if isinstance(use, ast.keyword):
        keyword, use = use.arg, parents[use]
    if not isinstance(use, ast.Call) or isinstance(node.ctx, ast.Store):
        return None
    dotted = scope.external(use.func) or ""
    if not (dotted.startswith("nki.isa.") or (dotted in LOADS and index)):
        return None
    others = [
        keyword_argument.value
        for keyword_argument in use.keywords
        if keyword_argument.arg == OF_OTHERS.get(keyword or "")
    ]
    known = tensors.of(others[0]) if others else None
    return index, None if known is None else known.shape, dotted.startswith("nki.isa.dma") or dotted in LOADS


def _is_shape_of_output(attribute: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return True for `a.shape` in `nl.ndarray(a.shape, ..., buffer=nl.shared_hbm)`."""
    call = parents[attribute]
    call = parents[call] if isinstance(call, ast.keyword) else call
    return attribute.attr == "shape" and isinstance(call, ast.Call) and "hbm" in ast.unparse(call)


def _extents(index: ast.expr, other: Shape | None, scope: FunctionScope, is_open: bool) -> Extents | None:
    """Return the extents that an index requires, or None if they are unknown. If `is_open`, `:` allows any extent."""
    entries = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    sliced = [entry for entry in entries if isinstance(entry, ast.Slice)]
    extents: list[int | AtLeast] = []
    for entry in entries:
        if not isinstance(entry, ast.Slice) or entry.upper is not None or is_open:
            extents.append(_enough(entry, scope))
        elif entry.lower is None and entry.step is None and other is not None and len(other) == len(sliced):
            extents.append(other[sliced.index(entry)])
        else:
            return None
    return tuple(extents)


def _enough(entry: ast.expr, scope: FunctionScope) -> AtLeast:
    """Return the extent that an index or a slice with known bounds requires. For any other slice, return LARGE, which
    is always sufficient."""
    if not isinstance(entry, ast.Slice):
        at = number_of(scope, entry)
        return AtLeast() if at is None else AtLeast(at + 1)
    lower = 0 if entry.lower is None else number_of(scope, entry.lower)
    upper = number_of(scope, entry.upper)
    return AtLeast() if lower is None or upper is None else AtLeast(upper)


def _fitting(exact: set[Shape], partial: list[Extents]) -> Shape | None:
    if len(exact) > 1 or len({len(extents) for extents in partial} | {len(shape) for shape in exact}) > 1:
        return None
    if exact:
        return next(iter(exact))
    if not partial:
        return USUAL
    shape = []
    for extents in zip(*partial):
        needed = {extent for extent in extents if isinstance(extent, int)}
        if len(needed) > 1:
            return None
        shape.append(needed.pop() if needed else max(bound.extent for bound in extents if isinstance(bound, AtLeast)))
    return tuple(shape)
