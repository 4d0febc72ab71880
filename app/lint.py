"""`trninfer lint`: what AWS's compiler would refuse in a kernel, without the compiler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .errors import BAD_USAGE, CHECK_FAILED, UsageError, complain
from .options import NkiVersion
from .text import LONGEST, printable, shorten

if TYPE_CHECKING:
    from ..simulator.checking.lint import Finding


def lint(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Python files with NKI kernels.")] = None,
    nki: NkiVersion = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules and exit.")] = False,
) -> None:
    """Check NKI kernels against the NKI API and what the compiler refuses: path:line: rule: message.

    Checks every function decorated with nki.jit and all that it calls, in other files too: calls that the API does not
    have, operands that the engines cannot reach, Python control flow on values of the device; for NKI 0.6 also the
    part of Python that its compiler takes. Nothing is run, and neither compiler nor chip is needed.

    \b
    Examples:
      trninfer lint my_kernels.py
      trninfer lint --nki 0.6 kernels/*.py && echo clean
      The rules, a line each:
        trninfer lint --rules

    Exit status: 0 clean, or nothing but warnings; 1 with findings; 2 where a file could not be checked.
    """
    from ..simulator.checking.lint import RULES, SourceError, examine_file
    from .output import write_stdout

    if rules:
        width = max(len(name) for name in RULES)
        write_stdout("".join(f"{name:<{width}}  {line}\n" for name, line in RULES.items()))
        return
    if not files:
        raise UsageError("lint needs at least one FILE; --rules lists what is checked")
    findings: set[Finding] = set()
    reached: set[Path] = set()  # files in which something was checked
    without: list[Path] = []  # files that have no kernel of their own
    unusable = False
    for path in files:
        try:
            report = examine_file(path, nki)
        except SourceError as error:
            complain(str(error))
            unusable = True
            continue
        findings.update(report.findings)
        reached.update(report.files)
        if not report.kernels:
            without.append(path)
    for path in without:
        if Path(os.path.realpath(path)) not in reached:
            complain(f"{path}: nothing was checked: it has no function decorated with nki.jit")
    write_stdout("".join(f"{_line(finding)}\n" for finding in sorted(findings)))
    if unusable:
        raise typer.Exit(BAD_USAGE)
    if not all(finding.is_warning for finding in findings):
        raise typer.Exit(CHECK_FAILED)


def _line(finding: Finding) -> str:
    """A finding in one line, whose path is whole, since editors read it."""
    line = printable(str(finding))
    return shorten(line, LONGEST + len(printable(finding.path)))
