"""Score predictions against known classes: accuracy, and precision and recall for each class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .predictions import Prediction

TOP = 5  # number of labels per prediction considered for the top-5 accuracy


@dataclass(frozen=True)
class ClassScore:
    """The score of one class. A ratio is None if its denominator is zero."""

    label: str
    class_index: int
    support: int  # number of inputs of this class
    answered: int  # number of predictions of this class
    correct: int

    @property
    def precision(self) -> float | None:
        """Return the fraction of predictions of this class that are correct."""
        return self.correct / self.answered if self.answered else None

    @property
    def recall(self) -> float | None:
        """Return the fraction of inputs of this class that are predicted as this class."""
        return self.correct / self.support if self.support else None

    @property
    def f1(self) -> float | None:
        """Return the harmonic mean of precision and recall."""
        both = self.support + self.answered
        return 2 * self.correct / both if both else None


@dataclass(frozen=True)
class Confusion:
    """The number of inputs of one class for which a certain class, the same or another, was predicted."""

    label: str
    predicted: str
    count: int


@dataclass(frozen=True)
class Score:
    """The comparison of predictions with the correct classes."""

    correct: int
    total: int
    top_5: int | None = None  # predictions with the correct class among the top five; None if fewer are stored
    classes: tuple[ClassScore, ...] = ()  # classes that are correct or predicted at least once, by index
    confusion: tuple[Confusion, ...] = ()  # pairs of classes that occur, by index
    unlabelled: int = 0  # number of predictions with an unknown correct class

    @property
    def accuracy(self) -> float:
        """Return the fraction of correct predictions, or 0 if nothing is scored."""
        return self.correct / self.total if self.total else 0.0

    @property
    def top_5_accuracy(self) -> float | None:
        """Return the fraction of predictions with the correct class among the first five labels."""
        return None if self.top_5 is None or not self.total else self.top_5 / self.total

    @property
    def mistakes(self) -> list[Confusion]:
        """Return the pairs of different classes, most frequent first."""
        return sorted((pair for pair in self.confusion if pair.label != pair.predicted), key=lambda pair: -pair.count)

    @property
    def macro_f1(self) -> float | None:
        """Return the mean F1 score of the classes that occur among the inputs."""
        values = [score.f1 or 0.0 for score in self.classes if score.support]
        return sum(values) / len(values) if values else None


class Scorer:
    """Counts predictions by correct class and predicted class."""

    def __init__(self, labels: Sequence[str], top_k: int) -> None:
        """Initialise for a network's `labels`, with `top_k` labels per prediction."""
        self._labels = labels
        self._counts: Counter[tuple[int, int]] = Counter()
        self._counts_top = len(labels) > TOP and top_k >= TOP
        self._top = 0
        self._unlabelled = 0

    def add(self, answer: Prediction, right: int | None) -> None:
        """Count a prediction; `right` is the index of the correct class, or None if it is unknown."""
        if right is None or answer.class_index is None:
            self._unlabelled += 1
            return
        self._counts[right, answer.class_index] += 1
        if self._counts_top:
            self._top += right in [label.class_index for label in answer.top[:TOP]]

    @property
    def score(self) -> Score:
        """Return the score so far."""
        right: Counter[int] = Counter()
        counts: Counter[int] = Counter()
        for (truth, answer), count in self._counts.items():
            right[truth] += count
            counts[answer] += count
        classes = tuple(
            ClassScore(self._labels[index], index, right[index], counts[index], self._counts[index, index])
            for index in sorted({*right, *counts})
        )
        confusion = tuple(
            Confusion(self._labels[truth], self._labels[answer], count)
            for (truth, answer), count in sorted(self._counts.items())
            if count
        )
        correct = sum(class_score.correct for class_score in classes)
        total = right.total()
        return Score(correct, total, self._top if self._counts_top else None, classes, confusion, self._unlabelled)
