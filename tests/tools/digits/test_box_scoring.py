"""Scores of boxes, compared with hand-computed values."""

import numpy as np
import pytest
from trninfer.tools.digits.box_scoring import iou_of, score


def test_iou() -> None:
    first = np.array([[0, 0, 2, 2], [0, 0, 0, 0]], float)
    second = np.array([[1, 1, 3, 3], [0, 0, 2, 2]], float)
    np.testing.assert_allclose(iou_of(first, second), [[1 / 7, 1], [0, 0]])


def test_average_precision_precision_and_recall() -> None:
    """Two digits of class 1: one is found with high confidence, then there is an incorrect answer, then the second is
    found. Class 0 is found at once."""
    truth = np.array([[1, 0, 0, 10, 10], [1, 20, 0, 30, 10], [0, 50, 50, 60, 60]], float)
    answers = np.array(
        [
            [1, 0.9, 0, 0, 10, 10],
            [1, 0.8, 70, 70, 80, 80],
            [1, 0.7, 20, 1, 30, 10],
            [0, 0.6, 50, 50, 60, 60],
            [0, 0.1, 50, 50, 60, 59],  # the same digit again
        ]
    )
    found = score([answers], [truth], 2, 0.5)
    assert found.mean_average_precision == pytest.approx(((0.5 + 0.5 * 2 / 3) + 1) / 2)
    assert (found.precision, found.recall) == (3 / 4, 1)


def test_pictures_without_answers_or_digits() -> None:
    nothing, truth = np.empty((0, 6)), np.array([[3, 0, 0, 5, 5]], float)
    assert score([nothing, nothing], [truth, np.empty((0, 5))], 10, 0.25) == (0, 0, 0)
