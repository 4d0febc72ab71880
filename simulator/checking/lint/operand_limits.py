"""Check the limits of tiles and operands whose memory, dtype or shape is known from the source.

The limits come from the declarations of the instructions (instructions/declaration.py), which the simulator enforces
too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from math import prod

from ...instructions.operands import Operand, Scalar, among
from ...instructions.tensor_operands import DmaTensor, Tile
from ...machine.chip import PARTITIONS, PSUM_BANK_BYTES, STATIONARY_COLUMNS, TARGETS
from ...machine.dtypes import DTYPES
from ...machine.instruction import DECLARATIONS, engine
from .api import modern
from .constants import number_of
from .scope import FunctionScope
from .source import Definition, FunctionNode
from .tensors import LOOPS, OF_TILES, ON_CHIP, LocalTensors, Tensor

MATMUL = "nki.isa.nc_matmul"
COLUMNS = {"stationary": STATIONARY_COLUMNS, "moving": PSUM_BANK_BYTES // 4}  # maximum columns of matmul operands
_BANKS = 8  # PSUM banks per partition


def local_tensors(scope: FunctionScope) -> LocalTensors:
    """Return the tensors of a function, with shapes that may depend on constants of its module."""
    return LocalTensors(scope.function, scope.resolve, scope.api, partial(number_of, scope))


def declared_operands(function: str) -> dict[str, Operand]:
    """Return the declared operands of an instruction, or an empty dictionary for other functions."""
    declaration = DECLARATIONS.get(function.removeprefix("nki.isa.")) if function.startswith("nki.isa.") else None
    return declaration.operands if declaration is not None else {}


def check_tile(scope: FunctionScope, node: ast.Call, tensor: Tensor | None) -> None:
    """Check the size of a tile that a call creates on chip."""
    if tensor is None or tensor.shape is None:
        return
    if not tensor.shape or min(tensor.shape) < 1:
        message = f"the shape {tuple(tensor.shape)} of a tensor must consist of one or more positive integers"
        scope.report(node, "tile-size", message)
        return
    if tensor.buffer not in ON_CHIP:
        return
    tile = f"a tile {list(tensor.shape)} in nl.{tensor.buffer}"
    if tensor.shape[0] > PARTITIONS:
        message = f"{tile} has {tensor.shape[0]} partitions (its first dimension), but the limit is {PARTITIONS}"
        scope.report(node, "tile-size", f"{message}: use several tiles")
    dtype = DTYPES.get(tensor.dtype or "")
    available = PSUM_BANK_BYTES * _BANKS if tensor.buffer == "psum" else max(t.sbuf_bytes for t in TARGETS.values())
    row = prod(tensor.shape[1:]) * dtype.itemsize if dtype is not None else 0
    if row > available:
        scope.report(node, "tile-size", f"{tile} needs {row:,} bytes per partition; {available:,} are available")


def check_operands(scope: FunctionScope, tensors: LocalTensors, node: ast.Call, bound: dict[str, ast.expr]) -> None:
    """Check the memories, dtypes and sizes of the tensors that are passed to a call."""
    function = modern(scope.external(node.func) or "")
    known = {name: tensors.of(value) for name, value in bound.items()}
    if function in OF_TILES:
        for name in ("x", "y", "data"):
            _check_memory(scope, node, f"{function}: {name}", known.get(name), ON_CHIP)
        return
    for name, kind, tensor in _tiles_and_scalars(function, known):
        operand = f"{function}: {name} {ast.unparse(bound[name])}"
        columns = COLUMNS.get(name) if function == MATMUL else None
        if not _has_own_rule(function, name, tensor):
            _check_memory(scope, node, operand, tensor, _memories(kind, columns))
        _check_dtype(scope, node, operand, tensor, kind)
        if isinstance(kind, Tile):
            _check_size(scope, node, operand, tensor, kind, known)
        if columns is not None:
            _check_columns(scope, node, operand, tensor, columns)


def _tiles_and_scalars(function: str, known: dict[str, Tensor | None]) -> Iterator[tuple[str, Tile | Scalar, Tensor]]:
    """Yield the operands of an instruction, other than those of DMAs, whose tensors are known."""
    for name, kind in declared_operands(function).items():
        tensor = known.get(name)
        if tensor is not None and isinstance(kind, (Tile, Scalar)) and not isinstance(kind, DmaTensor):
            yield name, kind, tensor


def _memories(kind: Tile | Scalar, columns: int | None) -> tuple[str, ...]:
    """Return the memories that an operand may be in. Operands of matmuls, which have a column limit, are in SBUF."""
    if columns is not None:
        return ("sbuf",)
    return tuple(region.value for region in kind.buffers) if isinstance(kind, Tile) else ON_CHIP


def _has_own_rule(function: str, name: str, tensor: Tensor) -> bool:
    """Return True if the memory of an operand is checked by the rule matmul-output or gpsimd-psum."""
    if name == "dst" and function in (MATMUL, "nki.isa.nc_transpose"):
        return True
    return tensor.buffer == "psum" and engine.gpsimd in DECLARATIONS[function.removeprefix("nki.isa.")].engines


def _check_columns(scope: FunctionScope, node: ast.Call, shown: str, tensor: Tensor, limit: int) -> None:
    columns = prod(tensor.shape[1:]) if tensor.shape is not None else 0
    if columns > limit:
        message = f"{shown} has {columns:,} columns, but the limit is {limit}: split them"
        scope.report(node, "operand-size", message)


def _check_memory(
    scope: FunctionScope, node: ast.Call, shown: str, tensor: Tensor | None, allowed: tuple[str, ...]
) -> None:
    if tensor is None or tensor.buffer is None or tensor.buffer in allowed:
        return
    if tensor.buffer in ON_CHIP and allowed == ON_CHIP:
        return
    instead = "load it first" if tensor.buffer not in ON_CHIP else f"it must be in {' or '.join(allowed).upper()}"
    scope.report(node, "operand-memory", f"{shown} is in nl.{tensor.buffer}: {instead}")


def _check_dtype(scope: FunctionScope, node: ast.Call, shown: str, tensor: Tensor, kind: Tile | Scalar) -> None:
    if tensor.dtype not in DTYPES:
        return
    if isinstance(kind, Scalar) and kind.operator:
        return  # bitwise operators also accept other tiles
    if (kind.dtypes and tensor.dtype not in kind.dtypes) or tensor.dtype in kind.refused:
        allowed = f"must be {among(kind.dtypes)}" if kind.dtypes else f"cannot be {among(kind.refused)}"
        scope.report(node, "operand-dtype", f"{shown} is {tensor.dtype}: it {allowed}")


def _check_size(
    scope: FunctionScope, node: ast.Call, shown: str, tensor: Tensor, kind: Tile, known: dict[str, Tensor | None]
) -> None:
    if tensor.shape is None:
        return
    free = prod(tensor.shape[1:])
    if kind.dimensions is not None and len(tensor.shape) > kind.dimensions:
        message = f"{shown} has {len(tensor.shape)} dimensions, but the limit is {kind.dimensions}"
        scope.report(node, "operand-size", message)
    if kind.elements is not None and not kind.elements[0] <= free <= kind.elements[1]:
        least, most = kind.elements
        allowed = str(least) if least == most else f"{least} to {most}"
        scope.report(node, "operand-size", f"{shown} has {free} elements per partition; it must have {allowed}")
    other = known.get(kind.size_of)
    size = None if other is None or other.shape is None else (other.shape[0], prod(other.shape[1:]))
    if other is not None and size not in (None, (tensor.shape[0], free)):
        message = f"{shown} is {list(tensor.shape)}, but {kind.size_of} is {list(other.shape or ())}"
        scope.report(node, "operand-size", f"{message}: they must have the same size")
    others = known.get(kind.partitions_of)
    if others is not None and others.shape is not None and tensor.shape[0] != others.shape[0]:
        message = f"{shown} has {tensor.shape[0]} partitions, but {kind.partitions_of} has {others.shape[0]}"
        scope.report(node, "operand-size", f"{message}: they must be the same")


def check_loop(scope: FunctionScope, tensors: LocalTensors, node: ast.Call, bound: dict[str, ast.expr]) -> None:
    """Check the step and the body of a device loop."""
    function = modern(scope.external(node.func) or "")
    if function not in LOOPS:
        return
    step = bound.get("step")
    negative = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
    number = tensors.number(step)
    if negative or (number is not None and number < 1):
        assert step is not None
        scope.report(node, "device-loop", f"{function}: step must be at least 1, got {ast.unparse(step)}")
    body = bound.get("body_fun")
    if function.endswith("fori_loop") and body is not None:
        _check_body(scope, function, body)


def _check_body(scope: FunctionScope, function: str, body: ast.expr) -> None:
    """Report the values that the body of a loop returns."""
    body_function = _function(scope, body)
    returned: list[tuple[ast.stmt | ast.expr, ast.expr | None]] = []
    if body_function is not None:
        returned = [(statement, statement.value) for statement in _own_returns(body_function)]
    elif isinstance(body, ast.Lambda) and not isinstance(body.body, (ast.Call, ast.Tuple)):
        returned = [(body, body.body)]
    for node, value in returned:
        if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            message = f"the body of {function} returns {ast.unparse(value)}; it must return nothing"
            scope.report(node, "device-loop", f"{message}: keep values in SBUF or HBM")


def _function(scope: FunctionScope, name: ast.expr) -> FunctionNode | None:
    """Return the function that a name refers to in the checked function or its module."""
    if isinstance(name, ast.Name):
        for node in ast.walk(scope.function):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name.id:
                return node
    resolved = scope.resolve(name)
    if isinstance(resolved, Definition) and not isinstance(resolved.node, ast.ClassDef):
        return resolved.node
    return None


def _own_returns(function: FunctionNode) -> list[ast.Return]:
    """Return the return statements of a function, excluding nested functions."""
    returns, waiting = [], list[ast.AST](function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            returns.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting.extend(ast.iter_child_nodes(node))
    return returns
