"""Python files for the checker: the binding of each module-level name, and the file in which it is defined.

No code is imported or executed: imports are resolved by searching for the files.
"""

from __future__ import annotations

import ast
import codecs
import io
import itertools
import os
import re
import stat
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeAlias

from ...machine.syntax import parse
from .dead_code import drop_dead_code
from .rules import Finding

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

MUTATING_METHODS = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"}  # methods of lists
    | {"update", "setdefault", "popitem", "add", "discard"}  # methods of dicts and sets
)

# Open files in binary mode, and pipes without blocking. Some systems do not define all of these flags.
_READING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_NOQA = re.compile(r"#\s*noqa\b(?::\s*([\w-]+(?:\s*,\s*[\w-]+)*))?")

MAX_SOURCE_BYTES = 512 << 10  # the largest known kernel files have 200 KB; a check uses up to 1 KB of memory per byte
MAX_SOURCE_LINES = 20_000  # the longest known kernel file has 4,000 lines


ENCODINGS = ("utf-8", "utf-8-sig", "ascii", "iso8859-1", "iso8859-15", "cp1252")
"""Encodings that a file may declare (PEP 263), named as in `codecs`. All decode byte by byte, in linear time."""


class SourceError(ValueError):
    """Raised if a file cannot be checked. The message is a single line with the file and the reason."""


@dataclass(frozen=True)
class Import:
    """The target of an import statement: a module, or a name in the module if `name` is set."""

    level: int
    module: str
    name: str | None = None


@dataclass(frozen=True)
class Assigned:
    """A name that is bound in any other way. `expression` is its value if the only binding is a simple assignment."""

    expression: ast.expr | None = None


Binding: TypeAlias = Import | Assigned | FunctionNode | ast.ClassDef


@dataclass(eq=False)
class Module:
    """A parsed file. Findings show it as `shown`; imports are resolved relative to `path`."""

    shown: str
    path: Path | None
    tree: ast.Module
    lines: list[str] = field(default_factory=list)
    bindings: dict[str, Binding] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    """Maps each global variable that changes after its first assignment to the line that changes it."""
    _inside: dict[int, dict[str, Binding]] = field(default_factory=dict)

    def bindings_in(self, function: FunctionNode) -> dict[str, Binding]:
        """Return the names that a function of this module binds, for its inner functions. The result is cached."""
        if id(function) not in self._inside:
            bindings = {argument.arg: Assigned() for argument in parameters(function.args)}
            self._inside[id(function)] = {**bindings_of(function.body), **bindings}
        return self._inside[id(function)]


def read_module(path: Path, shown: str) -> Module:
    """Read and parse a file. Raises SourceError if this fails."""
    return parse_module(read_source(path, shown), shown, path)


