"""Calibration: reliability bins, their error, the temperature, and the diagram."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trninfer.tools.digits.calibration import (
    BINS,
    calibration_error,
    draw_reliability,
    fit_temperature,
    reliability,
    softmax,
)


def made(n: int, classes: int, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return logits multiplied by `sharpness`; the labels are drawn from the softmax of the original ones."""
    rng = np.random.default_rng(seed)
    honest = rng.normal(0, 2, (n, classes))
    chances = softmax(honest)
    labels = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return honest * sharpness, np.minimum(labels, classes - 1)


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0])
def test_the_temperature_undoes_what_made_the_logits_too_sure(sharpness: float) -> None:
    logits, labels = made(8000, 5, sharpness)
    temperature = fit_temperature(logits, labels)
    assert temperature == pytest.approx(sharpness, rel=0.06)
    assert calibration_error(reliability(softmax(logits, temperature), labels)) < 0.02
    if sharpness != 1:
        assert calibration_error(reliability(softmax(logits), labels)) > 0.05


def test_answers_that_are_all_sure_and_all_wrong() -> None:
    (only,) = reliability(np.array([[1.0, 0.0]] * 4), np.ones(4, int))
    assert only == (4, 1.0, 0.0)
    assert calibration_error([only]) == 1.0


def test_bins_are_weighted_by_their_answers() -> None:
    said = np.array([[0.9, 0.1]] * 3 + [[0.6, 0.4]])
    bins = reliability(said, np.array([0, 0, 1, 1]))
    assert [each.answers for each in bins] == [1, 3]
    assert calibration_error(bins) == pytest.approx((1 * 0.6 + 3 * (0.9 - 2 / 3)) / 4)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 129), classes=st.integers(2, 11), seed=st.integers(0, 1000))
def test_bins_hold_every_answer_once(n: int, classes: int, seed: int) -> None:
    logits, labels = made(n, classes, 1.0, seed)
    probabilities = softmax(logits)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    bins = reliability(probabilities, labels)
    assert sum(each.answers for each in bins) == n
    assert len(bins) <= BINS
    right = sum(each.answers * each.accuracy for each in bins)
    assert right == pytest.approx((probabilities.argmax(axis=1) == labels).sum())
    assert 0 <= calibration_error(bins) <= 1


@pytest.mark.slow
def test_the_diagram_is_the_same_for_the_same_bins(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    bins = reliability(softmax(made(500, 5, 1.0)[0]), made(500, 5, 1.0)[1])
    for name in ("one.svg", "two.svg"):
        draw_reliability(bins, "a title", tmp_path / name)
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    assert "a title" in text and "probability that was said" in text
