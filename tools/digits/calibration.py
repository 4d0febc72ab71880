"""Probabilities that mean what they say: the temperature that makes them so, and how far they are from it.

Of answers given with a probability of 0.9, nine in ten should be right. The reliability diagram shows, bin by bin, how
many were; the expected calibration error is the mean distance, weighted by how many answers are in each bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

BINS = 15


class Bin(NamedTuple):
    """Answers whose probability lies in one of BINS equal parts of 0..1."""

    answers: int
    probability: float  # mean of what was said
    accuracy: float  # share of them that is right


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Probabilities [N, classes] of logits at a temperature."""
    scaled = logits.astype(np.float64) / temperature
    powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> list[Bin]:
    """The bins that are not empty, from the lowest probability up, of answers [N, classes] to what is right [N]."""
    said = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    return [
        Bin(int((bins == k).sum()), float(said[bins == k].mean()), float(right[bins == k].mean()))
        for k in range(BINS)
        if (bins == k).any()
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """The expected calibration error, 0..1."""
    return sum(each.answers * abs(each.probability - each.accuracy) for each in bins) / sum(
        each.answers for each in bins
    )


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature at which the right labels [N] are most likely, to the hundredth, between 0.3 and 3."""
    likelihoods = {
        hundredths: float(np.log(softmax(logits, hundredths / 100)[np.arange(len(labels)), labels] + 1e-12).sum())
        for hundredths in range(30, 301)
    }
    return max(likelihoods, key=lambda hundredths: likelihoods[hundredths]) / 100


def draw_reliability(bins: Sequence[Bin], title: str, path: Path) -> None:
    """The reliability diagram as SVG, the same bytes for the same bins."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "reliability", "svg.fonttype": "none"}):
        figure, (upper, lower) = pyplot.subplots(
            2, 1, figsize=(5, 6), sharex=True, height_ratios=(3, 1), layout="constrained"
        )
        said, right = [each.probability for each in bins], [each.accuracy for each in bins]
        upper.plot([0, 1], [0, 1], color="#8c959f", linewidth=1, label="as said")
        upper.plot(said, right, "o-", color="#0969da", label="bins of answers")
        upper.set(ylabel="share that is right", title=title, xlim=(0, 1.02), ylim=(0, 1.02))
        upper.legend(loc="upper left")
        lower.bar(said, [each.answers for each in bins], width=0.8 / BINS, color="#54aeff")
        lower.set(xlabel="probability that was said", ylabel="answers", yscale="log")
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
