"""Reshaping, and permuting axes."""

from __future__ import annotations

import numpy as np
from onnx_layer import run_onnx
from trninfer.models.layers.reshape import Flatten, Reshape, Transpose


def test_transpose() -> None:
    x = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
    expected = run_onnx("Reshape", run_onnx("Transpose", x, perm=[0, 2, 3, 1]), np.array([2, 72]))
    np.testing.assert_array_equal(Transpose("t", (6, 3, 4), (1, 2, 0), (72,)).run({}, x), expected)


def test_flatten_and_reshape() -> None:
    x = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
    np.testing.assert_array_equal(Flatten("f").run({}, x), run_onnx("Flatten", x))
    expected = run_onnx("Reshape", x, np.array([2, 4, 9, 2]))
    np.testing.assert_array_equal(Reshape("r", (4, 9, 2)).run({}, x), expected)
