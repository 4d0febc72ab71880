"""The columns of a table: features, the ids of the rows, and their correct classes.

Columns are named as in the header, or numbered from 0 in tables without a header. If no columns are named, a single
text column is used as the id. Unknown names raise ValueError with a message for the user.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SHOWN_COLUMNS = 30  # maximum number of columns listed in an error message
HINT = "; exclude columns that are not features with --drop, --id or --label-column"


@dataclass(frozen=True)
class Columns:
    """The columns named by the user. If none are named, all columns except the id are features."""

    features: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id_column: str | None = None
    label_column: str | None = None

    @property
    def is_given(self) -> bool:
        """Return True if any column is named."""
        return self != Columns()

    @property
    def named(self) -> set[str]:
        """Return all named columns."""
        return {*self.features, *self.drop, *({self.id_column, self.label_column} - {None})}  # type: ignore[arg-type]

    def select(
        self,
        names: Sequence[str],
        is_text: Callable[[int], bool],
        is_index: Callable[[int], bool] = lambda column: False,
    ) -> Selection:
        """Select columns from a table with these column names.

        `is_text` returns True for a column of text, and `is_index` for a column that is omitted unless it is named.
        """
        _check_twice((*self.features, *self.drop))
        dropped = {_position(names, name) for name in self.drop}
        row_id = None if self.id_column is None else _position(names, self.id_column)
        label = None if self.label_column is None else _position(names, self.label_column)
        if row_id is not None and row_id == label:
            raise ValueError(f"column {self.id_column[:40]!r} cannot be both the id and the label")  # type: ignore[index]
        if self.features:
            return Selection(tuple(_position(names, name) for name in self.features), row_id, label)
        excluded = {*dropped, row_id, label}
        left = [column for column in range(len(names)) if column not in excluded and not is_index(column)]
        texts = list(filter(is_text, left)) if row_id is None else []
        is_found = len(texts) == 1 and len(left) > 1
        if is_found:
            row_id = texts[0]
            left.remove(row_id)
        if not left:
            raise ValueError("no columns are left as features, because all are excluded")
        return Selection(tuple(left), row_id, label, is_found)


@dataclass(frozen=True)
class Selection:
    """The numbers of the selected columns of a table: the features in order, and the id and the correct class, if any.
    `is_found` is True if the id column was detected rather than named."""

    features: tuple[int, ...]
    id: int | None = None
    label: int | None = None
    is_found: bool = False

    def note(self, names: Sequence[str]) -> str | None:
        """Return a note for the user, or None if nothing was selected automatically."""
        if not self.is_found or self.id is None:
            return None
        name = names[self.id][:40]
        return f"column {name!r} contains text and is used as the id (--id selects another, --drop excludes it)"


@dataclass
class Sides:
    """The columns other than features: the id and the correct class of each row, as text. Each is None if there is no
    such column; a class is empty if it is missing."""

    id_name: str
    ids: list[str] | None
    labels: list[str] | None

    def check(self) -> None:
        """Raise ValueError for a missing or repeated id."""
        rows: dict[str, int] = {}
        for row, name in enumerate(self.ids or ()):
            if not name:
                raise ValueError(f"row {row}: its id, column {self.id_name[:40]!r}, is empty")
            if rows.setdefault(name, row) != row:
                raise ValueError(
                    f"rows {rows[name]} and {row} have the same id {name[:40]!r}; column {self.id_name[:40]!r} cannot "
                    f"be the id; select another column with --id, or exclude this one with --label-column or --drop"
                )


def parse_names(option: str, text: str | None) -> tuple[str, ...]:
    """Parse a comma-separated list of names, in which a name that contains a comma is quoted. Raises ValueError for an
    empty list."""
    if text is None:
        return ()
    try:
        names = next(csv.reader([text], strict=True, skipinitialspace=True), [])
    except csv.Error:
        names = []
    if not names:
        raise ValueError(f"{option} {text[:40]!r}: expected column names separated by commas")
    return tuple(name.strip() for name in names)


def _position(names: Sequence[str], name: str) -> int:
    count = list(names).count(name)
    if count == 1:
        return list(names).index(name)
    if count:
        raise ValueError(f"{count} columns have the name {name[:40]!r}; column names must be unique")
    more = len(names) - SHOWN_COLUMNS
    listed = ", ".join(each[:40] for each in names[:SHOWN_COLUMNS]) + (f", ... and {more} more" if more > 0 else "")
    raise ValueError(f"has no column {name[:40]!r}; its columns are:  {listed}")


def _check_twice(names: Sequence[str]) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise ValueError(f"column {name[:40]!r} is given twice")
