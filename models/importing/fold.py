"""Arithmetic on weights that folds layers into other layers without changing the result.

Everything is computed in float64 and rounded once, to float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import ModelError

MAX_PARAMETERS = 1 << 29  # maximum number of parameters: 2 GiB in float32, more than three VGG-19 networks


class ScaleShift(NamedTuple):
    """y = x * scale + shift, with one pair for each channel or feature; float64 [C]."""

    scale: np.ndarray
    shift: np.ndarray


def batch_norm(
    gamma: np.ndarray, beta: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float
) -> ScaleShift:
    """Return the scale and shift of a batch normalization with the fixed statistics of a trained network.

    Raises ModelError if the statistics are invalid.
    """
    if not (gamma.ndim == 1 and gamma.shape == beta.shape == mean.shape == variance.shape):
        raise ModelError("the scale, bias, mean and variance of a batch normalization have different lengths")
    spread = variance.astype(np.float64) + epsilon
    if not (spread > 0).all():
        raise ModelError("a batch normalization has a variance that is not positive")
    scale = gamma.astype(np.float64) / np.sqrt(spread)
    return ScaleShift(scale, beta.astype(np.float64) - mean.astype(np.float64) * scale)


def after_conv2d(weight: np.ndarray, bias: np.ndarray, affine: ScaleShift) -> tuple[np.ndarray, np.ndarray]:
    """Fold an affine map of the output into weight [Cout, Cin, k, k] and bias [Cout] of a convolution."""
    return (
        (weight * affine.scale[:, None, None, None]).astype(np.float32),
        (bias * affine.scale + affine.shift).astype(np.float32),
    )


def after_dense(weight: np.ndarray, bias: np.ndarray, affine: ScaleShift) -> tuple[np.ndarray, np.ndarray]:
    """Fold an affine map of the output into weight [F, F'] and bias [F'] of a dense layer."""
    return (weight * affine.scale).astype(np.float32), (bias * affine.scale + affine.shift).astype(np.float32)


def after_affine(scale: np.ndarray, shift: np.ndarray, affine: ScaleShift) -> tuple[np.ndarray, np.ndarray]:
    """Fold an affine map into the scale and shift of the preceding affine map."""
    return (scale * affine.scale).astype(np.float32), (shift * affine.scale + affine.shift).astype(np.float32)
