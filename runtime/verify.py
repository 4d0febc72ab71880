"""Compare results with the golden model.

A probability may differ from the golden model by the tolerance of its dtype (tolerances.py). This applies to logits up
to LARGE_LOGIT. For larger logits, rounding is coarser and the tolerance of the row grows proportionally. For values,
which no softmax bounds, it grows with the largest value of the row if that is above 1. If the terms of a sum cancel,
the error may amount to a few rounding errors of the largest intermediate value, even if the result is small. A class
may differ if the golden model's probabilities of both classes differ by at most twice the tolerance. Such near-ties are
counted separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..models.files import Model
from ..models.golden import OutputRun, run_network
from .tolerances import network_tolerance, rounding

LARGE_LOGIT = 16.0
ROUNDINGS = 4  # the square root of the number of rounding errors: two in each of eight layers


@dataclass(frozen=True)
class Verification:
    """The comparison with the golden model: the largest absolute error of a probability, and the number of differing
    classes."""

    passed: bool
    max_abs_error: float
    disagreements: int  # excluding near-ties
    near_ties: int  # differing classes whose probabilities differ by at most twice the tolerance
    tolerance: float


def merge(verdicts: Sequence[Verification]) -> Verification:
    """Merge several verdicts for the same dtype."""
    return Verification(
        passed=all(verdict.passed for verdict in verdicts),
        max_abs_error=max(verdict.max_abs_error for verdict in verdicts),
        disagreements=sum(verdict.disagreements for verdict in verdicts),
        near_ties=sum(verdict.near_ties for verdict in verdicts),
        tolerance=verdicts[0].tolerance,
    )


class Verifier:
    """Runs the golden model on inputs that a session has processed, and accumulates the verdict.

    `measured` is True if the results come from the chip, whose functions and matmuls have additional errors. `least` is
    the smallest tolerance.
    """

    def __init__(self, model: Model, dtype: str, measured: bool = False, least: float = 0.0) -> None:
        self._model, self._dtype = model, dtype
        self.verdict = Verification(True, 0.0, 0, 0, max(least, network_tolerance(dtype, measured)))

    def check(self, inputs: np.ndarray, classes: np.ndarray, probabilities: np.ndarray) -> None:
        """Compare the classes [N] and probabilities [N, row_size] of inputs [N, ...] with the golden model."""
        if not len(inputs):
            return
        network = self._model.network
        golden = run_network(network, self._model.tensors, inputs)
        verdicts = []
        for number, (output, run) in enumerate(zip(network.named_outputs, golden.outputs)):
            part = network.unpack(probabilities)[number]
            if output.output.kind == "map":
                verdicts.append(self._map_verdict(run, golden.largest, part))
                continue
            predicted = classes if number == 0 else part.argmax(axis=1)
            verdicts.append(self._verdict(not output.output.is_labelled, run, golden.largest, predicted, part))
        self.verdict = merge((self.verdict, *verdicts))

    def _verdict(
        self, of_values: bool, run: OutputRun, largest: np.ndarray, classes: np.ndarray, probabilities: np.ndarray
    ) -> Verification:
        """Compare one output [N, size]."""
        expected = run.probabilities
        tolerance = self.verdict.tolerance
        large = 1.0 if of_values else LARGE_LOGIT
        allowed = tolerance * np.maximum(1.0, np.abs(run.logits).max(axis=1) / large)
        if of_values:
            allowed = np.maximum(allowed, ROUNDINGS * rounding(self._dtype) * largest)
        errors = np.abs(probabilities - expected).max(axis=1)
        differ = (classes != expected.argmax(axis=1)) & (not of_values)  # for values, the argmax is meaningless
        gap = expected.max(axis=1) - expected[np.arange(len(expected)), classes]
        near = differ & (gap <= 2 * allowed)
        disagreements = int(differ.sum() - near.sum())
        is_passed = disagreements == 0 and bool((errors <= allowed).all())
        return Verification(is_passed, float(errors.max()), disagreements, int(near.sum()), tolerance)

    def _map_verdict(self, run: OutputRun, largest: np.ndarray, classes: np.ndarray) -> Verification:
        """Compare the classes of pixels [N, rows * columns].

        The error of a differing class is the difference between its score and the best score.
        """
        scores = run.logits.reshape(len(run.logits), run.logits.shape[1], -1)
        predicted = classes.astype(np.int64)
        gaps = scores.max(axis=1) - np.take_along_axis(scores, predicted[:, None], axis=1)[:, 0]
        differ = predicted != scores.argmax(axis=1)
        tolerance = self.verdict.tolerance
        allowed = tolerance * np.maximum(1.0, np.abs(scores).max(axis=(1, 2)))
        allowed = np.maximum(allowed, ROUNDINGS * rounding(self._dtype) * largest)
        near = differ & (gaps <= 2 * allowed[:, None])
        disagreements = int(differ.sum() - near.sum())
        return Verification(disagreements == 0, float(gaps.max()), disagreements, int(near.sum()), tolerance)
