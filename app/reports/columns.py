"""Columns of tables, described once for the terminal, the HTML page and Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from .html_markup import microseconds
from .resources import short

Row = TypeVar("Row")
Kind = Literal["name", "time", "share", "rate", "bound", "number", "text", "code"]

NO_VALUE = "\u2013"


@dataclass(frozen=True)
class ReportColumn(Generic[Row]):
    """A column of a table. The bar of a `rate` is relative to the largest rate in the column, and the bar of a `share`
    is relative to 1. A `bound` has the colour of the row's `resource`."""

    heading: str
    text: Callable[[Row], str]
    kind: Kind = "text"
    value: Callable[[Row], float | None] | None = None  # sort key on the page; None: sort by the text
    rank: int = 0  # on a narrow terminal, columns with the highest rank are dropped first
    total: Callable[[Sequence[Row]], float] | None = None  # value in the totals row, if the column has a total
    unit: Callable[[float], str] = microseconds
    resource: Callable[[Row], str | None] = lambda row: None

    @property
    def is_number(self) -> bool:
        """Return True if cells are right-aligned."""
        return self.value is not None and self.kind != "name"


def number_column(
    heading: str,
    value: Callable[[Row], float | None],
    unit: Callable[[float], str] = microseconds,
    rank: int = 0,
    kind: Kind = "number",
    total: Callable[[Sequence[Row]], float] | None = None,
    resource: Callable[[Row], str | None] = lambda row: None,
) -> ReportColumn[Row]:
    """Return a column of numbers with a unit, in which missing values are dashes."""

    def text(row: Row) -> str:
        number = value(row)
        return NO_VALUE if number is None else unit(number)

    return ReportColumn(heading, text, kind, value=value, rank=rank, total=total, unit=unit, resource=resource)


def worst(classes: Sequence[Row], value: Callable[[Row], Any], measure: str, most: int) -> tuple[Sequence[Row], str]:
    """Return all classes and "". If there are more than `most`, return the classes with the lowest values and a note
    about it."""
    if len(classes) <= most:
        return classes, ""
    return sorted(classes, key=value)[:most], f"the {most} of {len(classes)} classes with the lowest {measure}"


def bound_column(heading: str, resource: Callable[[Row], str | None], rank: int = 0) -> ReportColumn[Row]:
    """Return a column of resources in their colours."""
    return ReportColumn(heading, lambda row: short(resource(row)), "bound", rank=rank, resource=resource)


def filled(columns: Sequence[ReportColumn[Row]], rows: Sequence[Row]) -> list[ReportColumn[Row]]:
    """Return the column of names, and the columns with a value in any of the rows."""
    missing = ("", "-", NO_VALUE)
    return [
        column for column in columns if column.kind == "name" or any(column.text(row) not in missing for row in rows)
    ]
