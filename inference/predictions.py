"""What a network says of an input, as labels with probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class LabelProbability:
    """A label with the probability that the network gives it."""

    label: str
    class_index: int
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The answer for an input: a file's name, or the number of a row.

    A network of classes, or of independent labels, gives the most probable one, and `top`. One that gives values (a
    regression, an embedding, a single probability) has them in `values`, and no label.
    """

    input: str | int
    label: str | None
    class_index: int | None
    probability: float | None
    top: tuple[LabelProbability, ...]
    values: tuple[float, ...] | None = None

    @property
    def text(self) -> str:
        """The label, or the values as numbers with spaces between them."""
        return self.label or " ".join(f"{value:.9g}" for value in self.values or ())


class PredictionSink(Protocol):
    """Where predictions go as they come."""

    def add(self, predictions: Sequence[Prediction]) -> bool:
        """Take some; whether anyone wants more."""


def make_predictions(
    inputs: Sequence[str | int], labels: Sequence[str], classes: np.ndarray, probabilities: np.ndarray, top_k: int
) -> list[Prediction]:
    """An answer an input, with its `top_k` most probable labels, from classes int32 [N] and probabilities [N, C].

    Without labels, the answers are the numbers themselves.
    """
    if not labels:
        rows = probabilities.astype(float).tolist()
        return [Prediction(name, None, None, None, (), tuple(row)) for name, row in zip(inputs, rows, strict=True)]
    answers = []
    top = np.argsort(-probabilities, axis=1, kind="stable")[:, :top_k]
    for name, index, row, best in zip(inputs, classes.tolist(), probabilities, top.tolist(), strict=True):
        chances = tuple(LabelProbability(labels[i], i, float(row[i])) for i in best)
        answers.append(Prediction(name, labels[index], index, float(row[index]), chances))
    return answers
