"""Normalisation, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.layers.norm import GroupNorm, LayerNorm, LocalResponseNorm


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_local_response_norm(size: int) -> None:
    x = normal(11, 2, 9, 5, 4, scale=3)
    layer = LocalResponseNorm("n", size, 0.02, 0.6, 2.0)
    expected = run_onnx("LRN", x, size=size, alpha=0.02, beta=0.6, bias=2.0)
    np.testing.assert_allclose(layer.run({}, x), expected, **TOLERANCE)


def test_layer_norm_over_channels_and_features() -> None:
    scale, shift = normal(12, 17), normal(13, 17)
    own = {"scale": scale, "shift": shift}
    x = normal(14, 2, 17, 3, 5, scale=4)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    expected = run_onnx("LayerNormalization", last, scale, shift, epsilon=1e-3).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(LayerNorm("n", 17, 1e-3).run(own, x), expected, **TOLERANCE)
    row = x[:, :, 0, 0]
    expected = run_onnx("LayerNormalization", row, scale, shift, epsilon=1e-3)
    np.testing.assert_allclose(LayerNorm("n", 17, 1e-3).run(own, row), expected, **TOLERANCE)


@pytest.mark.parametrize("groups", [1, 4, 12])
def test_group_norm(groups: int) -> None:
    scale, shift = normal(12, 12), normal(13, 12)
    x = normal(14, 2, 12, 3, 5, scale=4) + np.float32(2)
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    expected = run_onnx("InstanceNormalization", x.reshape(2, groups, -1), ones, zeros, epsilon=1e-3).reshape(x.shape)
    expected = expected * scale[:, None, None] + shift[:, None, None]
    result = GroupNorm("n", 12, groups, 1e-3).run({"scale": scale, "shift": shift}, x)
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE["rtol"], atol=5e-6)
