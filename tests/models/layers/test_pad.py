"""Padding and cropping."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_layer import run_onnx
from trninfer.models.errors import ModelError
from trninfer.models.layers.pad import MODES, Pad


def test_pad_and_crop() -> None:
    x = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
    pads, value = np.array([0, 0, 1, -1, 0, 0, 0, 2]), np.array(0.5, np.float32)
    np.testing.assert_array_equal(Pad("p", (1, -1, 0, 2), 0.5).run({}, x), run_onnx("Pad", x, pads, value))


@pytest.mark.parametrize("mode", MODES[1:])
def test_pixels_of_its_own(mode: str) -> None:
    x = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
    pads = np.array([0, 0, 1, 3, 0, 0, 2, 0])
    np.testing.assert_array_equal(Pad("p", (1, 3, 2, 0), mode=mode).run({}, x), run_onnx("Pad", x, pads, mode=mode))


@pytest.mark.parametrize(("mode", "most"), [("edge", 3), ("wrap", 3), ("reflect", 2)])
def test_no_more_pixels_than_there_are(mode: str, most: int) -> None:
    assert Pad("p", (most, 0, 0, 0), mode=mode).output_shape((5, 3, 4)) == (5, 3 + most, 4)
    with pytest.raises(ModelError, match="does not fit an image of 5x3x4"):
        Pad("p", (most + 1, 0, 0, 0), mode=mode).output_shape((5, 3, 4))


def test_a_mode_that_is_not_known_a_value_and_cutting_are_refused() -> None:
    with pytest.raises(ModelError, match="must be one of constant, edge, reflect, wrap, not 'mirror'"):
        Pad("p", (1, 1, 1, 1), mode="mirror")
    for padding, value in (((1, 1, -1, 1), 0.0), ((1, 1, 1, 1), 2.0)):
        with pytest.raises(ModelError, match="accepts neither a value nor negative padding"):
            Pad("p", padding, value, "edge")
