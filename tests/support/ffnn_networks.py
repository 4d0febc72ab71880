"""Random feed-forward networks with one hidden layer, and their outputs computed by NumPy in float64."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]


def network(n: int, d: int, h: int, c: int, dtype: Any, bias_dtype: Any) -> list[NDArray[Any]]:
    random = np.random.default_rng([n, d, h, c])
    return [
        random.standard_normal((n, d)).astype(dtype),
        (random.standard_normal((d, h)) / np.sqrt(d)).astype(dtype),
        random.standard_normal((1, h)).astype(bias_dtype),
        (random.standard_normal((h, c)) / np.sqrt(h)).astype(dtype),
        random.standard_normal((1, c)).astype(bias_dtype),
    ]


def golden(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the outputs before and after softmax."""
    x, w1, b1, w2, b2 = (array.astype(np.float64) for array in (x, w1, b1, w2, b2))
    outputs = np.maximum(x @ w1 + b1, 0) @ w2 + b2
    exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return outputs, exponentials / exponentials.sum(axis=1, keepdims=True)


def error_of(dtype: Any) -> float:
    """Return the bound on the error from rounding four intermediate results of magnitude 1 to the dtype, with a margin
    for the products."""
    return {np.float32: 2e-6, np.float16: 1e-2, ml_dtypes.bfloat16: 8e-2}[dtype]