def read_source(path: Path, shown: str) -> str:
    """Return the text of a Python file, decoded as declared. Raises SourceError if the file cannot be read."""
    try:
        data = _read_regular(path)
    except OSError as error:
        raise SourceError(f"{shown}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # also raised for invalid file names
        raise SourceError(f"{shown}: {error}") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        if codecs.lookup(encoding).name not in ENCODINGS:
            raise SourceError(f"{shown}: declares the encoding {encoding!r}; allowed: {', '.join(ENCODINGS)}")
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        reason = str(error) if "unknown" in str(error) else f"not {_declared(error)}"
        raise SourceError(f"{shown}: not Python source: {reason}") from None


def _declared(error: Exception) -> str:
    """Return the encoding that a file declares but does not use."""
    encoding = error.encoding if isinstance(error, UnicodeDecodeError) else "utf-8"
    return "UTF-8" if encoding.startswith("utf") else encoding


def _read_regular(path: Path) -> bytes:
    """Return the bytes of a source file. Raises ValueError for a device, or for a pipe without a writer."""
    descriptor = os.open(path, _READING)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(MAX_SOURCE_BYTES + 1)
    if len(data) > MAX_SOURCE_BYTES:
        raise ValueError(f"the file is larger than {MAX_SOURCE_BYTES >> 10} KiB, the limit for checking")
    if data.count(b"\n") > MAX_SOURCE_LINES:
        raise ValueError(f"the file has more than {MAX_SOURCE_LINES:,} lines, the limit for checking")
    return data


@lru_cache(maxsize=64)  # files of a folder refer to the same modules
def parse_module(text: str, shown: str, path: Path | None) -> Module:
    """Parse a text. Raises SourceError if it is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escapes and so on are not reported here
            tree = parse(text)
        drop_dead_code(tree)
        return Module(shown, path, tree, text.splitlines(), bindings_of(tree.body), _changed_globals(tree))
    except SyntaxError as error:
        raise SourceError(f"{shown}:{error.lineno or 1}: not Python source: {error.msg}") from None
    except ValueError as error:  # null bytes, in Python 3.11 and earlier
        raise SourceError(f"{shown}: not Python source: {error}") from None
    except (RecursionError, MemoryError):
        raise SourceError(f"{shown}: nested too deeply to be checked") from None


def bindings_of(body: Iterable[ast.stmt]) -> dict[str, Binding]:
    """Return the names bound by the statements of a scope; an import takes precedence over other bindings."""
    bindings: dict[str, Binding] = {}
    for name, binding in _each_binding(body):
        if name not in bindings or (isinstance(binding, Import) and isinstance(bindings[name], Assigned)):
            bindings[name] = binding
    return bindings


def _each_binding(body: Iterable[ast.stmt]) -> Iterator[tuple[str, Binding]]:
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield statement.name, statement
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield from _imports(statement)
        elif isinstance(statement, ast.Assign):
            yield from _assignments(statement)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, Assigned(statement.value)
        else:
            yield from ((name, Assigned()) for name in _names_of_parts(statement))
            for block in blocks_of(statement):
                yield from _each_binding(block)


def _assignments(statement: ast.Assign) -> Iterator[tuple[str, Assigned]]:
    for target in statement.targets:
        assigned = Assigned(statement.value if isinstance(target, ast.Name) else None)
        yield from ((name, assigned) for name in stored_names(target))


def _imports(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            yield alias.asname or alias.name, Import(statement.level, statement.module or "", alias.name)
        else:
            top = alias.name.split(".")[0]
            yield alias.asname or top, Import(0, alias.name if alias.asname else top)


def _names_of_parts(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a compound statement assigns outside its blocks."""
    for child in ast.iter_child_nodes(statement):
        expression = child.pattern if isinstance(child, ast.match_case) else child
        if isinstance(expression, (ast.expr, ast.withitem, ast.pattern)):
            yield from stored_names(expression)
        elif isinstance(expression, ast.ExceptHandler) and expression.name:
            yield expression.name


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Return the blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(statement, name, None)
        if isinstance(block, list):
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def stored_names(node: ast.AST) -> Iterator[str]:
    """Yield every name that is assigned in a node."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        elif isinstance(child, (ast.MatchAs, ast.MatchStar)) and child.name:
            yield child.name
        elif isinstance(child, ast.MatchMapping) and child.rest:
            yield child.rest


def _changed_globals(tree: ast.Module) -> dict[str, int]:
    """Return the global variables whose values change, with the line of the first change."""
    writers: dict[str, int] = {}
    for name, line in _reassignments(tree):
        writers.setdefault(name, line)
    variables = {name for name, binding in bindings_of(tree.body).items() if isinstance(binding, Assigned)}
    _add_mutations(tree, variables, writers)
    return writers


def _reassignments(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the global variables that a statement assigns again, changes in place, or declares global."""
    assigned: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, ast.AugAssign):
            yield from ((name, statement.lineno) for name in stored_names(statement.target))
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for name in itertools.chain.from_iterable(map(stored_names, targets)):
            if name in assigned:
                yield name, statement.lineno
            assigned.add(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from ((name, node.lineno) for name in node.names)


def _add_mutations(scope: ast.AST, visible: set[str], changed: dict[str, int]) -> None:
    """Add the global variables that are changed in place by `name[...] = `, `del name[...]` or a call such as
    `name.append(...)`."""
    for node in ast.iter_child_nodes(scope):
        inside = visible
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            inside = visible - local_names(node)
        root: ast.expr | None = None
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            root = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATING_METHODS:
            root = node.func.value
        if isinstance(root, ast.Name) and root.id in inside:
            changed.setdefault(root.id, node.lineno)  # type: ignore[attr-defined]  # an expression has a line
        _add_mutations(node, inside, changed)


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """Return all parameters of a function."""
    variable = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variable]


def local_names(function: FunctionNode | ast.Lambda) -> set[str]:
    """Return the names that are local to a function, or to a function or comprehension nested in it."""
    names = {argument.arg for argument in parameters(function.args)} | set(stored_names(function))
    shared: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.ExceptHandler, ast.ClassDef)):
            names.update([node.name] if node.name else [])
        elif isinstance(node, ast.Global):
            shared.update(node.names)
        elif node is not function and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            names.update(argument.arg for argument in parameters(node.args))
            if not isinstance(node, ast.Lambda):
                names.add(node.name)
    return names - shared


