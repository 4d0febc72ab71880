"""Scores computed with the golden model, and their format."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...models.files import Model
from ...models.golden import argmax, run_network
from ...models.network import Network
from ...runtime.session import Session
from ...runtime.simulated import SimulatedBackend

Score = tuple[str, int, int]  # name, number correct, total


class Answers(NamedTuple):
    """A network's predictions for a set of pictures. Pictures that preprocessing rejected have none."""

    logits: np.ndarray  # float32 [N, classes]
    labels: np.ndarray  # int32 [N]
    refused: int

    @property
    def classes(self) -> np.ndarray:
        """The predicted classes, [N]."""
        return argmax(self.logits)

    @property
    def total(self) -> int:
        """Number of pictures."""
        return len(self.labels) + self.refused

    def count_correct(self) -> int:
        """Return the number of correct predictions. A rejected picture is not correct."""
        return int((self.classes == self.labels).sum())

    def count_none(self, none: int) -> int:
        """Return the number of pictures that were classified as class `none` or rejected."""
        return int((self.classes == none).sum()) + self.refused


def answer(
    network: Network, tensors: Mapping[str, np.ndarray], x: np.ndarray, labels: np.ndarray, refused: int = 0
) -> Answers:
    """Return the golden model's predictions for inputs x [N, ...]."""
    logits = [run_network(network, tensors, part).logits for part in np.array_split(x, math.ceil(len(x) / 256))]
    return Answers(np.concatenate(logits), labels, refused)


def classes_by_kernels(
    network: Network, tensors: Mapping[str, np.ndarray], x: np.ndarray, dtype: str = "float32"
) -> np.ndarray:
    """Return the classes [N] of inputs x [N, ...] computed by the kernels, in one launch, on the simulator."""
    return Session(Model(network, dict(tensors), {}), SimulatedBackend("trn2"), dtype).run(x).classes


def accuracy_metadata(rows: Sequence[Score]) -> str:
    """Format (name, correct, total) rows as the `accuracy` string of a model file, and print them."""
    for on, correct, total in rows:
        print(f"{on}: {correct} of {total} right, {100 * correct / total:.2f} %")
    return json.dumps([{"on": on, "correct": correct, "total": total} for on, correct, total in rows])
