"""Statistics of prediction errors against measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ErrorSummary:
    """Error statistics of a set of rows: the count, the mean and maximum absolute percentage error, and Spearman's rank
    correlation (NaN if there are fewer than two rows or all values are equal)."""

    rows: int
    mean: float
    largest: float
    rank_correlation: float


def percentage_error(predicted: float, measured: float) -> float:
    """Return the signed error of a prediction in percent of the measurement."""
    return 100.0 * (predicted - measured) / measured


def summarize(predicted: Sequence[float], measured: Sequence[float]) -> ErrorSummary:
    """Summarise the errors of predictions. Raises ValueError if there are none, or if the numbers of values differ."""
    if len(predicted) != len(measured) or not predicted:
        raise ValueError(
            f"{len(predicted)} predictions for {len(measured)} measurements; the numbers must be equal and at least 1"
        )
    errors = [abs(percentage_error(p, m)) for p, m in zip(predicted, measured)]
    return ErrorSummary(len(errors), sum(errors) / len(errors), max(errors), rank_correlation(predicted, measured))


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation, which is Pearson's correlation of the ranks. Ties share their mean rank."""
    first, second = _ranks(a), _ranks(b)
    first, second = first - first.mean(), second - second.mean()
    spread = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / spread) if spread > 0 else float("nan")


def _ranks(values: Sequence[float]) -> NDArray[np.float64]:
    _, position, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[position]