@dataclass(frozen=True)
class External:
    """The dotted path of a name from a module whose source is not analysed, such as "nki.language.add" or
    "builtins.len"."""

    dotted: str


@dataclass(frozen=True)
class Definition:
    """A function or class, with its enclosing functions, outermost first."""

    module: Module
    node: FunctionNode | ast.ClassDef
    enclosing: tuple[FunctionNode, ...] = ()


Resolved: TypeAlias = External | Definition | Module


def is_silenced(finding: Finding, lines: Sequence[str]) -> bool:
    """Return True if the line of a finding has a comment `# noqa`, or `# noqa:` with the rule of the finding."""
    text = lines[finding.line - 1] if 0 < finding.line <= len(lines) else ""
    match = _NOQA.search(text)
    return match is not None and (match[1] is None or finding.rule in re.split(r"[\s,]+", match[1].strip()))


class Files:
    """The files that a check reads. Each file is read only once."""

    def __init__(self) -> None:
        self._modules: dict[Path, Module] = {}
        self._at = cache(self._search)

    def read(self, path: Path, shown: str | None = None) -> Module:
        """Return the module for a file. Raises SourceError if it cannot be read."""
        key = Path(os.path.realpath(path))  # unlike resolve, this does not fail on circular links
        if key not in self._modules:
            self._modules[key] = read_module(path, shown or str(path))
        return self._modules[key]

    def without_silenced(self, findings: Iterable[Finding], module: Module) -> list[Finding]:
        """Return the findings, except for those on lines that end in `# noqa` or `# noqa: RULE`."""
        lines = {known.shown: known.lines for known in (module, *self._modules.values())}
        return [finding for finding in findings if not is_silenced(finding, lines.get(finding.path, []))]

    def find(self, module: Module, level: int, dotted: str) -> Module | None:
        """Return the module to which an import in `module` refers, if its file can be found."""
        if module.path is None:
            return None
        folder = module.path.parent
        if level > 0:
            for _ in range(level - 1):
                folder = folder.parent
            return self._at(folder, dotted)
        if not dotted or dotted.split(".")[0] in sys.stdlib_module_names:
            return None
        while True:
            found_module = self._at(folder, dotted)
            if found_module is not None or folder == folder.parent or not (folder / "__init__.py").is_file():
                return found_module
            folder = folder.parent

    def _search(self, folder: Path, dotted: str) -> Module | None:
        candidate = folder.joinpath(*dotted.split(".")) if dotted else folder
        for path in (candidate.with_name(candidate.name + ".py") if dotted else None, candidate / "__init__.py"):
            if path is not None and path.is_file():
                return self.read(path)
        return None

    def member(self, module: Module, name: str) -> Resolved | None:
        """Resolve a name of a module."""
        return self._member(module, name, 0)

    def _member(self, module: Module, name: str, depth: int) -> Resolved | None:
        if depth > 20:  # the imports are probably circular
            return None
        binding = module.bindings.get(name)
        if binding is None:
            package = module.path is not None and module.path.name == "__init__.py"
            return self.find(module, 1, name) if package else None
        if isinstance(binding, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return Definition(module, binding)
        if isinstance(binding, Assigned):
            return self._value(module, binding.expression, depth)
        return self.imported(module, binding, depth)

    def imported(self, module: Module, binding: Import, depth: int = 0) -> Resolved | None:
        """Resolve a name that an import in a module binds; `depth` counts the imports and aliases followed so far."""
        if binding.name is None:
            return self.find(module, binding.level, binding.module) or External(binding.module)
        source = self.find(module, binding.level, binding.module)
        if source is None:
            return None if binding.level else External(f"{binding.module}.{binding.name}")
        if source is module:  # `from . import x` within the __init__.py of the package
            return self.find(module, 1, binding.name)
        return self._member(source, binding.name, depth + 1)

    def _value(self, module: Module, expression: ast.expr | None, depth: int) -> Resolved | None:
        """Resolve an alias, which is a name that is assigned from another name."""
        if isinstance(expression, ast.Name):
            return self._member(module, expression.id, depth + 1)
        if isinstance(expression, ast.Attribute):
            return self.attribute(self._value(module, expression.value, depth + 1), expression.attr)
        return None

    def attribute(self, base: Resolved | None, name: str) -> Resolved | None:
        """Resolve `base.name`."""
        if isinstance(base, External):
            return External(f"{base.dotted}.{name}")
        return self.member(base, name) if isinstance(base, Module) else None
