"""The input rows of `ffnn`: their identity, their names, and which of them remain to be processed."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Set
from pathlib import Path

import numpy as np

from ..inference.columns import Columns
from ..inference.feature_rows import FeatureRows, numbered
from ..inference.predictions import Prediction
from ..inference.search import STANDARD_INPUT, InputProblem
from ..inference.stream import Batch
from ..models.errors import InputError
from ..models.regular_files import describe
from .errors import UsageError
from .journal.identity import Identity
from .text import count

MAX_PIPED_BYTES = 1 << 30  # limit for standard input, which is held in memory
HASHED_ROWS = 4096  # number of rows hashed at once
MAX_REFUSED = 1000  # more rejected rows indicate that the file is something else


class RowInputs:
    """The rows of a file, identified by their ids if they have any, otherwise by number."""

    command = "ffnn"
    progress_title = "classifying rows"
    prepare = None  # rows are sent unchanged
    states = None  # the file's state is in `identity`
    count = None  # unknown, since rows are read while others are processed

    def __init__(self, path: Path, rows: FeatureRows, header: str = "auto", columns: Columns | None = None) -> None:
        self._path = path
        self._header = header
        self._columns = columns or Columns()
        self._ids = None if rows.sides is None else rows.sides.ids
        self._rows_of = {name: row for row, name in enumerate(self._ids or ())}
        self._rows = rows
        self._answered: Set[str | int] = frozenset()
        self.problems: list[InputProblem] = []

    def describe(self, answered: int) -> str:
        """Return the number of rows as text, such as `3 rows of 64 features`."""
        return f"{count(answered, 'row')} of {count(self._rows.shape[1], 'feature')}"

    def identity(self) -> Identity:
        """Return the identity of the columns and of the file: its name, size and modification time or, for standard
        input, a hash of its numbers."""
        if str(self._path) == STANDARD_INPUT:
            data: list[str | int] = [STANDARD_INPUT, len(self._rows), self._hash()]
        else:
            try:
                status = self._path.stat()
            except OSError as error:
                raise UsageError(f"{self._path}: {describe(error)}") from None
            data = [str(self._path.resolve()), status.st_size, status.st_mtime_ns]
        return {
            "data": data,
            "header": self._header,
            "columns": ",".join(self._columns.features),
            "drop": ",".join(self._columns.drop),
            "id": None if self._ids is None or self._rows.sides is None else self._rows.sides.id_name,
        }

    def _hash(self) -> str:
        digest = hashlib.sha256()
        for batch in self._rows.batches(HASHED_ROWS):
            digest.update(np.ascontiguousarray(batch).data)
        for name in self._ids or ():
            digest.update(f"{len(name)} {name}".encode())
        return digest.hexdigest()

    def right_class(self, truth: np.ndarray, answer: Prediction) -> int | None:
        """Return the correct class of a prediction, or None if it is unknown (negative)."""
        index = int(truth[self._row_of(answer.input)])
        return index if index >= 0 else None

    def _row_of(self, name: str | int) -> int:
        return int(name) if self._ids is None else self._rows_of[str(name)]

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Skip the rows that already have a prediction. Raises UsageError if some of them are not in the file."""
        rows = len(self._rows)
        if not answered <= (set(range(rows)) if self._ids is None else self._rows_of.keys()):
            raise UsageError(f"--resume: the {len(answered)} answered rows do not match these {rows} rows")
        self._answered = set(map(self._row_of, answered))
        return rows - len(answered)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield the remaining rows with their ids or numbers."""
        first = 0
        while first in self._answered:
            first += 1
        for numbers, rows in numbered(self._rows, size, self._refuse_row, first, self._answered):
            yield numbers if self._ids is None else [self._ids[number] for number in numbers], rows

    def _refuse_row(self, row: int, reason: str) -> None:
        self.refuse(row if self._ids is None else self._ids[row], reason)

    def refuse(self, name: str | int, reason: str) -> None:
        """Record a row for which no prediction could be made. Raises InputError after more than MAX_REFUSED rows."""
        self.problems.append(InputProblem(name, reason))
        if len(self.problems) > MAX_REFUSED:
            raise InputError(f"{self._path}: more than {MAX_REFUSED} rows cannot be used; row {name}: {reason}")


def read_standard_input() -> bytes:
    """Return the complete standard input. Raises UsageError if it is empty or larger than MAX_PIPED_BYTES."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("--data -: standard input is not a pipe")
    try:
        content = sys.stdin.buffer.read(MAX_PIPED_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--data -: {describe(error)}") from None
    if not content:
        raise UsageError("--data -: standard input is empty")
    if len(content) > MAX_PIPED_BYTES:
        raise UsageError(f"--data -: standard input has more than {MAX_PIPED_BYTES} bytes; write them to a file")
    return content
