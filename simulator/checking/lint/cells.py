"""The code cells of a Jupyter notebook as Python source, in which a string replaces each magic command.

    notebook = Cells.of(document)     # the JSON of the file
    notebook.text                     # Python source: the code cells in order
    notebook.split(text)              # the sources of the cells, from `text` or an edited form of it

A line magic is a statement, or the value of an assignment (`files = !ls`). A cell magic such as %%time is followed by
Python. Other cell magics, such as %%bash, take the whole cell.

Lines of `text` end in \\n. `split` restores the original line endings of a cell: \\n, or \\r\\n.
"""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

_WITH_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun", "%%memit", "%%mprun")  # the rest of the cell is Python
_WITH_FILE = ("%%writefile", "%%file")  # the rest of the cell is the contents of a file
_MAGIC = re.compile(r"[%!?].*|[A-Za-z_][\w.]*\?{1,2}\s*$")  # at the beginning of a statement
_VALUE = re.compile(r"[A-Za-z_][\w.,\s]*=\s*(?=[%!])")  # before the magic of an assignment


@dataclass
class Cells:
    """The code cells of a notebook.

    `numbers` are the positions of the cells in the notebook, counted from 1. `places` maps each line of `text` to the
    number of its cell and its line within the cell, which is 0 for the line before the cell. `files` are the Python
    files that cells write.
    """

    text: str = ""
    numbers: list[int] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    files: list[tuple[int, str]] = field(default_factory=list)
    _prefix: str = "jupyter"  # of placeholders
    _magics: list[str] = field(default_factory=list)
    _sources: dict[int, str] = field(default_factory=dict)  # of the cells in Python, as they were

    @classmethod
    def of(cls, document: Any) -> Cells:
        """Read a notebook. Raises KeyError, TypeError or AttributeError if `document` is not a notebook."""
        cells = enumerate(document["cells"], 1)
        sources = {number: "".join(cell["source"]) for number, cell in cells if cell["cell_type"] == "code"}
        notebook = cls(_prefix=_absent(sources.values()))
        for number, source in sources.items():
            notebook._add(number, source)
        return notebook

    def _add(self, number: int, source: str) -> None:
        self.numbers.append(number)
        lines = [(0, f"'{self._prefix} cell {number}'"), *self._python(number, source)]
        self.text += "".join(f"{text}\n" for _, text in lines)
        self.places += [(number, line) for line, _ in lines]

    def _python(self, number: int, source: str) -> list[tuple[int, str]]:
        """Return the lines of a cell as Python, each with its number in the cell."""
        first = source.lstrip()
        if first.startswith("%%") and not first.startswith(_WITH_PYTHON):
            if _writes_python(first):
                self.files.append((number, first.partition("\n")[2]))
            return [(1, self._placeholder(source))]
        self._sources[number] = source
        lines = _with_newlines(source).split("\n")
        cells: list[tuple[int, str]] = []
        cell_start = 0
        while cell_start < len(lines):
            text, end = self._line(lines, cell_start, [text for _, text in cells])
            cells.append((cell_start + 1, text))
            cell_start = end
        return cells

    def _line(self, lines: Sequence[str], place: int, before: Sequence[str]) -> tuple[str, int]:
        """Return a line of a cell as Python, and the number of lines up to the end of its magic."""
        line = lines[place]
        indent = line[: len(line) - len(line.lstrip())]
        assigned = _VALUE.match(line.lstrip())
        start = len(indent) + (assigned.end() if assigned else 0)
        if not (assigned or _MAGIC.fullmatch(line.lstrip())) or _is_open(before):
            return line, place + 1
        end = place + 1
        while lines[end - 1].endswith("\\") and end < len(lines):
            end += 1
        magic = "\n".join([line[start:], *lines[place + 1 : end]])
        return line[:start] + self._placeholder(magic), end

    def _placeholder(self, magic: str) -> str:
        self._magics.append(magic)
        return f"'{self._prefix} magic {len(self._magics)}'"

    def split(self, text: str) -> dict[int, str]:
        """Return the source of each code cell by its number, with its magic commands.

        Raises:
            ValueError: a cell or a magic command is missing from `text`, or occurs twice.
        """
        if self._place.findall(text) != self._place.findall(self.text):
            raise ValueError("the cells of the notebook, or its magic commands, have changed")
        parts = re.split(rf"^'{self._prefix} cell \d+'\n", text, flags=re.M)
        if self.numbers:
            parts[1] = parts[0] + parts[1]  # statements before the first cell belong to it
        return {number: self._restored(number, part) for number, part in zip(self.numbers, parts[1:])}

    def place_in(self, text: str, line: int) -> tuple[int, int]:
        """Return the cell number of a line of `text`, an edited version of the text, and its line within the cell.
        Lines before the first cell belong to the first cell."""
        cell, before = self.numbers[0] if self.numbers else 1, 0
        for number, line_text in enumerate(text.splitlines()[:line], 1):
            if (marked := self._place.fullmatch(line_text)) and marked[1] == "cell":
                cell, before = int(marked[2]), number
        return cell, line - before

    @property
    def _place(self) -> re.Pattern[str]:
        return re.compile(rf"'{self._prefix} (cell|magic) (\d+)'")

    def _restored(self, number: int, text: str) -> str:
        source = self._place.sub(lambda place: self._magics[int(place[2]) - 1], text).removesuffix("\n")
        return _with_ends_of(self._sources[number], source) if number in self._sources else source


def _absent(sources: Collection[str]) -> str:
    """Return a word that occurs in none of the sources."""
    words = (f"jupyter{count or ''}" for count in itertools.count())
    return next(word for word in words if not any(word in source for source in sources))


def _with_newlines(source: str) -> str:
    return source.replace("\r\n", "\n")


def _with_ends_of(old: str, text: str) -> str:
    """Return `text`, the new version of a source, with the line endings of the old source. A changed line takes the
    ending of the line that it replaces, or of the last of several."""
    ends = re.findall(r"\r?\n", old)
    if "\r\n" not in ends:
        return text
    lines = text.split("\n")
    pieces: list[str] = []
    for _, start, stop, first, last in SequenceMatcher(None, _with_newlines(old).split("\n"), lines).get_opcodes():
        for number, line in enumerate(lines[first:last], start):
            pieces += line, ends[min(number, max(start, stop - 1), len(ends) - 1)]
    return "".join(pieces[:-1])


def _writes_python(source: str) -> bool:
    return source.startswith(_WITH_FILE) and source.partition("\n")[0].rstrip().endswith(".py")


def _is_open(lines: Sequence[str]) -> bool:
    """Return True if the next line continues a statement: a bracket or a string is open."""
    text = "\n".join(lines) + "\n"
    if text.endswith("\\\n"):
        return True
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text).readline):
            pass
    except tokenize.TokenError as error:
        return "multi-line" in str(error)
    except SyntaxError:  # inconsistent indentation
        return False
    return False
