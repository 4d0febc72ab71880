"""Check a file: find the kernels and the functions that the compiler inlines into them, and check both."""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...machine.errors import internal_error
from ...nki.dialect import old_argument
from .api import modern
from .calls import check_calls, check_outputs, takes_tiles
from .notebook import SUFFIX, read_notebook
from .reported import check_reported
from .rules import Finding
from .scope import FunctionScope
from .source import Definition, External, Files, FunctionNode, Module, Resolved, SourceError, parse_module
from .tracing import check_parameters, check_tracing


@dataclass(frozen=True)
class Examination:
    """The result of a check: the kernels in the file, the findings in these kernels and in everything that they call,
    and the files with findings."""

    kernels: tuple[str, ...]
    findings: tuple[Finding, ...]
    files: tuple[Path, ...]
    lines: frozenset[tuple[str, int]] = frozenset()
    """The lines that have findings, including findings that a comment silences."""


def examine_file(path: Path | str) -> Examination:
    """Check the kernels in a Python file and every function that they call, including functions in other files.

    Args:
        path: a Python file or a Jupyter notebook.

    Raises:
        SourceError: the file, or a file that a kernel needs, is missing or not valid Python, or the check has a bug.
            The message is one line.
    """
    files = Files()
    check = _Check(files)
    if Path(path).suffix != SUFFIX:
        return check.run(files.read(Path(path), str(path)))
    notebook = read_notebook(Path(path), str(path))
    notebook_findings = check.run(parse_module(notebook.text, str(path), Path(path)))
    findings = [notebook.located(finding) for finding in notebook_findings.findings]
    kernels = list(notebook_findings.kernels)
    for cell, text in notebook.files:
        written = _Check(files).run(parse_module(text, f"{path}:cell {cell}", Path(path)))
        findings += [replace(finding, line=finding.line + 1) for finding in written.findings]
        kernels += written.kernels
    return replace(notebook_findings, kernels=tuple(kernels), findings=tuple(findings))


def check_file(path: Path | str) -> list[Finding]:
    """Return the findings of `examine_file`, sorted by file and line. Raises the same exceptions."""
    return list(examine_file(path).findings)


def check_source(text: str, path: Path | str = "<source>") -> list[Finding]:
    """Check a text as if it were the content of `path`, and return the findings.

    Raises the same exceptions as `examine_file`.
    """
    file = Path(path) if str(path) != "<source>" else None
    module = parse_module(text, str(path), file)
    return list(_Check(Files()).run(module).findings)


CONFIGS = {
    "compile_config": "nki.compiler.CompileConfig",
    "specialization_config": "nki.compiler.SpecializationConfig",
}


def _is_other(scope: FunctionScope, value: ast.expr, kind: str) -> bool:
    """Return True if an expression is known to be neither None nor an object of a class of nki."""
    if isinstance(value, ast.Constant):
        return value.value is not None
    if isinstance(value, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.Lambda)):
        return True
    origin = scope.external(value.func) if isinstance(value, ast.Call) else scope.external(value)
    return origin is not None and origin.startswith("nki.") and (origin != kind or not isinstance(value, ast.Call))


