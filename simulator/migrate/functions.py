"""Find the functions of a file that use NKI, and the ways in which the file refers to them."""

from __future__ import annotations

import ast

from .imports import ENTRY_POINTS, JITS
from .names import NUMPY_DTYPES, Names
from .notes import CHECK, Note

FLOAT_DTYPES = ("bfloat16", "tfloat32", "float8_e4m3", "float8_e5m2", "fp32")
ON_HOST = frozenset(f"nki.language.{name}" for name in ("nc", "spmd_dim", "tile_size", *NUMPY_DTYPES, *FLOAT_DTYPES))


def functions_with_nki(tree: ast.Module, names: Names) -> set[str]:
    """Return the functions that use NKI, and their callers.

    Callers of kernels are excluded, because they are host code.

    Functions that are not kernels themselves but are passed as values are recorded in `names.undecorated`.
    """
    trees = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    used = {function.name: names.mentioned_by(function.name) for function in trees}
    kernels = {tree.name for tree in trees if any(is_jit(decorator, names) for decorator in tree.decorator_list)}
    around = {function.name for function in trees if any(inner.name in kernels for inner in _inner(function))}
    launchers = {tree.name for tree in trees if called(tree) & kernels or used[tree.name] & ENTRY_POINTS} - around
    using = {name for name, dotted in used.items() if any(_computes(path) for path in dotted)}
    using -= launchers - kernels - called_by(tree, kernels)
    names.undecorated = (using - kernels) & _values(tree)
    while True:
        callers = {function.name for function in trees if called(function) & (using - kernels)} - using
        if not callers:
            return using
        using |= callers


def _computes(dotted: str) -> bool:
    """Return True for names that only kernels and their helpers use. Host code uses only grids, sizes and dtypes."""
    return dotted.startswith(("nki.language.", "nki.isa.")) and ".".join(dotted.split(".")[:3]) not in ON_HOST


def _inner(function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """Return the functions that are defined inside a function."""
    return [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function]


def assumptions(names: Names) -> list[Note]:
    """Return a note on the names that an excerpt (a file without imports) is assumed to import."""
    shown = ", ".join(names.assumed)
    return [Note(1, CHECK, f"the file does not import NKI: {shown} are assumed to be its modules")] if shown else []


def called_by(tree: ast.AST, functions: set[str]) -> set[str]:
    """Return the functions that the given functions call, directly or through other functions."""
    calls: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            calls.setdefault(node.name, set()).update(called(node))
    reached: set[str] = set()
    new = set(functions)
    while new:
        new = set().union(*(calls.get(name, set()) for name in new)) - reached
        reached |= new
    return reached


def is_jit(decorator: ast.expr, names: Names) -> bool:
    """Return True for decorators that define kernels, in any NKI version."""
    return names.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) in JITS


def called(tree: ast.AST) -> set[str]:
    """Return the names of the functions that are called."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {function.id for function in calls if isinstance(function, ast.Name)}


def _values(tree: ast.AST) -> set[str]:
    """Return the names that are passed as values rather than called."""
    calls = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return {name.id for name in loads if id(name) not in calls}
