"""The results of casts according to AWS's documentation: NKI's dtypes, values of each, and rounding.

Casts round to nearest even, and casts to integers saturate (release notes of NKI 0.6); narrow floats are those of
ml_dtypes (nki/guides/nki_simulator.rst).
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from trninfer.simulator import NkiValidationError

FLOATS = {
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
}
INTEGERS = ("int8", "int16", "int32", "uint8", "uint16", "uint32")
DTYPES = (*FLOATS, "tfloat32", *INTEGERS)


def stored(values: Any, dtype: str) -> Any:
    """Return float32 values after a cast to `dtype`."""
    values = np.asarray(values, np.float32)
    with np.errstate(all="ignore"):
        if dtype in FLOATS:
            return values.astype(FLOATS[dtype]).astype(np.float32)
        if dtype == "tfloat32":
            _, exponent = np.frexp(values.astype(np.float64))
            last = np.maximum(exponent - 11, -136)  # ten bits after the first, fewer below the smallest exponent
            rounded = np.ldexp(np.rint(np.ldexp(values.astype(np.float64), -last)), last)
            return np.where(np.isfinite(values), rounded, values).astype(np.float32)
        limits = np.iinfo(dtype)
        return np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max).astype(dtype)


def numbers(dtype: str, shape: Any, seed: int = 0, big: bool = False) -> Any:
    """Return values of `dtype`: small integers and fractions, or all values."""
    random = np.random.default_rng(seed)
    if dtype not in INTEGERS:
        return stored(random.integers(-30, 30, shape) / 4, dtype)
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if big else (max(limits.min, -9), 9)
    return random.integers(low, high, shape, dtype=dtype, endpoint=True)


def refuses(run: Callable[[], Any]) -> None:
    """Check that a call is rejected with one line."""
    with pytest.raises(NkiValidationError) as told:
        run()
    assert "\n" not in str(told.value)
