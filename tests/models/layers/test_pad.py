"""Padding and cropping."""

from __future__ import annotations

import numpy as np
from onnx_layer import run_onnx
from trninfer.models.layers.pad import Pad


def test_pad_and_crop() -> None:
    x = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
    pads, value = np.array([0, 0, 1, -1, 0, 0, 0, 2]), np.array(0.5, np.float32)
    np.testing.assert_array_equal(Pad("p", (1, -1, 0, 2), 0.5).run({}, x), run_onnx("Pad", x, pads, value))
