"""`trninfer lint`: find code in kernels that AWS's compiler would reject, without running the compiler."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..child_python import python_command
from .errors import BAD_USAGE, CHECK_FAILED, UsageError, complain
from .text import LONGEST, printable, shorten

if TYPE_CHECKING:
    from ..simulator.checking.lint import Finding


_SECONDS = 20.0  # time limit in seconds for running the kernels of a file
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})  # folders that are skipped


def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE", help="Python files or notebooks with NKI kernels, or folders that contain them."
        ),
    ] = None,
    shapes: Annotated[
        str | None,
        typer.Option(
            "--shapes",
            metavar="SHAPES",
            help=(
                "Run the kernels with arguments of these shapes, such as 128x512:bfloat16,128x1; kernel=128x512 "
                "selects one of several kernels."
            ),
        ),
    ] = None,
    static: Annotated[
        bool, typer.Option("--static", help="Do not run kernels, even if their arguments are known from the file.")
    ] = False,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
) -> None:
    """Check NKI kernels against the NKI API and the compiler's rules: path:line: rule: message.

    Checks every function decorated with nki.jit and all functions that it calls, including those in other files. Finds
    calls to functions that the API does not contain; memories, dtypes and sizes that an instruction does not accept;
    and Python control flow that depends on device values. A kernel is also run on the simulator, with shapes only and
    in a separate process, if the file calls it, if all its sizes are literals, or if --shapes is given. A comment
    `# noqa: RULE` suppresses a finding on its line.

    \b
    Examples:
      trninfer lint my_kernels.py
      trninfer lint --shapes 128x512,512x512:bfloat16 my_kernels.py
      trninfer lint kernels/ notebook.ipynb && echo clean
      trninfer lint --rules

    Exit status: 0 without findings, or with warnings only; 1 with findings; 2 if a file could not be checked.
    """
    from ..simulator.checking.lint import RULES
    from .output import write_stdout

    if rules:
        width = max(len(name) for name in RULES)
        write_stdout("".join(f"{name:<{width}}  {line}\n" for name, line in RULES.items()))
        return
    if not files:
        raise UsageError("lint requires at least one FILE; --rules lists what is checked")
    checked = _LintResults()
    for path in files:
        _check_all(path, checked, shapes, static)
    for path in checked.without:
        if Path(os.path.realpath(path)) not in checked.reached and path in files:
            complain(f"{path}: nothing was checked, because it contains no function decorated with nki.jit")
    write_stdout("".join(f"{_line(finding)}\n" for finding in sorted(checked.findings)))
    if checked.unusable:
        raise typer.Exit(BAD_USAGE)
    if not all(finding.is_warning for finding in checked.findings):
        raise typer.Exit(CHECK_FAILED)


@dataclass
class _LintResults:
    """Results of the files checked so far."""

    findings: set[Finding] = field(default_factory=set)
    reached: set[Path] = field(default_factory=set)  # files that contain checked functions
    without: list[Path] = field(default_factory=list)  # files without a kernel
    unusable: bool = False


def _check(path: Path, checked: _LintResults, shapes: str | None, static: bool) -> None:
    """Check a file. Raises UsageError if the shapes are malformed."""
    from ..simulator.checking.lint import SourceError, examine_file

    try:
        report = examine_file(path)
    except SourceError as error:
        complain(str(error))
        checked.unusable = True
        return
    checked.findings.update(report.findings)
    checked.reached.update(report.files)
    if not report.kernels:
        checked.without.append(path)
    elif not static and path.suffix == ".py":
        checked.findings.update(_tried(path, shapes, report.lines, checked))


def _python_files(folder: Path) -> list[Path]:
    """Return the Python files and notebooks in a folder, except in hidden subfolders. Raises UsageError if there are
    none."""
    paths = []
    for parent, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _SKIPPED)
        paths += [Path(parent, name) for name in sorted(files) if name.endswith((".py", ".ipynb"))]
    if not paths:
        raise UsageError(f"{folder}: contains no Python files or notebooks")
    return paths


def _tried(path: Path, shapes: str | None, known: frozenset[tuple[str, int]], checked: _LintResults) -> set[Finding]:
    """Return the findings from running a file's kernels in a subprocess, except on lines that already have a
    finding. If they could not run, a file for which shapes are given counts as unusable."""
    from ..simulator.checking.lint import Finding
    from ..simulator.running.trial import has_example, read_shapes

    if shapes is not None:
        try:
            read_shapes(shapes)
        except ValueError as error:
            raise UsageError(f"--shapes: {error}") from None
    elif not has_example(path):
        return set()
    options = ["--shapes", shapes] if shapes is not None else []
    command = python_command("trninfer.simulator.running.trial", "print_refusals", str(path), *options)
    try:
        completed = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=shapes is not None)
        findings = [Finding(*record) for record in json.loads(completed.stdout)] if completed.returncode == 0 else []
    except (subprocess.SubprocessError, OSError, ValueError):
        complain(f"{path}: running its kernels failed or took more than {_SECONDS:.0f} s")
        checked.unusable |= shapes is not None
        return set()
    return {finding for finding in findings if (finding.path, finding.line) not in known}


def _line(finding: Finding) -> str:
    """Format a finding as one line that starts with the full path, so that editors can open it."""
    line = printable(str(finding))
    return shorten(line, LONGEST + len(printable(finding.path)))


def _check_all(path: Path, checked: _LintResults, shapes: str | None, static: bool) -> None:
    """Check a file, or the files in a folder, and report files that cannot be checked."""
    try:
        for file in _python_files(path) if path.is_dir() else [path]:
            _check(file, checked, shapes, static)
    except UsageError as error:
        complain(str(error))
        checked.unusable = True
