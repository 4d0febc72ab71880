"""Convert Jupyter notebooks to Python source: the code cells in order, without magic commands."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from .rules import Finding
from .source import SourceError, read_source

SUFFIX = ".ipynb"


@dataclass(frozen=True)
class Notebook:
    """The code of a notebook. `cells` maps each line to the number of its cell (from 1) and the line in the cell."""

    shown: str
    text: str
    cells: tuple[tuple[int, int], ...]

    def located(self, finding: Finding) -> Finding:
        """Return a finding with its location as the cell and the line that the notebook shows."""
        if finding.path != self.shown or not 0 < finding.line <= len(self.cells):
            return finding
        cell, line = self.cells[finding.line - 1]
        return replace(finding, path=f"{self.shown}:cell {cell}", line=line)


def read_notebook(path: Path, shown: str) -> Notebook:
    """Read the code cells of a notebook. SourceError is raised if the file is not a notebook."""
    try:
        cells = json.loads(read_source(path, shown))["cells"]
        sources = [(number, "".join(cell["source"])) for number, cell in _code(cells)]
    except (ValueError, KeyError, TypeError):
        raise SourceError(f"{shown}: not a Jupyter notebook") from None
    lines: list[str] = []
    places: list[tuple[int, int]] = []
    for number, source in sources:
        is_cell_magic = source.lstrip().startswith("%%")
        for line, text in enumerate(source.splitlines(), 1):
            indent = text[: len(text) - len(text.lstrip())]
            is_magic = text.lstrip().startswith(("%", "!", "?"))
            lines.append(f"{indent}pass" if is_magic or is_cell_magic else text)
            places.append((number, line))
    return Notebook(shown, "\n".join(lines) + "\n", tuple(places))


def _code(cells: list[dict[str, object]]) -> list[tuple[int, dict[str, list[str]]]]:
    """Return the code cells, each with its number among all cells."""
    return [(n, cell) for n, cell in enumerate(cells, 1) if cell["cell_type"] == "code"]  # type: ignore[misc]
