"""Arguments for kernels whose source contains all sizes: shapes are inferred from how the kernel uses each parameter.

From `nisa.dma_copy(dst=tile, src=a)`, it follows that `a` has the shape of the tile; `a[0:128, i : i + 512]` requires
only that its shape is large enough. A kernel that uses a parameter in any other way, for example as a number or to read
its shape, is not literal.
"""

from __future__ import annotations

import ast
from pathlib import Path

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


def literal_kernels(path: Path) -> dict[str, dict[str, TensorSpec]]:
    """Return the kernels of a file in which all sizes are literal, with arguments for their required parameters.

    Raises:
        SourceError: the file cannot be read or is not Python.
    """
    files = Files()
    module = files.read(path, str(path))
    functions = [node for node in module.tree.body if isinstance(node, ast.FunctionDef)]
    found = {}
    for function in functions:
        text = ast.unparse(function)
        decorated = any("jit" in ast.unparse(each) for each in function.decorator_list)
        inlined = any(_mentions(other, function.name) for other in functions if other is not function)
        if decorated and not inlined and "shared_hbm" in text and function.args.vararg is None:
            scope = FunctionScope(module, function, (), files, lambda finding: None)
            specs = _arguments(scope, function)
            if specs is not None:
                found[function.name] = specs
    return found


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(node))


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
    partial: list[tuple[int | None, ...]] = []
    for node in ast.walk(function):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        if isinstance(node.ctx, ast.Store):
            return None
        use: ast.AST = node
        parent = parents[use]
        if isinstance(parent, ast.Attribute):
            if parent.attr != "dtype" and not _is_shape_of_output(parent, parents):
                return None
            continue
        index = parent.slice if isinstance(parent, ast.Subscript) and parent.value is node else None
        if index is not None:
            use, parent = parent, parents[parent]
        keyword = parent.arg if isinstance(parent, ast.keyword) else None
        call = parents[parent] if isinstance(parent, ast.keyword) else parent
        dotted = (scope.external(call.func) or "") if isinstance(call, ast.Call) else ""
        if not isinstance(call, ast.Call) or not (dotted.startswith("nki.isa.") or (dotted in LOADS and index)):
            return None
        other = next((k.value for k in call.keywords if k.arg == OF_OTHERS.get(keyword or "")), None)
        known = tensors.of(other) if other is not None else None
        moved = dotted.startswith("nki.isa.dma") or dotted in LOADS
        if index is None:
            if moved and (known is None or known.shape is None):
                return None
            if moved and known is not None and known.shape is not None:
                exact.add(known.shape)
            continue
        extents = _extents(index, known.shape if known is not None else None, is_open=not moved)
        if extents is None:
            return None
        partial.append(extents)
    return _fitting(exact, partial)


def _is_shape_of_output(attribute: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Return True for `a.shape` in `nl.ndarray(a.shape, ..., buffer=nl.shared_hbm)`."""
    call = parents[attribute]
    call = parents[call] if isinstance(call, ast.keyword) else call
    return attribute.attr == "shape" and isinstance(call, ast.Call) and "hbm" in ast.unparse(call)


def _extents(index: ast.expr, other: Shape | None, is_open: bool) -> tuple[int | None, ...] | None:
    """Return the minimum extents that an index requires, or None if they are unknown.

    An extent is None if any size is allowed. If `is_open` is True, any size is allowed for `:`.
    """
    entries = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    sliced = [entry for entry in entries if isinstance(entry, ast.Slice)]
    found: list[int | None] = []
    for entry in entries:
        if not isinstance(entry, ast.Slice) or entry.upper is not None or is_open:
            found.append(None)
        elif entry.lower is None and entry.step is None and other is not None and len(other) == len(sliced):
            found.append(other[sliced.index(entry)])
        else:
            return None
    return tuple(found)


def _fitting(exact: set[Shape], partial: list[tuple[int | None, ...]]) -> Shape | None:
    if len(exact) > 1 or len({len(extents) for extents in partial} | {len(shape) for shape in exact}) > 1:
        return None
    if exact:
        return next(iter(exact))
    if not partial:
        return USUAL
    needed = [{extent for extent in extents if extent is not None} for extents in zip(*partial)]
    if any(len(extents) > 1 for extents in needed):
        return None
    return tuple(next(iter(extents), LARGE) for extents in needed)
