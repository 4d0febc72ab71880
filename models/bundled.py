"""The models bundled with trninfer: names, sizes and accuracy."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from .errors import ModelError
from .files import WEIGHTS_DIRECTORY, read_header
from .network import Network

SAMPLES = WEIGHTS_DIRECTORY.parent / "samples"  # pictures and feature rows for the bundled models


@dataclass(frozen=True)
class Accuracy:
    """A score on held-out data."""

    on: str
    correct: int
    total: int

    @property
    def fraction(self) -> float:
        """The fraction of correct answers, from 0 to 1."""
        return self.correct / self.total


@dataclass(frozen=True)
class BundledModel:
    """A bundled model, as described by the header of its file; the tensors are not read."""

    name: str
    path: Path
    file_bytes: int
    parameters: int
    network: Network
    trained_on: str
    accuracy: tuple[Accuracy, ...]


def bundled_models(directory: Path = WEIGHTS_DIRECTORY) -> tuple[BundledModel, ...]:
    """Return the models of a folder (by default, the bundled models), sorted by name.

    Raises ModelError for a corrupt file.
    """
    return tuple(_describe(path) for path in sorted(directory.glob("*.safetensors")))


def _describe(path: Path) -> BundledModel:
    header = read_header(path)
    return BundledModel(
        name=path.stem,
        path=path,
        file_bytes=header.file.file_bytes,
        parameters=sum(math.prod(shape) for shape in header.network.tensor_shapes().values()),
        network=header.network,
        trained_on=header.metadata.get("trained_on", ""),
        accuracy=parse_accuracy(header.metadata.get("accuracy", "[]")),
    )


def parse_accuracy(text: str) -> tuple[Accuracy, ...]:
    """Parse the `accuracy` metadata of a model file, a JSON list of {"on", "correct", "total"}.

    Raises ModelError if the text has a different form.
    """
    try:
        scores = tuple(Accuracy(str(row["on"]), int(row["correct"]), int(row["total"])) for row in json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ModelError(f"the accuracy in the model's metadata is not a list of scores: {text[:60]}") from None
    if any(not 0 <= score.correct <= score.total or score.total == 0 for score in scores):
        raise ModelError(f"the accuracy in the model's metadata is not a list of scores: {text[:60]}")
    return scores
