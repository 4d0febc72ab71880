"""Pictures with more than 8 bits per channel, read one band of rows at a time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from PIL import Image
from trninfer.models import ImageInput, deep_pictures
from trninfer.models.deep_pictures import bands, to_8_bits
from trninfer.models.photo import photo


@pytest.mark.parametrize("size", [(1, 1), (7, 1), (1, 7), (5, 13)])
@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.float32])
def test_bands_are_the_picture(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], dtype: type) -> None:
    monkeypatch.setattr(deep_pictures, "BAND_PIXELS", 12)
    values = np.random.default_rng(0).integers(0, 60_000, size).astype(dtype)
    image = Image.fromarray(values)
    assert np.array_equal(np.concatenate(list(bands(image))), values.astype(np.float32))
    assert np.array_equal(np.asarray(to_8_bits(image, lambda deep: deep / 257)), (values / 257).astype(np.uint8))


def test_a_large_picture_is_never_held_as_float32() -> None:
    """64 megapixels would take 256 MB, and twice that during the division."""
    spec = ImageInput(1, 8, 8, "photo", (0.0,), (1.0,), 8)
    image = Image.new("I;16", (4000, 4000), 65535)
    tracemalloc.start()
    try:
        assert photo(image, spec).min() == 1.0
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
