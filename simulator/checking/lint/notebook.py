"""Source code of Jupyter notebooks, and the locations of findings in their cells."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from .cells import Cells
from .rules import Finding
from .source import SourceError, read_source

SUFFIX = ".ipynb"


@dataclass(frozen=True)
class Notebook:
    """The code of a notebook. `cells` maps each line to the number of its cell (from 1) and the line in the cell.

    `files` are the Python files that cells write (%%writefile), each with the number of its cell.
    """

    shown: str
    text: str
    cells: tuple[tuple[int, int], ...]
    files: tuple[tuple[int, str], ...]

    def located(self, finding: Finding) -> Finding:
        """Return a finding with its location as the cell and the line that the notebook shows."""
        if finding.path != self.shown or not 0 < finding.line <= len(self.cells):
            return finding
        cell, line = self.cells[finding.line - 1]
        return replace(finding, path=f"{self.shown}:cell {cell}", line=line)


def read_notebook(path: Path, shown: str) -> Notebook:
    """Read the code cells of a notebook. Raises SourceError if the file is not a notebook."""
    try:
        cells = Cells.of(json.loads(read_source(path, shown)))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SourceError(f"{shown}: not a Jupyter notebook") from None
    return Notebook(shown, cells.text, tuple(cells.places), tuple(cells.files))
