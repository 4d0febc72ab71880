"""The state of the migration of a function: the values of its names, and the lines to insert before a statement."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from .indices import Index, Mask
from .names import Names
from .notes import Notes
from .sums import Sum


@dataclass(frozen=True)
class Tensor:
    """The properties of a tensor that are known from the source.

    `region` is "hbm", "sbuf" or "psum", or "" if unknown. `dtype` and `shape` are source text, or "" and None if
    unknown. `blocks` is the number of dimensions before the partition dimension. `start` is the first partition of a
    part of a tile.
    """

    region: str = ""
    dtype: str = ""
    shape: tuple[str, ...] | None = None
    blocks: int = 0
    rank: int = 0  # number of dimensions, or 0 if unknown
    start: str = "0"


@dataclass(frozen=True)
class Container:
    """A Python list, tuple or dictionary, and a description of its elements if they are tensors.

    `windows` is True if the elements are slices, and for a lambda that returns slices.
    """

    element: Tensor | None = None
    windows: bool = False


@dataclass(frozen=True)
class Axis:
    """A range used as an index: all positions of an axis from `start` to `stop`, both as source text."""

    start: str
    stop: str


@dataclass(frozen=True)
class Window:
    """A named slice, nl.ds(start, size) or slice(start, stop), that is used in a subscript."""


@dataclass(frozen=True)
class Ambiguous:
    """An index array whose value depends on a branch or on the iteration of a loop."""


Value: TypeAlias = Tensor | Index | Mask | Container | Axis | Window | Ambiguous | tuple[Index, ...] | None


def is_index(value: Value) -> bool:
    """Return True for index arrays and masks, which do not appear in the migrated file."""
    return isinstance(value, (Index, Mask, Axis, Ambiguous, tuple))


@dataclass(frozen=True)
class Result:
    """A migrated expression: its source text, and its value if known (None for any Python value)."""

    text: str
    value: Value = None

    @property
    def tensor(self) -> Tensor | None:
        return self.value if isinstance(self.value, Tensor) else None


class Source:
    """A source text, with the positions of the nodes of its syntax tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        self._lines = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text) or [""]  # lines as Python counts them
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def column(self, line: int, column: int) -> int:
        """Convert a column from UTF-8 bytes, the unit of ast, to characters."""
        text = self._lines[line - 1]
        return column if text.isascii() else len(text.encode()[:column].decode())

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + self.column(line, column)

    def of(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self.text[start:end]


@dataclass
class Function:
    """A function defined in the file, with the known properties of its arguments and its result."""

    name: str
    parameters: list[str]
    arguments: dict[str, Value] = field(default_factory=dict)
    returned: Value = None


@dataclass
class Context:
    """The state of the migration of one function."""

    names: Names
    notes: Notes
    functions: dict[str, Function]
    function: Function | None = None
    scope: dict[str, Value] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)  # number of dimensions of each tensor, from the source
    lines: list[str] = field(default_factory=list)
    support: set[str] = field(default_factory=set)
    line: int = 0
    in_loop: bool = False
    loops: dict[str, str] = field(default_factory=dict)  # loop variables, each with its start value
    accumulators: set[str] = field(default_factory=set)  # names to which only matmul results are added
    programs: int = 0  # number of launch grid axes that the function reads
    products: dict[ast.stmt, ast.Call] = field(default_factory=dict)  # statements that assign or add a named product
    axes: set[str] = field(default_factory=set)  # names of ranges used only as indices
    # statements that create tiles, and the loops into which they are moved
    moved: dict[ast.stmt, ast.For] = field(default_factory=dict)
    registers: set[str] = field(default_factory=set)
    tree: ast.FunctionDef | None = None
    returns_outputs: bool = False  # True for a kernel that no other function with NKI calls
    keeps: bool = False  # keep statements that would otherwise be dropped, because the function needs them
    statements: Any = None  # the rewriter of statements
    no_hoisting: str = ""  # the enclosing construct in which no lines can be inserted, if any
    source: Source = field(default_factory=lambda: Source(""))
    taken: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def nl(self) -> str:
        return self.names.nl

    @property
    def nisa(self) -> str:
        return self.names.nisa

    def fresh(self, hint: str = "tile") -> str:
        """Return a name that the function does not use yet."""
        for number in self._numbers:
            name = f"{hint}_{number}"
            if name not in self.taken:
                self.taken.add(name)
                return name
        raise AssertionError

    def emit(self, line: str) -> None:
        """Insert a line before the current statement."""
        self.lines.append(line)

    def add(self, kind: str, message: str) -> None:
        self.notes.add(self.line, kind, message)

    def needs(self, support: str) -> str:
        """Add a helper to the migrated file, and return its name."""
        self.support.add(support)
        return support


def joined(first: dict[str, Value], second: dict[str, Value]) -> dict[str, Value]:
    """Merge the states of the names after two branches, one of which has run.

    A name that only one branch binds keeps the value from that branch, since it can be read only if that branch has
    run.
    """
    both = {name: _either(first[name], second[name], name) for name in first if name in second}
    return {**first, **second, **both}


def _either(first: Value, second: Value, name: str) -> Value:
    if first == second:
        return first
    if is_index(first) or is_index(second):
        return Ambiguous()
    if not isinstance(first, Tensor) or not isinstance(second, Tensor):
        return first or second  # a tensor created in only one branch
    return Tensor(
        first.region if first.region == second.region else "",
        first.dtype if first.dtype == second.dtype else f"{name}.dtype",
        first.shape if first.shape == second.shape else None,
        first.blocks,
    )


def view_of(tensor: Tensor, shape: tuple[str, ...] | None, start: str = "") -> Tensor:
    """Return a part of a tensor, given its shape and the partition of the tensor at which it starts."""
    if start and tensor.start != "0":
        start = (Sum.of(tensor.start) + Sum.of(start)).text
    return replace(tensor, shape=shape, blocks=0, start=start or tensor.start)


def with_dtype(value: Value, name: str, rank: int) -> Value:
    """Return the value of a parameter with the dtype and rank that its use in the function implies."""
    if isinstance(value, Tensor) and not value.dtype:
        return Tensor(value.region, f"{name}.dtype", value.shape, value.blocks, rank)
    return value
