"""Score answers with known classes: accuracy, and precision and recall for each class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .predictions import Prediction

TOP = 5  # labels per answer considered for top-5 accuracy


@dataclass(frozen=True)
class ClassScore:
    """The score of one class. A ratio is None if its denominator is zero."""

    label: str
    class_index: int
    support: int  # inputs of this class
    answered: int  # answers with this class
    correct: int

    @property
    def precision(self) -> float | None:
        """Return the fraction of answers with this class that are correct."""
        return self.correct / self.answered if self.answered else None

    @property
    def recall(self) -> float | None:
        """Return the fraction of inputs of this class that are answered with it."""
        return self.correct / self.support if self.support else None

    @property
    def f1(self) -> float | None:
        """Return the harmonic mean of precision and recall."""
        both = self.support + self.answered
        return 2 * self.correct / both if both else None


@dataclass(frozen=True)
class Confusion:
    """The number of inputs of one class answered with another class, or its own."""

    label: str
    predicted: str
    count: int


@dataclass(frozen=True)
class Score:
    """Answers compared with the correct classes."""

    correct: int
    total: int
    top_5: int | None = None  # answers with the right class among their five most probable; None if fewer are kept
    classes: tuple[ClassScore, ...] = ()  # classes that are right or answered at least once, by index
    confusion: tuple[Confusion, ...] = ()  # pairs that occur, by index
    unlabelled: int = 0  # answers with an unknown right class

    @property
    def accuracy(self) -> float:
        """Return the fraction of correct answers; 0 if nothing is scored."""
        return self.correct / self.total if self.total else 0.0

    @property
    def top_5_accuracy(self) -> float | None:
        """Return the fraction of answers with the correct class among the first five."""
        return None if self.top_5 is None or not self.total else self.top_5 / self.total

    @property
    def mistakes(self) -> list[Confusion]:
        """Return the pairs of different labels, most frequent first."""
        return sorted((each for each in self.confusion if each.label != each.predicted), key=lambda each: -each.count)

    @property
    def macro_f1(self) -> float | None:
        """Return the mean F1 of the classes that occur among the inputs."""
        values = [each.f1 or 0.0 for each in self.classes if each.support]
        return sum(values) / len(values) if values else None


class Scorer:
    """Counts answers by correct class and answered class."""

    def __init__(self, labels: Sequence[str], top_k: int) -> None:
        """Initialise for a network's `labels`, with `top_k` labels per answer."""
        self._labels = labels
        self._counts: Counter[tuple[int, int]] = Counter()
        self._counts_top = len(labels) > TOP and top_k >= TOP
        self._top = 0
        self._unlabelled = 0

    def add(self, answer: Prediction, right: int | None) -> None:
        """Count an answer; `right` is the index of the correct class, None if unknown."""
        if right is None or answer.class_index is None:
            self._unlabelled += 1
            return
        self._counts[right, answer.class_index] += 1
        if self._counts_top:
            self._top += right in [each.class_index for each in answer.top[:TOP]]

    @property
    def score(self) -> Score:
        """Return the score so far."""
        right: Counter[int] = Counter()
        given: Counter[int] = Counter()
        for (truth, answer), count in self._counts.items():
            right[truth] += count
            given[answer] += count
        classes = tuple(
            ClassScore(self._labels[index], index, right[index], given[index], self._counts[index, index])
            for index in sorted({*right, *given})
        )
        confusion = tuple(
            Confusion(self._labels[truth], self._labels[answer], count)
            for (truth, answer), count in sorted(self._counts.items())
            if count
        )
        correct = sum(each.correct for each in classes)
        total = right.total()
        return Score(correct, total, self._top if self._counts_top else None, classes, confusion, self._unlabelled)
