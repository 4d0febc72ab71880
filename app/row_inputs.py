"""What `ffnn` knows of its rows beside the network: which data they are, where to go on, what is right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..inference.files import describe
from ..inference.predictions import Prediction
from .errors import UsageError
from .journal.answers import Answers
from .reports.report import Score


def describe_data(path: Path) -> list[str | int]:
    """What tells a feature file from another, and from itself after a change: its name, size and time."""
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: {describe(error)}") from None
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def first_unanswered(answered: set[str | int], rows: int) -> int:
    """The row to go on from; UsageError unless the rows answered are those up to it."""
    first = len(answered)
    if first > rows or answered != set(range(first)):
        raise UsageError(
            f"--resume: the {first} rows answered are not the first of these {rows}; they are of other data"
        )
    return first


class Scored:
    """Answers on their way to others, counted where they agree with the right classes int32 [N], if those are known."""

    def __init__(self, answers: Answers, truth: np.ndarray | None) -> None:
        self._answers = answers
        self._truth = truth
        self._correct = 0
        self._total = 0
        if truth is not None and answers.earlier:
            for answer in answers:
                self._count(answer)

    def add(self, predictions: Sequence[Prediction]) -> bool:
        """Count the answers and pass them on."""
        if self._truth is not None:
            for answer in predictions:
                self._count(answer)
        return self._answers.add(predictions)

    def score(self) -> Score | None:
        """The score of all answers so far."""
        return Score(self._correct, self._total) if self._truth is not None else None

    def _count(self, answer: Prediction) -> None:
        assert self._truth is not None
        self._correct += int(answer.class_index == self._truth[int(answer.input)])
        self._total += 1
