"""Attention, compared with ONNX Runtime's products and softmax, and its checks."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.errors import ModelError
from trninfer.models.layers import Attention
from trninfer.models.layers.attention import MAX_TOKENS


def product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return run_onnx("MatMul", first, second)


@pytest.mark.parametrize("by_rows", [False, True])
def test_as_onnx_runtime(by_rows: bool) -> None:
    q, k, v = normal(1, 2, 12, 3, 5), normal(2, 2, 12, 3, 4), normal(3, 2, 18, 3, 4)
    rows = 3 if by_rows else 1
    bias = normal(4, 2, rows, 15 // rows, 12 // rows)
    layer = Attention("a", 2, 0.4, by_rows, bias.shape)
    assert layer.output_shape(q.shape[1:], k.shape[1:], v.shape[1:]) == (18, 3, 5)

    def split(x: np.ndarray) -> np.ndarray:
        return x.reshape(2, 2, x.shape[1] // 2, rows, -1).transpose(0, 1, 3, 4, 2)

    scores = product(split(q) * np.float32(0.4), np.ascontiguousarray(split(k).swapaxes(3, 4))) + bias
    weights = run_onnx("Softmax", scores, axis=-1)
    expected = product(weights, np.ascontiguousarray(split(v)))
    found = layer.run({"bias": bias}, q, k, v)
    np.testing.assert_allclose(found, expected.transpose(0, 1, 4, 2, 3).reshape(2, 18, 3, 5), **TOLERANCE)


@pytest.mark.parametrize(
    ("fields", "shapes", "message"),
    [
        ({"heads": 5}, ((12, 1, 4),) * 3, "cannot be divided into 5 heads"),
        ({"heads": 2}, ((12, 1, 4), (8, 1, 4), (8, 1, 4)), "do not match"),
        ({"heads": 2}, ((12, 1, 4), (12, 1, 5), (12, 1, 4)), "do not match"),
        ({"heads": 2, "by_rows": True}, ((12, 2, 4), (12, 1, 4), (12, 1, 4)), "do not match"),
        ({"heads": 2}, ((12, 1, MAX_TOKENS + 1),) * 3, "exceed the limit"),
        ({"heads": 2, "bias_shape": (2, 1, 4, 5)}, ((12, 1, 4),) * 3, "bias_shape must be"),
        ({"heads": 2}, ((12,),) * 3, "expects an image"),
    ],
)
def test_mismatched_shapes_are_refused(
    fields: dict[str, object], shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    layer = Attention("a", **fields)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=message):
        layer.output_shape(*shapes)


def test_a_bias_has_four_axes() -> None:
    with pytest.raises(ModelError, match="bias_shape"):
        Attention("a", 2, bias_shape=(2, 4, 4))
