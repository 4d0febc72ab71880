"""Migration of Jupyter notebooks: code cells are rewritten, and everything else is left unchanged.

The code cells are migrated together, as one Python file, because a cell may use names that earlier cells define. A cell
that writes a Python file (%%writefile kernel.py) is migrated as that file.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..checking.lint.cells import Cells
from ..checking.lint.rules import Finding
from . import Migration, MigrationError, Note, migrate_source

Place = Callable[[int], tuple[int, int]]  # the cell of a line, and the line in the cell


class NotebookError(ValueError):
    """Raised if a file is not a Jupyter notebook, or if one of its cells is not Python."""


@dataclass(frozen=True)
class Part:
    """The source before and after a migration: a Python file, the cells of a notebook, or a file that a cell writes.

    `place`: a function that maps a line of the old source to its cell and its line within the cell; None if the source
    is a file. `cell`: the number of the cell that writes the source, or 0. `cells`: the cells, if the source consists
    of them.
    """

    old: str
    migration: Migration
    place: Place | None = None
    cell: int = 0
    cells: Cells | None = None

    @property
    def within(self) -> str:
        """Return the cell that the source is in, to append to the name of the notebook, or an empty string."""
        return f":cell {self.cell}" if self.cell else ""

    def shown(self, note: Note, path: str) -> str:
        """Format a note; in a notebook, with its cell and the line in the cell."""
        if self.place is None:
            return note.shown(path)
        cell, line = self.place(note.line)
        return replace(note, line=line).shown(f"{path}:cell {cell}")

    def located(self, finding: Finding) -> Finding:
        """Return a finding in the migrated source; in a notebook, located by the cell and the line in it."""
        if self.cell:
            return replace(finding, path=f"cell {self.cell}", line=finding.line + 1)
        if self.cells is None:
            return finding
        cell, line = self.cells.place_in(self.migration.text, finding.line)
        return replace(finding, path=f"cell {cell}", line=line)


@dataclass(frozen=True)
class NotebookMigration:
    """A migrated notebook: the text of the file, and the source that was migrated, the cells first."""

    text: str
    parts: tuple[Part, ...]


def migrate_notebook(text: str) -> NotebookMigration:
    """Rewrite a notebook with kernels in an older NKI for NKI 0.7, with its outputs and magic commands unchanged.

    Raises:
        NotebookError: the text is not a notebook, or a cell is not Python.
        LimitError, MigrationError: for the same reasons as in `migrate_source`.
    """
    try:
        document = json.loads(text)
        cells = Cells.of(document)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NotebookError("not a Jupyter notebook") from None
    places = cells.places

    def place(line: int) -> tuple[int, int]:
        return places[min(max(line, 1), len(places)) - 1] if places else (1, 1)

    parts = [replace(_migrated(cells.text, place), cells=cells)]
    sources = _split(cells, parts[0].migration.text)
    for number, source in cells.files:
        part = _migrated(source, lambda line, number=number: (number, line + 1), number)  # type: ignore[misc]
        parts.append(part)
        sources[number] = sources[number].partition("\n")[0] + "\n" + part.migration.text
    before = _split(cells, cells.text)
    changed = {number: source for number, source in sources.items() if source != before[number]}
    if changed:
        style = _style(document, text)
        for number, source in changed.items():
            _replace(document["cells"][number - 1], source)
        text = _written(document, *style)
    return NotebookMigration(text, tuple(parts))


def _migrated(source: str, place: Place, cell: int = 0) -> Part:
    try:
        return Part(source, migrate_source(source), place, cell)
    except SyntaxError as error:
        cell, line = place(error.lineno or 1)
        raise NotebookError(f"cell {cell}, line {line}: not Python source: {error.msg}") from None
    except MigrationError as error:
        raise MigrationError(str(error), place(error.line)[1] if error.line else 0) from None


def _split(cells: Cells, text: str) -> dict[int, str]:
    try:
        return cells.split(text)
    except ValueError as error:
        raise MigrationError(str(error)) from None


def _replace(cell: dict[str, Any], source: str) -> None:
    """Set the source of a cell, as a list of lines if it was one."""
    cell["source"] = source.splitlines(keepends=True) if isinstance(cell["source"], list) else source


def _style(document: Any, text: str) -> tuple[int | None, bool, str]:
    """Return the style of a notebook's JSON: its indentation, whether it is ASCII, and its ending. If no common style
    reproduces the text, return Jupyter's style."""
    styles = itertools.product((1, 2, 4, None), (False, True), ["\n" if text.endswith("\n") else ""])
    return next((style for style in styles if _written(document, *style) == text), (1, False, "\n"))


def _written(document: Any, indent: int | None, is_ascii: bool, end: str) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=is_ascii) + end
