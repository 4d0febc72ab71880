"""Tables as text that fits 80 columns, wider where there is room, in ASCII for terminals of any kind."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import IO, Any

from rich.box import Box
from rich.console import Console
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..text import printable

TIGHT = 70  # below it, tables of layers show times and shares alone, and records are no tables
NARROW = 40  # a window that is narrower wraps what it shows
WIDE = 200  # of a file or a pipe, which have no width of their own

_ENCODING = ContextVar("encoding of what is printed to", default="utf-8")

BOX = Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)


def render_records(title: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]], stream: IO[str] | None) -> str:
    """A plain table of records, whose last column takes the room that is left; in a window narrower than TIGHT a line
    for each value instead."""

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
        height=1,  # of no use to tables, but what is not given is looked for in COLUMNS, which may hold anything
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


def new_table(title: str | None = None) -> Table:
    """A table without columns yet. A title wraps at the width of the table."""
    return Table(
        title=None if title is None else cell(title, "bold"),
        title_justify="left",
        box=BOX,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )


def cell(value: str, style: str = "") -> Text:
    """Text as it is: no markup, no control characters; what cannot be printed is spelled out, and so has a width."""
    return Text(printable(value, _ENCODING.get()), style)


def print_line(console: Console, message: str, style: str = "") -> None:
    """A line of its own."""
    console.print(cell(message, style))


Columns = tuple[tuple[str, str], list[tuple[Text, Text]]]  # the headers of two columns, and their cells


def print_pairs(console: Console, title: str, columns: list[Columns]) -> None:
    """A table whose columns come in pairs, the first two of text: all side by side where there is room, else the second
    of each pair below the first. A window too narrow for that loses what is not of names, times and what follows."""
    if console.width < TIGHT:
        columns = [columns[0], *columns[2:4]]
        title += f" (a window of {TIGHT} columns shows shapes and bytes too)"
    unlimited = console.options.update(max_width=10_000)
    for wide in (True, False):
        table = new_table(title)
        for position, ((above, below), _) in enumerate(columns):
            for header in (above, below) if wide else (f"{above}\n{below}",):
                table.add_column(header, justify="left" if position < 2 else "right", overflow="fold")
        for pairs in zip(*(cells for _, cells in columns), strict=True):
            if wide:
                table.add_row(*(text for pair in pairs for text in pair))
            else:
                table.add_row(*(Text("\n").join(pair) for pair in pairs))
        if not wide or Measurement.get(console, unlimited, table).maximum <= console.width:
            console.print(table)
            return
