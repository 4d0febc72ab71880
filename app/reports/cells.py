"""Cells of a CSV on their way to a terminal or to a spreadsheet, neither of which takes text as text."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from ...models.regular_files import flags
from ..text import printable

Change = Callable[[str], str]

# With which a formula begins in one spreadsheet or another (OWASP, CSV Injection), also in the wide forms of Asia.
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def as_is(cell: str) -> str:
    """A cell for programs and files."""
    return cell


def guard(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: one that it might has an apostrophe in front."""
    return f"'{cell}" if _may_be_formula(cell) else cell


def unguard(cell: str) -> str:
    """Undo `guard`."""
    return cell[1:] if cell.startswith("'") and _may_be_formula(cell) else cell


def change_of(form: str, output: Path | None, safe: bool) -> Change:
    """Return the change made to CSV cells written to `output` (None: standard output)."""
    on_terminal = form == "csv" and _is_terminal(output)
    if safe:
        return (lambda cell: printable(guard(cell))) if on_terminal else guard
    return printable if on_terminal else as_is


def _may_be_formula(cell: str) -> bool:
    """True if a cell, behind any apostrophes, begins as a formula does, and is neither a number, or several, nor one
    character alone."""
    bare = cell.lstrip("'")
    if len(bare) < 2 or bare[0] not in _FORMULA:
        return False
    try:
        return not [float(word) for word in bare.split()]
    except ValueError:
        return True


def _is_terminal(output: Path | None) -> bool:
    if output is None:
        return sys.stdout is not None and sys.stdout.isatty()
    try:
        if not stat.S_ISCHR(os.stat(output).st_mode):
            return False
        file = os.open(output, flags("O_WRONLY", "O_NONBLOCK", "O_NOCTTY"))
    except OSError:
        return False
    try:
        return os.isatty(file)
    finally:
        os.close(file)
