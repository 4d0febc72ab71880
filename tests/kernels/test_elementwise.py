"""Elementwise arithmetic of tiles in SBUF, compared with NumPy: sums, gates, channel-wise numbers, PReLU."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from layer_programs import run_alone
from numpy.typing import NDArray
from random_arrays import normal
from trninfer.models.layers import Affine, Combine, PRelu

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
TARGETS = ["trn1", "trn2", "trn3"]
ROUNDING = {np.float32: 2e-6, ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-10}
SHAPES = [(1, 1), (3, 513), (129, 7), (1, 9001), (1, 1, 1, 1), (2, 3, 5, 7), (1, 129, 13, 11), (3, 127, 1, 1)]
SHAPES += [(1, 64, 20, 30), (1, 3, 127, 129), (2, 1, 60, 70), (40, 130, 3, 3)]
OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def wide(x: NDArray[Any]) -> NDArray[np.float64]:
    return x.astype(np.float64)


def per_channel(numbers: NDArray[Any], x: NDArray[Any]) -> NDArray[np.float64]:
    return wide(numbers).reshape(numbers.shape + (1,) * (x.ndim - 1 - numbers.ndim))


def assert_close(result: Any, expected: NDArray[np.float64], dtype: Any, size: float = 1.0) -> None:
    """Compare within the rounding of the dtype; `size` is the magnitude of the intermediate sums."""
    assert result.dtype == dtype and result.shape == expected.shape
    np.testing.assert_allclose(wide(result), expected, rtol=ROUNDING[dtype], atol=2e-6 * size)


shapes, dtypes, targets = st.sampled_from(SHAPES), st.sampled_from(DTYPES), st.sampled_from(TARGETS)


@given(shapes, dtypes, targets, st.sampled_from(list(OPERATIONS)), st.booleans(), st.sampled_from(["relu", "tanh", ""]))
def test_combine(shape: tuple[int, ...], dtype: Any, target: str, operation: str, gate: bool, activation: str) -> None:
    a = normal(shape, dtype)
    b = normal((*shape[:2], 1, 1) if gate and math.prod(shape[2:]) in range(2, 4096) else shape, dtype, 1)
    if operation == "divide":
        b = (np.abs(b) + np.array(0.5, dtype)).astype(dtype)
    expected = OPERATIONS[operation](wide(a), wide(b))
    after = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "": lambda x: x}[activation]
    result = run_alone(Combine("l", operation, activation or "identity"), a, b, target=target)
    assert_close(result, after(expected), dtype, 8)


@given(shapes, dtypes, targets, st.booleans())
def test_affine(shape: tuple[int, ...], dtype: Any, target: str, every_element: bool) -> None:
    small = len(shape) == 4 and math.prod(shape[2:]) <= 2048
    numbers = shape[1:] if every_element and small else shape[1:2]
    x = normal(shape, dtype)
    scale, shift = (normal(numbers, np.float32, seed) for seed in (1, 2))
    layer = Affine("l", numbers, "clip", (-1.5, 2.0))
    result = run_alone(layer, x, tensors={"scale": scale, "shift": shift}, target=target)
    assert_close(result, np.clip(wide(x) * per_channel(scale, x) + per_channel(shift, x), -1.5, 2), dtype, 8)


@given(shapes, dtypes, targets)
def test_prelu(shape: tuple[int, ...], dtype: Any, target: str) -> None:
    x, slope = normal(shape, dtype), normal(shape[1:2], np.float32, 1)
    result = run_alone(PRelu("l", shape[1]), x, tensors={"slope": slope}, target=target)
    assert_close(result, np.where(x > 0, wide(x), wide(x) * per_channel(slope, x)), dtype)