class _Check:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._findings: set[Finding] = set()
        self._seen: set[int] = set()  # IDs of the nodes that have been checked
        self._reached: set[Path] = set()
        self._inlined: set[int] = set()  # IDs of the nodes that kernels reference
        self._waiting: list[Definition] = []

    def run(self, module: Module) -> Examination:
        try:
            return self._run(module)
        except RecursionError:
            raise SourceError(f"{module.shown}: nested too deeply to be checked") from None
        except (SourceError, MemoryError):
            raise
        except Exception as error:
            fault = internal_error(f"{type(error).__name__}: {error}")
            raise SourceError(f"{module.shown}: {fault}") from error

    def _run(self, module: Module) -> Examination:
        kernels = list(self._kernels(module))
        self._waiting.extend(kernels)
        while self._waiting:
            definition = self._waiting.pop()
            if id(definition.node) in self._seen:
                continue
            self._seen.add(id(definition.node))
            if definition.module.path is not None:
                self._reached.add(Path(os.path.realpath(definition.module.path)))
            if isinstance(definition.node, ast.ClassDef):
                self._check_class(definition, definition.node)
            else:
                self._check_function(definition, definition.node)
        launched = _launched(module)
        for kernel in kernels:
            self._check_entry(kernel, launched)
        names = sorted({kernel.node.name for kernel in kernels})
        self._check_grids(module, names)
        findings = self._files.without_silenced(self._findings, module)
        lines = frozenset((finding.path, finding.line) for finding in self._findings)
        return Examination(tuple(names), tuple(sorted(findings)), tuple(sorted(self._reached)), lines)

    # Kernels

    def _check_entry(self, kernel: Definition, launched: Collection[str]) -> None:
        """Check the parameters and outputs of an entry kernel.

        A kernel that another kernel calls is inlined and may return any tensor. The same is assumed for a kernel whose
        parameters are operands of compute engines, because the arguments of an entry kernel are in HBM, which compute
        engines cannot read.
        """
        if id(kernel.node) not in self._inlined and not isinstance(kernel.node, ast.ClassDef):
            scope = self._inside(kernel, kernel.node)
            check_parameters(scope)
            if not takes_tiles(scope):
                check_outputs(scope, kernel.node.name in launched)

    def _check_grids(self, module: Module, kernels: Collection[str]) -> None:
        """Check the launch grids of the module's kernels if they are constants."""
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Subscript):
                continue
            kernel, grid = node.func.value, node.func.slice
            cores = grid.elts[0] if isinstance(grid, ast.Tuple) and len(grid.elts) == 1 else grid
            is_wrong = isinstance(cores, ast.Tuple) or (isinstance(cores, ast.Constant) and cores.value not in (1, 2))
            if isinstance(kernel, ast.Name) and kernel.id in kernels and is_wrong:
                message = f"{ast.unparse(node.func)}: a launch grid must be 1 or 2 cores"
                self._outside(module, ()).report(node, "launch-grid", message)

    def _kernels(self, module: Module) -> Iterator[Definition]:
        """Yield the functions that are decorated with nki.jit or passed to it in a call."""
        for definition in _functions(module, module.tree, ()):
            if self._has_jit(definition):
                yield definition
        outside = self._outside(module, ())
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and node.args and self._is_jit_name(outside, node.func):
                resolved = outside.resolve(node.args[0])
                if isinstance(resolved, Definition) and not isinstance(resolved.node, ast.ClassDef):
                    yield resolved

    def _outside(self, module: Module, enclosing: tuple[FunctionNode, ...]) -> FunctionScope:
        """Return the scope in which the decorators of a function are evaluated."""
        return FunctionScope(module, None, enclosing, self._files, self._findings.add)

    def _has_jit(self, definition: Definition) -> bool:
        if isinstance(definition.node, ast.ClassDef):
            return False
        scope = self._outside(definition.module, definition.enclosing)
        return any([self._is_jit(scope, decorator) for decorator in definition.node.decorator_list])

    def _is_jit(self, scope: FunctionScope, decorator: ast.expr) -> bool:
        """Return True if a decorator is nki.jit, either bare, called with options, or in functools.partial.

        The options are also checked.
        """
        if not isinstance(decorator, ast.Call):
            return self._is_jit_name(scope, decorator)
        partial = scope.external(decorator.func) == "functools.partial" and bool(decorator.args)
        if not self._is_jit_name(scope, decorator.args[0] if partial else decorator.func):
            return False
        for keyword in decorator.keywords:
            old = old_argument("nki.jit", keyword.arg or "")
            if old is not None:
                scope.report(decorator, "old-dialect", old)
            kind = CONFIGS.get(keyword.arg or "")
            if kind is not None and _is_other(scope, keyword.value, kind):
                message = f"nki.jit: {keyword.arg} must be a {kind}, got {ast.unparse(keyword.value)}"
                scope.report(decorator, "jit-option", message)
        return True

    def _is_jit_name(self, scope: FunctionScope, expression: ast.expr) -> bool:
        return modern(scope.external(expression) or "") == "nki.jit"

    # Functions and classes

    def _inside(self, definition: Definition, node: FunctionNode) -> FunctionScope:
        enclosing = definition.enclosing
        return FunctionScope(definition.module, node, enclosing, self._files, self._findings.add)

    def _check_function(self, definition: Definition, node: FunctionNode) -> None:
        scope = self._inside(definition, node)
        self._check_imports(definition.module)
        check_tracing(scope)
        check_calls(scope)
        check_reported(scope)
        for resolved in _references(scope):
            if isinstance(resolved, Definition):
                self._inlined.add(id(resolved.node))
                self._waiting.append(resolved)

    def _check_imports(self, module: Module) -> None:
        """Check whether a module that a kernel needs imports the package of the first NKI version."""
        if id(module) in self._seen:
            return
        self._seen.add(id(module))
        for node in ast.walk(module.tree):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                imported = [node.module or ""]
            if any(name.split(".")[0] == "neuronxcc" for name in imported):
                message = "neuronxcc.nki was removed: import nki, nki.language and nki.isa, or run `trninfer migrate`"
                self._findings.add(Finding(module.shown, node.lineno, "old-dialect", message))  # type: ignore[attr-defined]

    def _check_class(self, definition: Definition, node: ast.ClassDef) -> None:
        """Check the methods and base classes of a class."""
        scope = self._outside(definition.module, definition.enclosing)
        for base in node.bases:
            resolved = scope.resolve(base)
            if isinstance(resolved, Definition):
                self._waiting.append(resolved)
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._waiting.append(Definition(definition.module, statement, definition.enclosing))


def _launched(module: Module) -> frozenset[str]:
    """Return the names that the module calls outside of its jitted functions, either directly or by passing them to
    another function."""
    kernels: set[str] = set()
    waiting: list[ast.AST] = list(module.tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef) and any(
            "jit" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            continue
        if isinstance(node, ast.Call):
            called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
            kernels.update(name.id for name in (called, *node.args) if isinstance(name, ast.Name))
        waiting.extend(ast.iter_child_nodes(node))
    return frozenset(kernels)


def _functions(module: Module, node: ast.AST, enclosing: tuple[FunctionNode, ...]) -> Iterator[Definition]:
    """Yield every function of a module, including nested functions."""
    for child in ast.iter_child_nodes(node):
        inner = enclosing
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Definition(module, child, enclosing)
            inner = (*enclosing, child)
        yield from _functions(module, child, inner)


def _references(scope: FunctionScope) -> Iterator[Resolved | None]:
    """Resolve the names and attribute chains in a function's body and defaults (annotations are not evaluated)."""
    defaults = [
        default for default in (*scope.function.args.defaults, *scope.function.args.kw_defaults) if default is not None
    ]
    waiting: list[ast.AST] = [*scope.function.body, *defaults]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            resolved = scope.resolve(node)
            if resolved is not None and not isinstance(resolved, External):
                yield resolved
        skipped = node.annotation if isinstance(node, (ast.AnnAssign, ast.arg)) else None
        waiting.extend(child for child in ast.iter_child_nodes(node) if child is not skipped)
