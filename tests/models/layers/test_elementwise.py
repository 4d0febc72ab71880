"""Combinations of two layers, and a channel-wise scale and shift."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.layers.elementwise import Affine, Combine


@pytest.mark.parametrize("operation", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("pooled", [False, True])
def test_combine(operation: str, pooled: bool) -> None:
    ours = {"Sub": "subtract", "Mul": "multiply", "Div": "divide", "Max": "maximum", "Min": "minimum"}
    a, b = normal(5, 3, 5, 7, 3), normal(6, 3, 5, *((1, 1) if pooled else (7, 3)))
    layer = Combine("c", ours.get(operation, "add"), "clip", (-1.0, 2.0))
    assert layer.output_shape(a.shape[1:], b.shape[1:]) == (5, 7, 3)
    result = layer.run({}, a, b)
    np.testing.assert_allclose(result, np.clip(run_onnx(operation, a, b), -1, 2), **TOLERANCE)


@pytest.mark.parametrize("shape", [(5,), (5, 7, 3)])
def test_affine(shape: tuple[int, ...]) -> None:
    x, scale, shift = normal(7, 2, 5, 7, 3), normal(8, *shape), normal(9, *shape)
    wide = shape + (1,) * (3 - len(shape))
    expected = np.maximum(x * scale.reshape(wide) + shift.reshape(wide), 0)
    result = Affine("a", shape, "relu").run({"scale": scale, "shift": shift}, x)
    np.testing.assert_allclose(result, expected, **TOLERANCE)
