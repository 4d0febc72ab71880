"""Reproducible random operands of kernels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def small_integers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> NDArray[Any]:
    """Return small integers: sums of their products are exact in float32 in any order."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)
