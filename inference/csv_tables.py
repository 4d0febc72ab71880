"""Read tables of numbers from text files (.csv and .tsv). Raises ValueError, with a message for the user, if a file is
not such a table.

The following rules determine which line is the header; the result is reported:

- "yes": the first line that is not a comment is the header. "no": there is no header.
- "auto": the first line, if it names columns: no cell is a number or missing; or the cells are 0, 1, 2, 3, ..., as
  pandas writes for columns without names (at least four, or preceded by a name or an empty cell).

Lines before the first row that begin with # are comments, as written by NumPy. Empty lines are skipped. A cell that
is missing (empty, NA, null, ...) is an error in any position.
"""

from __future__ import annotations

import array
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Literal, TextIO, get_args

import numpy as np

from ..models.budget import Budget
from ..models.errors import ArgumentError
from .columns import HINT, Columns, Selection, Sides
from .feature_rows import FeatureRows

MAX_LINE = 1 << 24  # maximum characters of a line; enough for a million numbers
MISSING = frozenset(("", "na", "n/a", "#n/a", "#na", "null", "none", "nan", "nil", "-", "?", "<na>"))
SHOWN_NAMES = 6  # maximum number of header names shown
TEXT_BYTES = 64  # bytes in memory of an id or a class, in addition to its characters
FEWEST_COUNTS = 4  # for a header 0, 1, 2, 3; fewer numbers are equally likely to be a row

Header = Literal["auto", "yes", "no"]


@dataclass
class _Table:
    """The state of the reader: the numbers row by row, the number of cells per row, and notes on preceding lines.

    `columns` holds the columns named by the user, or None if all cells are features; `selection` holds the selected
    columns, or None for all.
    """

    budget: Budget
    columns: Columns | None = None
    selection: Selection | None = None
    sides: Sides | None = None
    names: list[str] = field(default_factory=list)
    values: array.array[float] = field(default_factory=lambda: array.array("d"))
    width: int = 0
    header_line: int | None = None
    header_width: int = 0
    comments: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_header(header: str) -> None:
    """Raise ArgumentError unless `header` is "auto", "yes" or "no"."""
    if header not in get_args(Header):
        raise ArgumentError(f"header is {header!r}; allowed: {', '.join(get_args(Header))}")


