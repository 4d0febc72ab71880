"""The rows of `ffnn`: which data they are, where to go on, and which answers are right."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ..inference.feature_rows import FeatureRows, numbered
from ..inference.predictions import Prediction
from ..inference.search import InputProblem
from ..inference.stream import Batch
from ..models.regular_files import describe
from .errors import UsageError
from .journal.identity import Identity
from .reports.report import Score
from .text import count


class RowInputs:
    """Rows of a file, and their right classes int32 [N] where those are known."""

    command = "ffnn"
    progress_title = "classifying rows"
    prepare = None  # rows are sent as they are

    def __init__(self, path: Path, rows: FeatureRows, truth: np.ndarray | None, header: str = "auto") -> None:
        self._path = path
        self._header = header
        self._rows = rows
        self._truth = truth
        self._first = 0
        self._correct = 0
        self._total = 0
        self.problems: list[InputProblem] = []  # of workers alone: a file that has any is refused

    @property
    def score(self) -> Score | None:
        """The score of all answers noted."""
        return Score(self._correct, self._total) if self._truth is not None else None

    def describe(self, answered: int) -> str:
        """`3 rows of 64 features`."""
        return f"{count(answered, 'row')} of {count(self._rows.shape[1], 'feature')}"

    def identity(self) -> Identity:
        """What tells the file from another, and from itself after a change: its name, size and time."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise UsageError(f"{self._path}: {describe(error)}") from None
        data = [str(self._path.resolve()), status.st_size, status.st_mtime_ns]
        return {"data": data, "header": self._header}

    def leave_out(self, answered: set[str | int], reported: set[str | int]) -> int:
        """Go on after the rows answered; UsageError unless they are the first ones."""
        rows = len(self._rows)
        self._first = len(answered)
        if self._first > rows or answered != set(range(self._first)):
            raise UsageError(
                f"--resume: the {self._first} rows answered are not the first of these {rows}; they are of other data"
            )
        return rows - self._first

    def batches(self, size: int) -> Iterable[Batch]:
        """The rows that are left, with their numbers."""
        return numbered(self._rows, size, self._first)

    def refuse(self, name: str | int, reason: str) -> None:
        """Note that a row could not be answered."""
        self.problems.append(InputProblem(name, reason))

    def note(self, predictions: Iterable[Prediction]) -> None:
        """Count the answers that are right."""
        if self._truth is None:
            return
        for answer in predictions:
            self._correct += int(answer.class_index == self._truth[int(answer.input)])
            self._total += 1
