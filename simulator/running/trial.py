"""Run the kernels of a file on example shapes, to find errors that the simulator reports, for `trninfer lint`.

    python -m trninfer.simulator.running.trial FILE [--shapes SHAPES] [--target TARGET]

prints findings as JSON. The shapes are `SHAPES` or, by default, the shapes of the arguments in kernel calls outside of
kernels, which are evaluated. Only imports, definitions and assignments of the module are executed, and kernels do not
compute any values.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import math
import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..checking.lint import Finding, SourceError, read_source
from ..checking.lint.source import is_silenced
from ..machine.errors import (
    NkiValidationError,
    NotSimulatedError,
    ReportedOnChipWarning,
    UndefinedOnChipWarning,
    UnknownNumberError,
)
from ..machine.syntax import parse
from .install import install
from .kernel import Kernel, TensorSpec
from .launch import run
from .literal import literal_kernels
from .run import Run

RULE = "refused"
UNWRITTEN = ("uninitialised", "unwritten", "not begun")  # kinds of faults that the sanitizer finds without values
SMALL_BYTES = 1 << 26  # limit for sanitized arguments; the sanitizer keeps a record of each element
CONVENTION = ("ARGS", "ARGUMENTS", "INPUTS")
"""Conventional names for the arguments of a kernel in modules that do not call it."""

_RUN = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.If, ast.Try)


def _execute_module(tree: ast.Module, names: Sequence[str], space: dict[str, Any], path: Path) -> None:
    """Execute the statements of a module, except its main block and those that call kernels."""
    for statement in tree.body:
        if isinstance(statement, _RUN) and not _is_main(statement) and not _calls(statement, names):
            _execute(statement, space, path)


def _parse(path: Path) -> ast.Module:
    try:
        return parse(read_source(path, str(path)), str(path))
    except SyntaxError as error:
        raise SourceError(f"{path}:{error.lineno or 1}: not Python source: {error.msg}") from None


def find_refusals(path: Path, shapes: str | None = None, target: str = "trn2") -> list[Finding]:
    """Run each kernel of a file on the shapes that are specified for it or found in the file.

    Args:
        path: the file.
        shapes: "128x512:bfloat16,128x1" for all kernels, or "kernel=128x512,..." for one kernel; several such items are
            separated by blanks. None to use the shapes of the calls in the file.
        target: the hardware target.

    Returns:
        A finding for each kernel that raises an error, with the line in the file, and a finding for each warning that
        the chip behaves differently. There are no findings for kernels without shapes or for files that cannot be
        imported.

    Raises:
        ValueError: `shapes` is malformed.
        SourceError: the file cannot be read.
    """
    tree = _parse(path)
    specs = read_shapes(shapes) if shapes else None
    install()
    sys.path.insert(0, str(path.parent))
    space: dict[str, Any] = {"__name__": "kernels_under_lint", "__file__": str(path)}
    names = _names_of_kernels(tree)
    _execute_module(tree, names, space, path)
    findings: list[Finding] = []
    literal = literal_kernels(path) if specs is None else {}
    kernels = {name: space[name] for name in names if isinstance(space.get(name), Kernel)}
    for name, kernel in kernels.items():
        examples = list(_arguments(name, specs, tree, space, path))
        for arguments, keywords in examples:
            findings += _tried(kernel, arguments, keywords, path, target)
        if not examples and (literals := literal.get(name)) is not None:
            outcome = _tried(kernel, [], literals, path, target)
            findings += [each for each in outcome if _is_certain(each, tree, list(literals))]
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return sorted({finding for finding in findings if not (finding.path == str(path) and is_silenced(finding, lines))})


def _is_certain(finding: Finding, tree: ast.Module, names: list[str]) -> bool:
    """Return True for an error that is not caused by the shapes that were chosen for parameters."""
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno <= finding.line <= (n.end_lineno or 0)]
    innermost = min(nodes, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)
    names_read = {n.id for n in ast.walk(innermost) if isinstance(n, ast.Name)} if innermost is not None else set(names)
    by_shape = "_hbm[" in finding.message and "must be in SBUF" not in finding.message
    return finding.rule in (RULE, "uninitialised") and not (by_shape and names_read & set(names))


def has_example(path: Path) -> bool:
    """Return True if a file contains example arguments for its kernels, or kernels whose sizes are all literal.

    Raise SourceError or SyntaxError if the file cannot be read.
    """
    tree = parse(read_source(path, str(path)))
    names = _names_of_kernels(tree)
    called = any(_calls(statement, names) for block in _blocks(tree) for statement in block)
    listed = any(isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) in CONVENTION for n in tree.body)
    return bool(names) and (called or listed or bool(literal_kernels(path)))


def read_shapes(text: str) -> dict[str, list[TensorSpec]]:
    """Parse shapes such as "128x512:bfloat16,128x1" (for every kernel, with the name "") and "kernel=128x512".

    Raise ValueError if the text is malformed.
    """
    by_kernel: dict[str, list[TensorSpec]] = {}
    for part in text.split():
        name, _, listed = part.rpartition("=")
        specs = []
        for shape_text in listed.split(","):
            extents, _, dtype = shape_text.partition(":")
            if not all(extent.isdigit() and int(extent) > 0 for extent in extents.split("x")):
                raise ValueError(f"the shape {shape_text!r}: write 128x512 or 128x512:bfloat16, separated by commas")
            specs.append(TensorSpec(tuple(int(extent) for extent in extents.split("x")), dtype or "float32"))
        by_kernel[name] = specs
    return by_kernel


def _names_of_kernels(tree: ast.Module) -> list[str]:
    """Return the names of the module's functions whose decorator is called jit."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return [f.name for f in functions if any("jit" in ast.unparse(decorator) for decorator in f.decorator_list)]


