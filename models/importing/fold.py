"""Arithmetic on weights that leaves a network's answer as it is: what an import folds into fewer, plainer layers.

All of it is done in float64 and rounded once, to float32.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..network import MAX_KERNEL_SIZE, ModelError

MAX_PARAMETERS = 1 << 29  # of a network: 2 GiB in float32, over three times a VGG-19


class Affine(NamedTuple):
    """y = x * scale + shift, one number of each for a channel or feature; float64 [C]."""

    scale: np.ndarray
    shift: np.ndarray


def batch_norm(gamma: np.ndarray, beta: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float) -> Affine:
    """Batch normalization with its statistics fixed, as it is after training; ModelError where they do not fit."""
    if not (gamma.ndim == 1 and gamma.shape == beta.shape == mean.shape == variance.shape):
        raise ModelError("the scale, bias, mean and variance of a batch normalization are not of one length")
    spread = variance.astype(np.float64) + epsilon
    if not (spread > 0).all():
        raise ModelError("a variance of a batch normalization is not above zero")
    scale = gamma.astype(np.float64) / np.sqrt(spread)
    return Affine(scale, beta.astype(np.float64) - mean.astype(np.float64) * scale)


def after_conv2d(weight: np.ndarray, bias: np.ndarray, affine: Affine) -> tuple[np.ndarray, np.ndarray]:
    """Weight [Cout, Cin, k, k] and bias [Cout] of a convolution with an affine map of its output folded in."""
    return (
        (weight * affine.scale[:, None, None, None]).astype(np.float32),
        (bias * affine.scale + affine.shift).astype(np.float32),
    )


def after_dense(weight: np.ndarray, bias: np.ndarray, affine: Affine) -> tuple[np.ndarray, np.ndarray]:
    """Weight [F, F'] and bias [F'] of a dense layer with an affine map of its output folded in."""
    return (weight * affine.scale).astype(np.float32), (bias * affine.scale + affine.shift).astype(np.float32)


def square_filters(weight: np.ndarray, pads: tuple[int, int, int, int]) -> tuple[np.ndarray, int]:
    """Filters [Cout, Cin, kh, kw] with pads (top, left, bottom, right) as square ones with one padding for all sides.

    Zeros are put around the filters, and the padding grows with them. ModelError where that would change the size of
    the output: padding less filter must be the same in height as in width.
    """
    _, _, height, width = weight.shape
    top, left, bottom, right = pads
    padding = max(pads)
    side = 2 * padding - (top + bottom - height)
    if side != 2 * padding - (left + right - width):
        raise ModelError(
            f"filters of {height}x{width} with pads {top}, {left}, {bottom}, {right} (top, left, bottom, right) change "
            "height and width by different amounts"
        )
    if max(side, padding) > MAX_KERNEL_SIZE:
        raise ModelError(f"filters of {height}x{width} with pads up to {padding}: {MAX_KERNEL_SIZE} is the most")
    if height == width == side and pads == (padding,) * 4:
        return weight, padding
    if weight.size // (height * width) * side**2 > MAX_PARAMETERS:
        raise ModelError(f"filters of {height}x{width} with pads {pads} would need too many zeros around them")
    squared = np.zeros((*weight.shape[:2], side, side), weight.dtype)
    squared[:, :, padding - top : padding - top + height, padding - left : padding - left + width] = weight
    return squared, padding
