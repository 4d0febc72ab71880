"""Escape CSV cells for terminals and spreadsheets, which would otherwise interpret some of their text."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from ...models.regular_files import flags
from ..text import printable

Change = Callable[[str], str]

# First characters of formulas in common spreadsheets (OWASP, CSV Injection), including their full-width forms.
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"


def as_is(cell: str) -> str:
    """Return a cell unchanged, as required by programs and files."""
    return cell


def guard(cell: str) -> str:
    """Prepend an apostrophe if a spreadsheet would interpret the cell as a formula."""
    return f"'{cell}" if _may_be_formula(cell) else cell


def unguard(cell: str) -> str:
    """Undo `guard`."""
    return cell[1:] if cell.startswith("'") and _may_be_formula(cell) else cell


def change_of(form: str, output: Path | None, safe: bool) -> Change:
    """Return the function applied to CSV cells that are written to `output`, or to standard output if it is None."""
    on_terminal = form == "csv" and _is_terminal(output)
    if safe:
        return (lambda cell: printable(guard(cell))) if on_terminal else guard
    return printable if on_terminal else as_is


def _may_be_formula(cell: str) -> bool:
    """Return True if a cell, after any leading apostrophes, starts like a formula and is neither a number nor a single
    character."""
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
