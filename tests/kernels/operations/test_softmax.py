"""Softmax in a program, compared with float64: over runs of channels and over rows, in one tile and in several."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from random_arrays import normal
from single_operations import load_of, run_operations
from trninfer.kernels.program import ChannelSoftmax, RowSoftmax

DTYPES = {"float32": (np.float32, 3e-6), "bfloat16": (ml_dtypes.bfloat16, 5e-3), "float16": (np.float16, 1e-3)}
SHAPES = [
    # channels, length, inner, packed, rows, columns
    (64, 16, 1, 1, 1, 300),  # YOLO's box sides
    (6, 2, 3, 2, 4, 5),
    (21, 21, 1, 1, 3, 7),  # an odd number of channels
    (258, 2, 129, 1, 1, 1),  # two tiles and one pixel
    (1536, 3, 256, 1, 1, 2),  # more than one bank of PSUM
    (2, 2, 1, 1, 2, 129),
    (512, 2, 128, 1, 3, 5),  # over tiles
    (64, 2, 32, 2, 40, 30),
]


def softmax(x: Any, axis: int, is_log: bool) -> Any:
    wide = x.astype(np.float64)
    grown = np.exp(wide - wide.max(axis, keepdims=True))
    shares = grown / grown.sum(axis, keepdims=True)
    return np.log(shares) if is_log else shares


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("channels", "length", "inner", "packed", "rows", "columns"), SHAPES)
def test_runs_of_channels(
    channels: int, length: int, inner: int, packed: int, rows: int, columns: int, dtype: str
) -> None:
    kind, tolerance = DTYPES[dtype]
    x = (normal((2, channels, rows, columns), np.float32) * 20).astype(kind)
    size = {"channels": channels, "rows": rows, "columns": columns, "packed": packed}
    operation = ChannelSoftmax(name="s", length=length, inner=inner, **size, sources=((0,),))
    found = run_operations([load_of(x, 0, packed), operation], x, packed=packed)
    runs = x.reshape(2, -1, length, inner, rows, columns)
    expected = softmax(runs, 2, False).reshape(x.shape)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("target", ["trn1", "trn3"])
def test_on_other_targets(target: str) -> None:
    x = normal((3, 12, 2, 5), ml_dtypes.bfloat16)
    operation = ChannelSoftmax(name="s", length=4, channels=12, rows=2, columns=5, sources=((0,),))
    found = run_operations([load_of(x), operation], x, target=target)
    expected = softmax(x.reshape(3, 3, 4, 2, 5), 2, False).reshape(x.shape)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=5e-3)


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(("channels", "rows", "columns"), [(3, 4, 5), (129, 1, 3), (2, 1, 2500), (1, 1, 1)])
def test_rows(channels: int, rows: int, columns: int, is_log: bool) -> None:
    x = normal((3, channels, rows, columns), np.float32) * 20
    operation = RowSoftmax(name="s", log=is_log, channels=channels, rows=rows, columns=columns, sources=((0,),))
    found = run_operations([load_of(x), operation], x)
    np.testing.assert_allclose(found, softmax(x, 3, is_log), rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize(("channels", "inner"), [(10, 1), (256, 128)])
def test_logarithms_of_channels(channels: int, inner: int) -> None:
    x = normal((2, channels, 3, 5), np.float32) * 20
    length = channels // inner
    size = {"channels": channels, "rows": 3, "columns": 5}
    operation = ChannelSoftmax(name="s", length=length, inner=inner, log=True, **size, sources=((0,),))
    expected = softmax(x.reshape(2, length, inner, 3, 5), 1, True).reshape(x.shape)
    np.testing.assert_allclose(run_operations([load_of(x), operation], x), expected, rtol=3e-6, atol=3e-6)
