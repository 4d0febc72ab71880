"""Calibrate probabilities with temperature scaling, and compute the calibration error.

If probabilities are calibrated, nine out of ten predictions with a probability of 0.9 are correct. The reliability
diagram shows the fraction of correct predictions in each bin. The expected calibration error is the mean deviation,
weighted by the number of predictions in each bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

BINS = 15


class Bin(NamedTuple):
    """The predictions whose probability is in one of BINS equal parts of the interval 0..1."""

    answers: int
    probability: float  # mean probability
    accuracy: float  # fraction of correct answers


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Return the probabilities [N, classes] of logits at a temperature."""
    scaled = logits.astype(np.float64) / temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> list[Bin]:
    """Return the non-empty bins of predictions [N, classes] with labels [N], in order of probability."""
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return [
        Bin(int((bins == k).sum()), float(confidence[bins == k].mean()), float(right[bins == k].mean()))
        for k in range(BINS)
        if (bins == k).any()
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the expected calibration error, from 0 to 1."""
    return sum(point.answers * abs(point.probability - point.accuracy) for point in bins) / sum(
        point.answers for point in bins
    )


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the temperature from 0.3 to 3, to two decimals, that maximizes the likelihood of the labels [N]."""
    likelihoods = {
        hundredths: float(np.log(softmax(logits, hundredths / 100)[np.arange(len(labels)), labels] + 1e-12).sum())
        for hundredths in range(30, 301)
    }
    return max(likelihoods, key=lambda hundredths: likelihoods[hundredths]) / 100


def draw_reliability(bins: Sequence[Bin], title: str, path: Path) -> None:
    """Draw the reliability diagram as SVG, reproducibly."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "reliability", "svg.fonttype": "none"}):
        figure, (upper, lower) = pyplot.subplots(
            2, 1, figsize=(5, 6), sharex=True, height_ratios=(3, 1), layout="constrained"
        )
        confidence, right = [point.probability for point in bins], [point.accuracy for point in bins]
        upper.plot([0, 1], [0, 1], color="#8c959f", linewidth=1, label="as said")
        upper.plot(confidence, right, "o-", color="#0969da", label="bins of answers")
        upper.set(ylabel="share that is right", title=title, xlim=(0, 1.02), ylim=(0, 1.02))
        upper.legend(loc="upper left")
        lower.bar(confidence, [point.answers for point in bins], width=0.8 / BINS, color="#54aeff")
        lower.set(xlabel="probability that was said", ylabel="answers", yscale="log")
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
