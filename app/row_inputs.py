"""The rows of `ffnn`: which data they are, where to go on, and which answers are right."""

from __future__ import annotations

from collections.abc import Iterable, Set
from pathlib import Path

import numpy as np

from ..inference.feature_rows import FeatureRows, numbered
from ..inference.predictions import Prediction
from ..inference.search import InputProblem
from ..inference.stream import Batch
from ..models.errors import InputError
from ..models.regular_files import describe
from .errors import UsageError
from .journal.identity import Identity
from .reports.report import Score
from .text import count

MAX_REFUSED = 1000  # rows, after which the file is taken for something else


class RowInputs:
    """Rows of a file, and their right classes int32 [N] where those are known."""

    command = "ffnn"
    progress_title = "classifying rows"
    prepare = None  # rows are sent as they are
    states = None  # `identity` has that of the file

    def __init__(self, path: Path, rows: FeatureRows, truth: np.ndarray | None, header: str = "auto") -> None:
        self._path = path
        self._header = header
        self._rows = rows
        self._truth = truth
        self._answered: Set[str | int] = frozenset()
        self._correct = 0
        self._total = 0
        self.problems: list[InputProblem] = []

    @property
    def score(self) -> Score | None:
        """The score of all answers noted."""
        return Score(self._correct, self._total) if self._truth is not None else None

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

    def note(self, predictions: Iterable[Prediction]) -> None:
        """Count the answers that are right."""
        if self._truth is None:
            return
        for answer in predictions:
            self._correct += int(answer.class_index == self._truth[int(answer.input)])
            self._total += 1
