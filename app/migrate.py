"""`trninfer migrate`: rewrite kernels of older NKI dialects in NKI 0.7."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import BAD_USAGE, CHECK_FAILED, UsageError, complain, reason
from .output import check_output, write_output, write_stderr, write_stdout
from .text import printable

if TYPE_CHECKING:
    from ..simulator.checking.lint import Finding
    from ..simulator.migrate.check import Check
    from ..simulator.migrate.notebook import Part


COOKIE = re.compile(r"\A((?:[^\n]*\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*)[-\w.]+")  # PEP 263


def migrate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Python files or notebooks with kernels for an older NKI.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="PATH", help="Write to this file, or to this existing folder."),
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Overwrite the files.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Run each migrated file on the simulator, and report the results of its comparisons."
        ),
    ] = False,
) -> None:
    """Rewrite kernels of older NKI dialects in NKI 0.7; the report goes to standard error.

    Converts kernels of neuronxcc.nki (loads, stores, masks, nl.arange, block dimensions, launch grids, instructions
    that return tiles) and of NKI 0.2 to 0.6 (device loops, renamed functions and arguments). Code without a counterpart
    is left unchanged, marked with a comment `# migrate: ...`, and listed in the report. In a notebook, only code cells
    are changed, including the files that they write with %%writefile. If a call or a statement of the source would be
    missing from the result, the result is not written. With --check, the result is run; if the original file also runs
    on the simulator, their outputs are compared. Requires libcst: pip install "trninfer[migrate]".

    \b
    Examples:
      trninfer migrate old_kernel.py > kernel.py
      trninfer migrate --check --output migrated/ old/*.py
      trninfer migrate --in-place kernels.py

    Exit status: 0 if all code is migrated, lint finds nothing and, with --check, at least one comparison is made and
    all succeed; 1 if something is left to do; 2 if a file could not be read or written.
    """
    if output is not None and in_place:
        raise UsageError("--output and --in-place cannot be used together")
    into_folder = output is not None and output.is_dir()
    if len(files) > 1 and not into_folder and not in_place:
        raise UsageError("several FILEs require --output with a folder, or --in-place")
    targets = [_target(path, output, in_place) for path in files]
    names = [target for target in targets if target is not None]
    if len(set(names)) < len(names):
        raise UsageError("several FILEs have the same name; migrate them one at a time")
    outcomes = [_migrate(path, target, in_place, check) for path, target in zip(files, targets)]
    if BAD_USAGE in outcomes:
        raise typer.Exit(BAD_USAGE)
    if CHECK_FAILED in outcomes:
        raise typer.Exit(CHECK_FAILED)


def _migrate(path: Path, target: Path | None, in_place: bool, check: bool) -> int:
    """Migrate one file, independently of the others; return its exit status."""
    try:
        check_output(target, "--in-place" if in_place else "--output")
        text, parts = _migrated(path)
    except UsageError as error:
        complain(str(error))
        return BAD_USAGE
    try:
        well = all([_report(path, part, check) for part in parts])
    except Exception as error:  # the checks failed; the file has been migrated and written
        complain(_fault(path, 0, f"its checks ended with {type(error).__name__}: {error}"))
        well = False
    try:
        if target is None:
            write_stdout(text)
        else:
            write_output(text, target)
    except (OSError, UsageError) as error:
        complain(f"{target}: cannot be written: {reason(error)}" if isinstance(error, OSError) else str(error))
        return BAD_USAGE
    return 0 if well else CHECK_FAILED


def _target(path: Path, output: Path | None, in_place: bool) -> Path | None:
    if in_place:
        return path
    return output / path.name if output is not None and output.is_dir() else output


def _migrated(path: Path) -> tuple[str, tuple[Part, ...]]:
    """Return the text of a migrated file, and the Python source in it: one part, or several if it is a notebook."""
    from ..simulator.checking.lint import SourceError, read_source

    try:
        from ..simulator.migrate import LimitError, MigrationError, migrate_source
        from ..simulator.migrate.notebook import NotebookError, Part, migrate_notebook
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        raise UsageError('migrate needs libcst, which is not installed: pip install "trninfer[migrate]"') from None
    try:
        text = read_source(path, str(path))
        if path.suffix == ".ipynb":
            notebook = migrate_notebook(text)
            return notebook.text, notebook.parts
        text = COOKIE.sub(r"\g<1>utf-8", text)  # the output is UTF-8
        migration = migrate_source(text)
        return migration.text, (Part(text, migration),)
    except SourceError as error:
        raise UsageError(str(error)) from None
    except (LimitError, NotebookError) as error:
        raise UsageError(f"{path}: {error}") from None
    except MigrationError as error:
        raise UsageError(_fault(path, error.line, f"{error}; it is not migrated")) from None
    except MemoryError:
        raise UsageError(f"{path}: not enough memory to migrate it") from None
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno or 1}: not Python source: {error.msg}") from None


def _fault(path: Path, line: int, message: str) -> str:
    """Format a message about an internal error of trninfer."""
    from ..simulator.machine.errors import internal_error

    return f"{path}{f':{line}' if line else ''}: {internal_error(message)}"


def _describe_lint(findings: list[Finding], found: Check | None) -> str:
    """Describe the findings of lint in a migrated file and, if there are none, whether it was run."""
    if findings:
        return f"lint: {len(findings)}, the first: {findings[0]}"
    if found is None:
        return "lint found no problems; not run (use --check to run it)"
    return "lints clean and runs" if found.runs else "lint found no problems"


def _report(path: Path, part: Part, check: bool) -> bool:
    """Print the result for a file, or for a part of a notebook; return True if nothing is left to do."""
    from ..simulator.checking.lint import check_source
    from ..simulator.migrate import CANNOT, CHECK
    from ..simulator.migrate.check import compare

    old, migration = part.old, part.migration
    for note in migration.notes:
        write_stderr(f"{printable(part.shown(note, str(path)))}\n")
    found_in = sorted(finding for finding in check_source(migration.text) if not finding.is_warning)
    findings = [part.located(finding) for finding in found_in]
    counts = {kind: sum(note.kind == kind for note in migration.notes) for kind in (CANNOT, CHECK)}
    lines = list(difflib.unified_diff(old.splitlines(), migration.text.splitlines(), lineterm="", n=0))
    changed_lines = sum(line.startswith("-") for line in lines[2:])
    parts = [f"{changed_lines} lines changed" if changed_lines else "nothing to change"]
    tasks = {CANNOT: "left to do by hand", CHECK: "to look at"}
    parts += [f"{counts[kind]} {task}" for kind, task in tasks.items() if counts[kind]]
    well = not findings and not counts[CANNOT]
    comparison, old_run = compare(old, migration.text, path) if check else (None, "")
    parts.append(_describe_lint(findings, comparison))
    if comparison is not None:
        parts += filter(None, [f"check: {comparison.shown}", old_run])
        well &= comparison.well
    write_stderr(f"{printable(f'{path}{part.within}')}: {printable('; '.join(parts))}\n")
    return well
