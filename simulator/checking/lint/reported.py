"""Check whether a file follows undocumented rules of AWS's tools, insofar as its source shows this.

`simulator/instructions/reported.py` lists the sources of the rules. Tiles whose size, dtype or memory is not known from
the source are not reported.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from math import prod

from ...machine.chip import PSUM_BANK_BYTES
from .api import arguments_of, modern
from .constants import number_of
from .scope import FunctionScope
from .source import stored_names
from .tensors import CREATORS

HALF_WORDS = frozenset({"bfloat16", "float16"})
ITEM_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "int32": 4, "uint32": 4}
MATMUL = "nki.isa.nc_matmul"
TRANSPOSE = "nki.isa.dma_transpose"
TRANSPOSED_ROW_BYTES = 32  # size of an output row of dma_transpose


def check_reported(scope: FunctionScope) -> None:
    """Check the tiles and the matmul sums of a function."""
    visitor = _ReportedRules(scope)
    for statement in scope.function.body:
        visitor.visit(statement)


@dataclass(frozen=True)
class _Tile:
    """A tile that a function creates: its number of partitions, its free dimensions (None if any is unknown), and the
    enclosing loops."""

    buffer: str
    dtype: str
    partitions: int | None
    free: tuple[int | None, ...]
    loops: tuple[ast.For, ...]

    @property
    def columns(self) -> int | None:
        """Number of elements per partition, if known."""
        known = [extent for extent in self.free if extent is not None]
        return prod(known) if self.free and len(known) == len(self.free) else None

    def is_within_a_bank(self, indices: list[ast.expr], part: ast.expr) -> bool:
        """Return True if the source shows that all slices that the index `part` selects are in the same PSUM bank."""
        if self.columns is not None:
            return self.columns * ITEM_BYTES.get(self.dtype, 4) <= PSUM_BANK_BYTES
        return part is indices[-1] and len(indices) == len(self.free) + 1 and _is_one(part)


class _ReportedRules(ast.NodeVisitor):
    def __init__(self, scope: FunctionScope) -> None:
        self._scope = scope
        self._loops: tuple[ast.For, ...] = ()
        self._tiles: dict[str, _Tile] = {}
        self._names: set[str] = set()  # names of tensors that were specified with name=
        self._within: dict[str, set[ast.For]] = {}  # local names, with the loops in which they are assigned

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        outer, self._loops = self._loops, (*self._loops, node)
        self._assigned(node.target)
        for statement in node.body:
            self.visit(statement)
        self._loops = outer
        for statement in node.orelse:
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Visit the body of a device loop, which is traced only once."""
        outer, self._loops = self._loops, ()
        self.generic_visit(node)
        self._loops = outer

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._assigned(target)
        value = node.value.value if isinstance(node.value, ast.Subscript) else node.value
        tile = self._made(value) if isinstance(value, ast.Call) else None
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._tiles.pop(target.id, None)
                if tile is not None:
                    self._tiles[target.id] = tile

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        function = modern(self._scope.external(node.func) or "")
        if function in CREATORS:
            self._check_tile(node, function)
        elif function == MATMUL:
            self._check_matmul(node)
        elif function == TRANSPOSE:
            self._check_transpose(node)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "reshape":
            self._check_reshape(node, node.func.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        tile = self._tiles.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if tile is None or tile.buffer != "psum" or tile.dtype not in HALF_WORDS or len(tile.free) != 1:
            return
        last = _indices(node)[-1]
        first = number_of(self._scope, last.lower if isinstance(last, ast.Slice) else last)
        if len(_indices(node)) == 2 and first is not None and first % 2:
            message = f"{ast.unparse(node)} begins at byte {2 * first} of PSUM, within a word: start at an even column"
            self._scope.report(node, "psum-slot", message)

    # Rules of the verifier in the compiler back end

    def _check_reshape(self, node: ast.Call, value: ast.expr) -> None:
        tile = self._tiles.get(value.id) if isinstance(value, ast.Name) else None
        if tile is not None and tile.partitions == 1 and tile.buffer in ("sbuf", "psum"):
            message = (
                f"{ast.unparse(node)}: a reshaped view of one partition has a partition step of 0: use reshape_dim"
            )
            self._scope.report(node, "one-partition", message)

    def _check_transpose(self, node: ast.Call) -> None:
        dst = arguments_of(node, self._scope.api.signatures[TRANSPOSE]).get("dst")
        while isinstance(dst, ast.Subscript):
            dst = dst.value
        tile = self._tiles.get(dst.id) if isinstance(dst, ast.Name) else None
        columns = tile.columns if tile is not None and tile.buffer == "sbuf" else None
        size = ITEM_BYTES.get(tile.dtype) if tile is not None else None
        if columns is not None and size is not None and columns * size % TRANSPOSED_ROW_BYTES:
            message = (
                f"dst has rows of {columns * size} bytes; the back end requires multiples of {TRANSPOSED_ROW_BYTES}: "
                f"allocate wider rows and use a view"
            )
            self._scope.report(node, "transposed-rows", message)

    def _assigned(self, target: ast.expr) -> None:
        for name in stored_names(target):
            self._within.setdefault(name, set()).update(self._loops)

    # Tiles

    def _made(self, call: ast.Call) -> _Tile | None:
        function = modern(self._scope.external(call.func) or "")
        if function not in CREATORS:
            return None
        bound = arguments_of(call, self._scope.api.signatures[function])
        buffer = self._language_name(bound["buffer"]) if "buffer" in bound else "sbuf"
        shape = bound.get("shape")
        extents = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else []
        partitions, *free = [number_of(self._scope, extent) for extent in extents] or [None]
        return _Tile(buffer, self._language_name(bound.get("dtype")), partitions, tuple(free), self._loops)

    def _language_name(self, expression: ast.expr | None) -> str:
        dotted = modern(self._scope.external(expression) or "") if expression is not None else ""
        return dotted.removeprefix("nki.language.") if dotted.startswith("nki.language.") else ""

    def _check_tile(self, node: ast.Call, function: str) -> None:
        tile = self._made(node)
        assert tile is not None
        columns = tile.columns
        if columns is not None and tile.dtype in HALF_WORDS:
            if tile.buffer == "psum" and columns % 2:
                message = (
                    f"{columns} column(s) of {tile.dtype} end within a word of PSUM: allocate {columns + 1} columns"
                )
                self._scope.report(node, "psum-words", message)
            elif tile.buffer == "sbuf" and columns == 1:
                message = (
                    f"a single {tile.dtype} column fills only half of a word: "
                    "allocate two columns, and use a view of one"
                )
                self._scope.report(node, "one-column", message)
        name = arguments_of(node, self._scope.api.signatures[function]).get("name")
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value:
            if self._loops or name.value in self._names:
                again = "in each iteration of the loop" if self._loops else "again"
                message = f"the name {name.value!r} is used {again}: give each tensor of a launch its own name"
                self._scope.report(node, "tensor-name", message)
            self._names.add(name.value)

    # Matmuls

    def _check_matmul(self, node: ast.Call) -> None:
        bound = arguments_of(node, self._scope.api.signatures[MATMUL])
        stationary = bound.get("stationary")
        if isinstance(stationary, ast.Subscript) and isinstance(stationary.value, ast.Name):
            tile = self._tiles.get(stationary.value.id)
            if tile is not None and tile.dtype in HALF_WORDS and _is_one(_indices(stationary)[-1]):
                message = f"stationary {ast.unparse(stationary)} is a single column of {tile.dtype}: use two columns"
                self._scope.report(node, "one-column", message)
        self._check_sums(node, bound.get("dst"), bound.get("accumulate"))

    def _check_sums(self, node: ast.Call, dst: ast.expr | None, accumulate: ast.expr | None) -> None:
        """Check for a loop over terms that contains a loop over parts of one bank.

        The sums of the parts would be interleaved.
        """
        if accumulate is None or not isinstance(dst, ast.Subscript) or not isinstance(dst.value, ast.Name):
            return
        tile = self._tiles.get(dst.value.id)
        if tile is None or tile.buffer != "psum":
            return
        terms = self._changed_in(accumulate)
        if terms is None or terms in tile.loops:
            return
        parts = self._loops[self._loops.index(terms) + 1 :]
        indices = _indices(dst)
        moving = [index for index in indices[1:] if self._changed_in(index) in parts]
        if any(tile.is_within_a_bank(indices, index) for index in moving):
            message = (
                f"dst {ast.unparse(dst)}: sums that alternate in one bank of PSUM lose terms on trn2: make the loop "
                f"over {ast.unparse(terms.target)} the inner loop, or give each sum its own bank"
            )
            self._scope.report(node, "interleaved-sums", message)

    def _changed_in(self, expression: ast.expr) -> ast.For | None:
        """Return the innermost loop that changes the value of an expression."""
        names = {part.id for part in ast.walk(expression) if isinstance(part, ast.Name)}
        loops = [loop for name in names for loop in self._within.get(name, ())]
        return next((loop for loop in reversed(self._loops) if loop in loops), None)


def _indices(subscript: ast.Subscript) -> list[ast.expr]:
    return subscript.slice.elts if isinstance(subscript.slice, ast.Tuple) else [subscript.slice]


def _is_one(index: ast.expr) -> bool:
    """Return True if an index selects one element: a number, or `i : i + 1`."""
    if not isinstance(index, ast.Slice):
        return isinstance(index, (ast.Constant, ast.Name)) and getattr(index, "value", 0) is not ...
    lower, upper = index.lower, index.upper
    if lower is None or upper is None:
        return False
    if isinstance(lower, ast.Constant) and isinstance(upper, ast.Constant):
        return isinstance(lower.value, int) and upper.value == lower.value + 1
    step = ast.BinOp(lower, ast.Add(), ast.Constant(1))
    return ast.dump(upper) == ast.dump(step)