def csv_rows(
    name: str, file: IO[bytes], header: str = "auto", delimiter: str = ",", columns: Columns | None = None
) -> FeatureRows:
    """Read the rows of a text file, one per line. The whole file is read and closed. `name` identifies the file in
    error messages.

    All columns are features if `columns` is None.
    """
    budget = Budget.for_file(file.seek(0, io.SEEK_END))
    file.seek(0)
    with io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
        try:
            table = _parse(text, header, delimiter, columns, budget)
        except UnicodeDecodeError:
            raise ValueError("not a table of numbers encoded in UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"not a table of numbers: {error}") from None
    width = table.width if table.selection is None else len(table.selection.features)
    rows = FeatureRows.in_memory(name, np.frombuffer(table.values, np.float64).reshape(-1, width))
    rows.notes, rows.sides = tuple(table.notes), table.sides
    return rows


def table_cells(content: bytes, delimiter: str) -> tuple[list[str], int]:
    """Return the cells of a one-column text, and the line number of the first cell. Raises ValueError if there are more
    columns."""
    cells: list[str] = []
    first = 0
    try:
        reader = csv.reader(_lines(io.StringIO(content.decode("utf-8-sig"), newline="")), delimiter=delimiter)
        for record in reader:
            if not record or (not cells and record[0].lstrip().startswith("#")):
                continue
            if len(record) > 1:
                raise ValueError(f"line {reader.line_num}: found {len(record)} values; expected one per line")
            first = first or reader.line_num
            cells.append(record[0].strip())
    except UnicodeDecodeError:
        raise ValueError("not text in UTF-8") from None
    except csv.Error as error:
        raise ValueError(str(error)) from None
    return cells, first


def _parse(text: TextIO, header: str, delimiter: str, columns: Columns | None, budget: Budget) -> _Table:
    table = _Table(budget, columns)
    reader = csv.reader(_lines(text), delimiter=delimiter)
    for record in reader:
        if not record:
            continue
        is_first = not table.width and table.header_line is None
        if not (is_first and _is_before_rows(table, record, reader.line_num, header)):
            _add_row(table, record, reader.line_num, delimiter)
    if table.comments:
        lines = ", ".join(map(str, table.comments[:SHOWN_NAMES]))
        lines += ", ..." if len(table.comments) > SHOWN_NAMES else ""
        table.notes.insert(0, f"skipped as comments (#): line{'s' if len(table.comments) > 1 else ''} {lines}")
    if not table.values:
        below = "" if table.header_line is None else f" below line {table.header_line}, which is read as a header"
        raise ValueError(f"contains no rows of numbers{below}")
    return table


def _is_before_rows(table: _Table, record: list[str], number: int, header: str) -> bool:
    """Return True for a comment or the header, which are recorded. A note is added if the first row could be a
    header."""
    if record[0].lstrip().startswith("#"):
        table.comments.append(number)
        return True
    line = f"line {number} ({_names(record)})"
    if _is_header(record, header) or (header == "auto" and _has_names(record, table.columns)):
        table.header_line, table.header_width = number, len(record)
        table.names = [cell.strip() for cell in record]
        advice = "" if header == "yes" else '; header "no" reads it as a row'
        table.notes.append(f"{line} is read as a header{advice}")
        return True
    if header == "auto" and any(_counts([cell.strip() for cell in record], first) for first in (0, 1)):
        table.notes.append(f'{line} is read as a row; header "yes" reads it as a header')
    return False


def _add_row(table: _Table, record: list[str], line: int, delimiter: str) -> None:
    header_width = len(record) if table.header_line is None else table.header_width
    expected = table.width or header_width
    if not table.width and len(record) == expected:
        _select(table, record)
    selection = table.selection if len(record) == expected else None
    columns = range(len(record)) if selection is None else selection.features
    row = [_number(record[column]) for column in columns]
    is_uneven = bool(table.width) and len(record) != table.width
    if None in row and not (is_uneven and table.selection is not None):
        hint = HINT if table.columns is not None else ""
        raise ValueError(f"line {line}{_what_is_wrong(record, columns[row.index(None)], delimiter, hint)}")
    _check_width(table, record, line, expected)
    table.width = len(record)
    if selection is not None and table.sides is not None:
        _add_sides(table.sides, selection, record, table.budget)
    table.budget.take(table.values.itemsize * len(row), f"a table up to line {line}")
    table.values.extend(row)  # type: ignore[arg-type]  # no element is None


def _check_width(table: _Table, record: list[str], line: int, expected: int) -> None:
    """Raise ValueError if a line has a different number of values than the lines above it."""
    if len(record) == expected:
        return
    above = f"{table.width} before it"
    if not table.width:
        above = f"line {table.header_line}, read as a header, has {expected}"
    raise ValueError(f"line {line}: {len(record)} values, but {above}")


def _add_sides(sides: Sides, chosen: Selection, record: list[str], budget: Budget) -> None:
    """Store the id and the correct class of a row."""
    if chosen.id is not None and sides.ids is not None:
        sides.ids.append(record[chosen.id].strip())
        budget.take(TEXT_BYTES + len(sides.ids[-1]), "a table with its ids")
    if chosen.label is not None and sides.labels is not None:
        label = record[chosen.label].strip()
        sides.labels.append("" if label.lower() in MISSING else label)
        budget.take(TEXT_BYTES + len(sides.labels[-1]), "a table with its classes")


def _select(table: _Table, record: list[str]) -> None:
    """Determine from the first row which columns are features."""
    if table.columns is None:
        return
    names = table.names or [str(column) for column in range(len(record))]

    def is_text(column: int) -> bool:
        cell = record[column].strip()
        return not _is_number(cell) and cell.lower() not in MISSING and not _is_divided_otherwise([cell])

    if not table.columns.is_given and not any(map(is_text, range(len(record)))):
        return
    table.selection = selection = table.columns.select(names, is_text)
    if selection.id is not None or selection.label is not None:
        table.sides = Sides(
            id_name="" if selection.id is None else names[selection.id],
            ids=None if selection.id is None else [],
            labels=None if selection.label is None else [],
        )
    note = selection.note(names)
    if note is not None:
        table.notes.append(note)


def _has_names(record: Sequence[str], columns: Columns | None) -> bool:
    """Return True if a line contains all columns named by the user and none of these is a number."""
    columns_named = set() if columns is None else columns.named
    return (
        bool(columns_named)
        and columns_named <= {cell.strip() for cell in record}
        and not any(map(_is_number, columns_named))
    )


def _is_header(record: Sequence[str], header: str) -> bool:
    if header != "auto":
        return header == "yes"
    cells = [cell.strip() for cell in record]
    if (_counts(cells, 0) and len(cells) >= FEWEST_COUNTS) or (not _is_number(cells[0]) and _counts(cells[1:], 0)):
        return True
    names = [cell for cell in cells if cell.lower() not in MISSING]
    # The first cell of a header may be empty, if the column below it contains row numbers.
    complete = len(names) == len(cells) or (not cells[0] and len(names) == len(cells) - 1 > 0)
    return complete and not any(map(_is_number, names)) and not _is_divided_otherwise(cells)


def _counts(cells: Sequence[str], first: int) -> bool:
    """Return True if the cells are `first`, `first` + 1, ..., and there are at least two of them."""
    return len(cells) > 1 and all(cell == str(number) for number, cell in enumerate(cells, first))


def _is_divided_otherwise(cells: Sequence[str]) -> bool:
    """Return True if a line contains numbers with a different separator."""
    for mark in (";", "\t", ",", None):
        parts = [part for cell in cells for part in cell.split(mark)]
        if len(parts) > len(cells) and all(_is_number(part.replace(",", ".")) for part in parts):
            return True
    return False


def _names(record: Sequence[str]) -> str:
    names = ", ".join(cell[:20] for cell in record[:SHOWN_NAMES])
    return f"{names}, ..." if len(record) > SHOWN_NAMES else names


def _number(cell: str) -> float | None:
    """Parse a cell as a number, or return None for text, and for spellings that only Python accepts (`1_0`, digits of
    other scripts)."""
    try:
        return float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None


def _is_number(cell: str) -> bool:
    return _number(cell) is not None


def _what_is_wrong(record: Sequence[str], column: int, delimiter: str, hint: str) -> str:
    """Describe the cell of a record that is not a number, with advice for common causes."""
    cell = record[column]
    separator = "tabs" if delimiter == "\t" else "commas"
    for mark, name in ((";", "semicolons"), ("\t", "tabs"), (",", "commas"), (" ", "spaces")):
        if mark in cell.strip():
            return f": {name} between the values; expected {separator}, and decimal points in numbers"
    if not cell.strip():
        if 0 < column == len(record) - 1:
            return f": ends with a {separator[:-1]}, as if a value were missing"
        return f", column {column + 1}: is empty"
    if cell.strip().lower() in MISSING:
        return f", column {column + 1}: {cell[:40]!r}, a missing value; all must be numbers"
    return f", column {column + 1}: {cell[:40]!r} is not a number{hint}"


def _lines(text: TextIO) -> Iterator[str]:
    """Yield the lines of a file, with a limit on their length."""
    while line := text.readline(MAX_LINE):
        if len(line) == MAX_LINE and not line.endswith("\n"):
            raise csv.Error(f"a line is longer than {MAX_LINE} characters")
        yield line
