"""Batch normalization and affine maps folded into weights give the same answers as separate steps, in float64."""

from __future__ import annotations

import numpy as np
import pytest
from trninfer.models.errors import ModelError
from trninfer.models.importing import fold

RANDOM = np.random.default_rng(3)
GAMMA, BETA, MEAN = RANDOM.standard_normal((3, 5)).astype(np.float32)
VARIANCE = RANDOM.uniform(0.1, 4, 5).astype(np.float32)
X = RANDOM.standard_normal((7, 5))


def test_batch_norm_is_that_of_its_paper() -> None:
    expected = GAMMA.astype(np.float64) * (X - MEAN) / np.sqrt(VARIANCE.astype(np.float64) + 0.25) + BETA
    scale, shift = fold.batch_norm(GAMMA, BETA, MEAN, VARIANCE, 0.25)
    np.testing.assert_allclose(X * scale + shift, expected, rtol=1e-12)
    assert scale.dtype == shift.dtype == np.float64


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ((GAMMA[:4], BETA, MEAN, VARIANCE), "have different lengths"),
        ((GAMMA, BETA, MEAN, VARIANCE[:1]), "have different lengths"),
        (tuple(each[None] for each in (GAMMA, BETA, MEAN, VARIANCE)), "have different lengths"),
        ((GAMMA, BETA, MEAN, np.array([1, 1, 1, 1, -0.25])), "a variance .* is not positive"),
        ((GAMMA, BETA, MEAN, np.array([1, 1, np.nan, 1, 1])), "a variance .* is not positive"),
    ],
)
def test_statistics_that_do_not_fit(numbers: tuple[np.ndarray, ...], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        fold.batch_norm(*numbers, 0.25)


AFFINE = fold.ScaleShift(RANDOM.standard_normal(5), RANDOM.standard_normal(5))


def test_an_affine_map_after_a_convolution() -> None:
    weight, bias = RANDOM.standard_normal((5, 3, 2, 4)), RANDOM.standard_normal(5)
    patch = RANDOM.standard_normal((3, 2, 4))
    expected = (np.einsum("oikl,ikl->o", weight, patch) + bias) * AFFINE.scale + AFFINE.shift
    folded, moved = fold.after_conv2d(weight, bias, AFFINE)
    np.testing.assert_allclose(np.einsum("oikl,ikl->o", folded, patch) + moved, expected, rtol=1e-5, atol=1e-6)
    assert folded.dtype == moved.dtype == np.float32


def test_an_affine_map_after_a_dense_layer() -> None:
    """The weight is square, so a shape check would not detect swapped axes."""
    weight, bias = RANDOM.standard_normal((5, 5)), RANDOM.standard_normal(5)
    expected = (X @ weight + bias) * AFFINE.scale + AFFINE.shift
    folded, moved = fold.after_dense(weight, bias, AFFINE)
    np.testing.assert_allclose(X @ folded + moved, expected, rtol=1e-5, atol=1e-5)


def test_an_affine_map_after_another() -> None:
    scale, shift = fold.after_affine(*fold.ScaleShift(MEAN, BETA), AFFINE)
    np.testing.assert_allclose(X * scale + shift, (X * MEAN + BETA) * AFFINE.scale + AFFINE.shift, rtol=1e-5, atol=1e-6)


def test_weights_are_rounded_once() -> None:
    """A scale that float32 cannot represent: rounded before the product, it would be 1."""
    exact, weight = 1 - 2.0**-30, np.array([[3 + 2.0**-22]], np.float32)
    folded, _ = fold.after_dense(weight, np.zeros(1, np.float32), fold.ScaleShift(np.array([exact]), np.zeros(1)))
    third = fold.after_affine(np.array([3.0], np.float32), np.zeros(1), fold.ScaleShift(np.array([1 / 3]), np.zeros(1)))
    assert folded[0, 0] == np.float32(float(weight[0, 0]) * exact)
    assert third[0][0] == 1.0
