"""Checking answers against the golden model.

A probability may differ from the golden model's by the tolerance of its dtype (`TOLERANCES`). That holds for logits up
to LARGE_LOGIT; larger ones are rounded more coarsely, so the tolerance of such a row grows in proportion. A class may
differ where the golden model's probabilities of both lie within twice the tolerance: a near-tie, counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..models.files import Model
from ..models.golden import run_network
from .session import Result

TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
LARGE_LOGIT = 16.0


@dataclass(frozen=True)
class Verification:
    """The comparison with the golden model: largest absolute error of a probability, and classes that differ."""

    passed: bool
    max_abs_error: float
    disagreements: int  # near-ties not counted
    near_ties: int  # classes that differ, but whose probabilities are within twice the tolerance of each other
    tolerance: float


class Verifier:
    """Runs the golden model beside a session: `watch` the batches that go in, then `compare` what came out."""

    def __init__(self, model: Model, dtype: str) -> None:
        self._model = model
        self._tolerance = TOLERANCES[dtype]
        self._probabilities: list[np.ndarray] = []
        self._largest_logits: list[np.ndarray] = []

    def watch(self, batches: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The same batches, each run through the golden model on its way."""
        for batch in batches:
            golden = run_network(self._model.network, self._model.tensors, batch)
            self._probabilities.append(golden.probabilities)
            self._largest_logits.append(np.abs(golden.logits).max(axis=1))
            yield batch

    def compare(self, result: Result) -> Verification:
        """The verdict on a result for exactly the batches that were watched."""
        if not self._probabilities:
            return Verification(True, 0.0, 0, 0, self._tolerance)
        expected = np.concatenate(self._probabilities)
        allowed = self._tolerance * np.maximum(1.0, np.concatenate(self._largest_logits) / LARGE_LOGIT)
        errors = np.abs(result.probabilities - expected).max(axis=1)
        rows = np.arange(len(expected))
        differ = result.classes != expected.argmax(axis=1)
        gap = expected.max(axis=1) - expected[rows, result.classes]
        near = differ & (gap <= 2 * allowed)
        disagreements = int(differ.sum() - near.sum())
        return Verification(
            passed=disagreements == 0 and bool((errors <= allowed).all()),
            max_abs_error=float(errors.max()),
            disagreements=disagreements,
            near_ties=int(near.sum()),
            tolerance=self._tolerance,
        )
