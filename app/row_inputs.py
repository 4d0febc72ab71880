"""The rows of `ffnn`: which data they are, and where to go on."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path

from ..inference.feature_rows import FeatureRows, numbered
from ..inference.search import InputProblem
from ..inference.stream import Batch
from ..models.errors import InputError
from ..models.regular_files import describe
from .errors import UsageError
from .journal.identity import Identity
from .text import count

MAX_REFUSED = 1000  # rows, after which the file is taken for something else


class RowInputs:
    """Rows of a file."""

    command = "ffnn"
    progress_title = "classifying rows"
    prepare = None  # rows are sent as they are
    states = None  # `identity` has that of the file

    def __init__(self, path: Path, rows: FeatureRows, header: str = "auto") -> None:
        self._path = path
        self._header = header
        self._rows = rows
        self._answered: Set[str | int] = frozenset()
        self.problems: list[InputProblem] = []

    def describe(self, answered: int) -> str:
        """`3 rows of 64 features`."""
        return f"{count(answered, 'row')} of {count(self._rows.shape[1], 'feature')}"

    def identity(self) -> Identity:
        """Return the identity of the file: its name, size and time of change."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise UsageError(f"{self._path}: {describe(error)}") from None
        data = [str(self._path.resolve()), status.st_size, status.st_mtime_ns]
        return {"data": data, "header": self._header}

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Leave out the rows answered; UsageError where some are none of these."""
        rows = len(self._rows)
        if not answered <= set(range(rows)):
            raise UsageError(f"--resume: the {len(answered)} rows answered are not of these {rows} rows")
        self._answered = answered
        return rows - len(answered)

    def batches(self, size: int) -> Iterable[Batch]:
        """The rows that are left, with their numbers."""
        first = 0
        while first in self._answered:
            first += 1
        return numbered(self._rows, size, self.refuse, first, self._answered)

    def refuse(self, name: str | int, reason: str) -> None:
        """Note that a row could not be answered. InputError where that is so of more than MAX_REFUSED."""
        self.problems.append(InputProblem(name, reason))
        if len(self.problems) > MAX_REFUSED:
            raise InputError(f"{self._path}: more than {MAX_REFUSED} rows cannot be used; row {name}: {reason}")
