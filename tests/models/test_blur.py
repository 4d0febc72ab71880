"""The blur of small radii, against Pillow's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFilter
from trninfer.models.blur import gaussian_blur


@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([1, 3]),
    radius=st.sampled_from([0.7, 1.0]) | st.floats(0.05, 1.41),
    seed=st.integers(0, 99),
)
def test_a_blur_is_pillows(height: int, width: int, channels: int, radius: float, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)
    picture = Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels)
    expected = np.atleast_3d(np.asarray(picture.filter(ImageFilter.GaussianBlur(radius))))
    blurred = gaussian_blur(np.ascontiguousarray(pixels.transpose(2, 0, 1)), radius)
    assert blurred.dtype == np.uint8
    np.testing.assert_array_equal(blurred.transpose(1, 2, 0), expected)


def test_a_wider_blur_is_refused() -> None:
    with pytest.raises(ValueError, match="more than the adjacent pixels"):
        gaussian_blur(np.zeros((1, 4, 4), np.uint8), 1.42)
