"""Format tables as text for 80 columns or more, in ASCII so that every terminal can display them."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, Any

from rich.box import Box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ...inference import palette
from ..text import printable, wrapped
from .columns import NO_VALUE, ReportColumn, Row

ONE_LINE = 80  # minimum width at which a row of figures is printed on one line
TIGHT = 70  # below this width, each value of a record is printed on its own line
HEADING = 14  # width at which a heading is wrapped
NAME = 24  # minimum width of names; columns of figures are dropped before names are shortened
GAP = 2  # spaces between columns
NARROW = 40  # minimum layout width; in a narrower window, the terminal wraps the lines
WIDE = 200  # line width for files and pipes

_ENCODING = ContextVar("encoding of what is printed to", default="utf-8")

BOX = Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)


def render_records(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]], stream: IO[str] | None) -> str:
    """Return a plain table of records whose last column fills the remaining width; below TIGHT columns, each value is
    on its own line."""

    def fill(console: Console) -> None:
        if console.width < TIGHT:
            print_line(console, title, "bold")
            for first, *rest in rows:
                print_line(console, str(first))
                for column, value in zip(columns[1:], rest, strict=True):
                    console.print(Padding(cell(f"{column}: {value}"), (0, 0, 0, 2)))
            return
        table = new_table(title)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(cell(str(value)) for value in row))
        console.print(table)

    return to_text(fill, stream)


def to_text(fill: Callable[[Console], None], stream: IO[str] | None) -> str:
    """Return the text printed by `fill`, coloured if `stream` is a terminal and NO_COLOR is not set."""
    text = io.StringIO()
    terminal = stream is not None and stream.isatty()
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        width = int(columns)
    elif terminal and stream is not None:
        width = os.get_terminal_size(stream.fileno()).columns
    else:
        width = WIDE
    console = Console(
        file=text,
        width=max(width, NARROW),
        height=1,  # unused by tables; otherwise rich reads it from the environment, which may be invalid
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        highlight=False,
        legacy_windows=False,
    )
    before = _ENCODING.set(getattr(stream, "encoding", None) or "utf-8")
    try:
        fill(console)
    finally:
        _ENCODING.reset(before)
    if terminal:
        return text.getvalue()
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def new_table(title: str | None = None, gap: int = 1) -> Table:
    """Return an empty table whose columns will be separated by `gap` spaces. A long title is wrapped to the table's
    width."""
    return Table(
        title=None if title is None else cell(title, "bold"),
        title_justify="left",
        box=BOX,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap, 0, 0),
        header_style="bold",
    )


def cell(value: str, style: str = "") -> Text:
    """Return literal text: markup is not interpreted, and control and unprintable characters are escaped."""
    return Text(printable(value, _ENCODING.get()), style)


def print_line(console: Console, message: str, style: str = "") -> None:
    """Print a message, wrapped at word boundaries."""
    for line in wrapped(cell(message).plain, console.width):
        console.print(Text(line, style), soft_wrap=True)


@dataclass(frozen=True)
class Column:
    """A column of a table of figures: its heading, cells and rank. The column with the highest rank is dropped
    first."""

    heading: str
    cells: Sequence[Text]
    is_number: bool = True
    rank: int = 0

    @property
    def lines(self) -> list[str]:
        """Return the lines of the wrapped heading."""
        return textwrap.wrap(self.heading, HEADING) or [""]

    @property
    def width(self) -> int:
        """Return the width in terminal columns."""
        return max([*map(len, self.lines), *(text.cell_len for text in self.cells)])


def figures(columns: Sequence[ReportColumn[Row]], rows: Sequence[Row], slow: Sequence[Row] = ()) -> list[Column]:
    """Return the columns of a table with the cells of its rows; the times of `slow` rows are highlighted."""
    return [
        Column(_ascii(column.heading), _cells(column, rows, slow), column.is_number, column.rank) for column in columns
    ]


def print_table(console: Console, title: str | None, columns: Sequence[ReportColumn[Row]], rows: Sequence[Row]) -> None:
    """Print a table whose texts are wrapped if it is too wide."""
    table = new_table(title)
    for column in columns:
        if column.is_number:
            table.add_column(column.heading, justify="right")
        else:
            table.add_column(column.heading, overflow="fold")
    for line in zip(*(_cells(column, rows) for column in columns)):
        table.add_row(*line)
    console.print(table)


def _cells(column: ReportColumn[Row], rows: Sequence[Row], slow: Sequence[Row] = ()) -> list[Text]:
    cells = []
    for row in rows:
        style = "bold" if column.kind == "name" else ""
        if column.kind == "time":
            style = palette.TERMINAL_SLOW if row in slow else ""
        elif column.kind == "bound":
            style = palette.TERMINAL_STYLES.get(column.resource(row) or "", "")
        cells.append(cell(_ascii(column.text(row)), style))
    return cells


def _ascii(text: str) -> str:
    """Return a heading or cell in which characters of the page are replaced by ASCII characters."""
    return text.replace(NO_VALUE, "-").replace("\u00d7", "x").replace("\u2605", "*")


def print_rows(console: Console, title: str, columns: Sequence[Column], wide: bool = False) -> None:
    """Print a table with one line per row; the first column contains names.

    If not all columns fit, those with the highest ranks are omitted and listed in a line below the table; `wide` shows
    all columns. Below ONE_LINE columns, the name is on a separate line above its figures.
    """
    stacked = console.width < ONE_LINE and not wide
    names, *figures = columns
    available = console.width - 2 if stacked else console.width - min(names.width, NAME) - GAP
    visible = list(figures) if wide else _fitting(figures, available)
    print_line(console, title, "bold")
    spare = console.width - _width(visible) - (GAP if visible else 0)
    name_width = names.width if wide or stacked else min(names.width, max(spare, NAME))

    def line(texts: Sequence[Text]) -> Text:
        return Text(" " * GAP).join(_set(text, column.width, column.is_number) for text, column in zip(texts, visible))

    def put(text: Text) -> None:
        text.rstrip()
        console.print(text, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)

    def row(name: Text, texts: Sequence[Text]) -> None:
        if not stacked:
            put(_set(_shortened(name, name_width), name_width, False) + Text(" " * GAP) + line(texts))
            return
        if name.plain:
            put(_shortened(name, console.width))
        put(Text("  ") + line(texts))

    for name, heads in _heading_rows(names, visible):
        row(name, heads)
    put(Text("-" * ((0 if stacked else name_width) + GAP + _width(visible))))
    for name, *cells in zip(names.cells, *(column.cells for column in visible)):
        row(name, cells)
    _list_missing(console, [column.heading for column in figures if column not in visible])


def _list_missing(console: Console, headings: Sequence[str]) -> None:
    """Print the headings of the columns that do not fit, if there are any."""
    if headings:
        print_line(console, f"not shown: {', '.join(headings)} (--wide)", palette.TERMINAL_MINOR)


def _heading_rows(names: Column, shown: Sequence[Column]) -> Iterator[tuple[Text, list[Text]]]:
    """Yield the lines of the headings from top to bottom: for each line, the heading of the names and the headings of
    the figures."""
    height = max(len(column.lines) for column in (names, *shown))
    for level in range(height):
        name, *heads = (Text(_level(column, level, height), "bold") for column in (names, *shown))
        yield name, heads


def _fitting(columns: Sequence[Column], available: int) -> list[Column]:
    """Return the columns that fit into `available` columns of text, dropping those with the highest ranks first."""
    fitting = list(columns)
    while len(fitting) > 1 and _width(fitting) > available:
        fitting.remove(max(fitting, key=lambda column: column.rank))
    return fitting


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + GAP * (len(columns) - 1)


def _level(column: Column, level: int, height: int) -> str:
    """Return one of the `height` lines of the headings for a column, whose own heading is aligned with the bottom
    line."""
    return ([""] * (height - len(column.lines)) + column.lines)[level]


def _set(text: Text, width: int, right: bool) -> Text:
    """Return `text` padded to `width`."""
    spare = Text(" " * max(width - text.cell_len, 0))
    return spare + text if right else Text() + text + spare


def _shortened(text: Text, width: int) -> Text:
    """Return the text, with its middle replaced by dots if it is too long, since layer names differ at their ends."""
    if text.cell_len <= width:
        return text
    head = (width - 2) // 3
    return Text(f"{text.plain[:head]}..{text.plain[head + 2 - width :]}", text.style)
