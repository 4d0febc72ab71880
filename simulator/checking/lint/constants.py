"""Evaluate integers that are known from the source of a kernel: literals, module constants, and nl.tile_size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...machine.chip import PARTITIONS, PSUM_BANK_BYTES, STATIONARY_COLUMNS
from .api import modern
from .scope import FunctionScope
from .source import Assigned, Import, Module

SIZES = {  # nl.tile_size
    "pmax": PARTITIONS,
    "gemm_stationary_fmax": STATIONARY_COLUMNS,
    "gemm_moving_fmax": PSUM_BANK_BYTES // 4,
    "psum_fmax": PSUM_BANK_BYTES // 4,
    "psum_bank_fmax": PSUM_BANK_BYTES // 4,
}


def number_of(scope: FunctionScope, expression: ast.expr | None) -> int | None:
    """Return the value of an integer expression: a literal, a module constant, or a member of nl.tile_size."""
    if isinstance(expression, ast.Constant):
        return expression.value if type(expression.value) is int else None
    if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mult):
        left, right = (number_of(scope, side) for side in (expression.left, expression.right))
        return left * right if left is not None and right is not None else None
    if isinstance(expression, ast.Name) and expression.id not in scope.locals:
        return next(_constants(scope, scope.module, expression.id), None)
    dotted = modern(scope.external(expression) or "") if isinstance(expression, ast.Attribute) else ""
    return SIZES.get(dotted.removeprefix("nki.language.tile_size."))


def _constants(scope: FunctionScope, module: Module, name: str) -> Iterator[int]:
    """Yield the integer that is assigned to a module's name, either there or in the module from which the name is
    imported."""
    for _ in range(20):  # the limit ends circular imports
        binding = module.bindings.get(name)
        if isinstance(binding, Import) and binding.name is not None:
            source = scope.files.find(module, binding.level, binding.module)
            if source is None:
                return
            module, name = source, binding.name
        elif isinstance(binding, Assigned) and isinstance(binding.expression, ast.Constant):
            if type(binding.expression.value) is int and name not in module.changed:
                yield binding.expression.value
            return
        else:
            return