def _is_main(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _calls(statement: ast.AST, names: Sequence[str]) -> list[ast.Call]:
    """Return the calls of kernels in a statement, except for calls within functions."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return []
    return [node for node in ast.walk(statement) if isinstance(node, ast.Call) and _called(node) in names]


def _called(call: ast.Call) -> str:
    """Return the name of the called kernel in `kernel(...)`, `kernel[2](...)` or `nki.simulate(kernel)(...)`."""
    function = call.func.value if isinstance(call.func, ast.Subscript) else call.func
    if isinstance(function, ast.Call) and function.args:
        function = function.args[0]
    return function.id if isinstance(function, ast.Name) else ""


def _execute(statement: ast.stmt, space: dict[str, Any], path: Path) -> None:
    """Execute a statement. If it fails, the names that it defines remain undefined."""
    with contextlib.suppress(BaseException), contextlib.redirect_stdout(io.StringIO()):
        exec(compile(ast.Module([statement], []), str(path), "exec"), space)


def _arguments(
    name: str, given: dict[str, list[TensorSpec]] | None, tree: ast.Module, space: dict[str, Any], path: Path
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the arguments with which to run a kernel."""
    if given is not None:
        specs = given.get(name, given.get(""))
        if specs is not None:
            yield list(specs), {}
        return
    calls = [arguments for block in _blocks(tree) for arguments in _of_calls(name, block, dict(space), path)]
    yield from calls
    listed = [space[known] for known in CONVENTION if isinstance(space.get(known), (list, tuple))]
    if listed and not calls and len(_names_of_kernels(tree)) == 1:
        yield list(listed[0]), {}


def _of_calls(
    name: str, block: Iterable[ast.stmt], local: dict[str, Any], path: Path
) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the arguments with which the statements of a block call a kernel, if they can be evaluated."""
    for statement in block:
        for call in _calls(statement, [name]):
            with contextlib.suppress(Exception):
                positional = [_value(argument, local, path) for argument in call.args]
                keywords = {k.arg: _value(k.value, local, path)[0] for k in call.keywords if k.arg is not None}
                yield [value for part in positional for value in part], keywords
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
            _execute(statement, local, path)


def _blocks(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    """Yield the statements of the module, of its main block, and of each function without parameters."""
    yield tree.body
    for statement in tree.body:
        if isinstance(statement, ast.If) and _is_main(statement):
            yield statement.body
        if isinstance(statement, ast.FunctionDef) and not ast.unparse(statement.args) and not statement.decorator_list:
            yield statement.body


def _value(expression: ast.expr, space: dict[str, Any], path: Path) -> list[Any]:
    """Return the value of an argument as a list, which contains several values for a starred argument."""
    starred = isinstance(expression, ast.Starred)
    node = expression.value if isinstance(expression, ast.Starred) else expression
    value = eval(compile(ast.Expression(node), str(path), "eval"), space)
    return list(value) if starred else [value]


def _findings_of(found: Run, name: str, path: Path, target: str) -> Iterator[Finding]:
    """Yield a finding for each read of memory that a kernel has not written, and for a tile whose reuse delays it."""
    for fault in found.findings:
        where, _, number = fault.line.rpartition(":")
        if fault.kind in UNWRITTEN and where == str(path):
            yield Finding(where, int(number), "uninitialised", f"{name}: {fault.why}")
    if found.reuse is not None:
        file, line = found.reuse.tiles[0].line
        message = f"{name}: {found.reuse.describe(found.latency_us)}, predicted on {target}"
        yield Finding(file or str(path), line or 1, "reused-tile", message)


def _tried(
    kernel: Kernel, arguments: list[Any], keywords: dict[str, Any], path: Path, target: str
) -> Iterator[Finding]:
    """Run a kernel on shapes, and yield a finding for each error and warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        refusal = None
        try:
            refusal = run(
                kernel, *arguments, target=target, functional=False, sanitize=_is_small(arguments, keywords), **keywords
            )
        except (NotSimulatedError, UnknownNumberError):
            return
        except NkiValidationError as error:
            yield Finding(str(path), _line(error, path), RULE, f"{kernel.__name__}: {error}")
        except TypeError as error:  # such as iterating over a tile, or a loop body without a parameter
            frames = traceback.extract_tb(error.__traceback__)
            if frames[-1].filename == str(path) or "positional argument" in str(error):
                yield Finding(str(path), _line(error, path), RULE, f"{kernel.__name__}: {error}")
            return
        except Exception:  # errors from checks in the file itself are not reported
            return
    if refusal is not None:
        yield from _findings_of(refusal, kernel.__name__, path, target)
    for warning in caught:
        if issubclass(warning.category, (ReportedOnChipWarning, UndefinedOnChipWarning)) and warning.filename == str(
            path
        ):
            yield Finding(str(path), warning.lineno, "otherwise", f"{kernel.__name__}: {warning.message}")


def _is_small(arguments: list[Any], keywords: dict[str, Any]) -> bool:
    """Return True if the arguments of a kernel are small enough for the sanitizer."""
    arrays = [value for value in (*arguments, *keywords.values()) if hasattr(value, "shape")]
    return sum(4 * math.prod(value.shape) for value in arrays) <= SMALL_BYTES


def _line(error: BaseException, path: Path) -> int:
    """Return the innermost line of the file in an error's traceback, or the first line that its message mentions."""
    frames = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    match = re.search(rf"{re.escape(str(path))}:(\d+)", str(error))
    return (frames[-1] or 1) if frames else int(match.group(1)) if match else 1


def print_refusals(*arguments: str) -> None:
    """Print the findings for a file as JSON. The arguments are `FILE [--shapes SHAPES] [--target TARGET]`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--shapes")
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args(arguments)
    output = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        findings = find_refusals(options.file, options.shapes, options.target)
    output.write(json.dumps([[finding.path, finding.line, finding.rule, finding.message] for finding in findings]))
    output.flush()


if __name__ == "__main__":
    print_refusals(*sys.argv[1:])
