"""Calls in expressions: instructions, nki.language functions, tile methods, and functions defined in the file."""

from __future__ import annotations

import ast
from dataclasses import replace

from . import later
from .compute import instruction
from .context import Container, Result, Tensor, Value, Window
from .expressions import Expressions
from .notes import CannotError
from .tiles import function, method
from .uses import compares_none


def call(ex: Expressions, node: ast.Call, dotted: str) -> Result | None:
    """Rewrite a call in an expression. Return None if its meaning is the same in NKI 0.7."""
    if compares_none(node, dotted):
        operator = " is " if dotted.endswith(".equal") else " is not "
        return Result(operator.join(ex.rewrite(argument).text for argument in node.args))
    if not ex.ctx.names.is_first_dialect:
        return later.call(ex, node, dotted)
    if dotted.startswith("nki.isa."):
        return instruction(ex, node, dotted.removeprefix("nki.isa."), None)
    if dotted.startswith("nki.language."):
        return _language_call(ex, node, dotted.removeprefix("nki.language."))
    if isinstance(node.func, ast.Attribute) and not dotted:
        return method(ex, node)
    if isinstance(node.func, ast.Name) and node.func.id == "slice":
        return Result(ex.generic(node).text, Window())
    return _own_function(ex, node, node.func.id) if isinstance(node.func, ast.Name) else None


def _language_call(ex: Expressions, node: ast.Call, name: str) -> Result | None:
    if name in ("program_id", "num_programs"):
        return _program(ex, node, name)
    result = function(ex, node, name)
    if result is None and any(keyword.arg == "mask" for keyword in node.keywords):
        raise CannotError(f"nl.{name} does not accept a mask: slice its operands instead")
    return result


def _program(ex: Expressions, node: ast.Call, name: str) -> Result:
    """Rewrite the index of the current program in the launch grid, or the size of the grid along an axis."""
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    axis = arguments[0] if arguments else ast.Constant(0)
    if not isinstance(axis, ast.Constant) or type(axis.value) is not int:
        raise CannotError(f"the axis of nl.{name} must be a number")
    ex.ctx.programs = max(ex.ctx.programs, axis.value + 1)
    return Result(f"program_{axis.value}" if name == "program_id" else f"grid[{axis.value}]")


def _own_function(ex: Expressions, node: ast.Call, name: str) -> Result | None:
    """Rewrite a call of a function defined in the file, recording its arguments and its result."""
    local = ex.ctx.scope.get(name)
    is_lambda = isinstance(local, Container) and local.windows
    if is_lambda or ex.ctx.names.returns_slices(name):
        return Result(ex.generic(node).text, Window())
    known = ex.ctx.functions.get(name)
    if known is None:
        return None
    passed = [*zip(known.parameters, node.args), *((keyword.arg, keyword.value) for keyword in node.keywords)]
    for parameter, argument in passed:
        value = ex.rewrite(argument).value
        if parameter is not None and isinstance(value, Tensor):
            known.arguments.setdefault(parameter, Tensor(value.region, "", None, value.blocks))
    return Result(ex.generic(node).text, _outside(known.returned))


def _outside(value: Value) -> Value:
    """Describe the result of a function for its caller, without names that are local to the function."""
    if isinstance(value, Container) and value.element is not None:
        return replace(value, element=replace(value.element, dtype="", shape=None))
    if not isinstance(value, Tensor):
        return value
    shape = value.shape if value.shape is not None and all(extent.isdigit() for extent in value.shape) else None
    return Tensor(value.region, "", shape, value.blocks, value.rank)
