"""Conversion of pictures with more than 8 bits per channel, in bands, since whole float32 pictures take 256 MB."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

BAND_PIXELS = 1 << 20


def bands(image: Image.Image) -> Iterator[np.ndarray]:
    """Yield a grey picture as float32 [rows, width], a few rows at a time."""
    rows = max(1, BAND_PIXELS // image.width)
    for top in range(0, image.height, rows):
        yield np.asarray(image.crop((0, top, image.width, min(top + rows, image.height))), np.float32)


def to_8_bits(image: Image.Image, convert: Callable[[np.ndarray], np.ndarray]) -> Image.Image:
    """Convert a grey picture to mode L with `convert`, truncating the results to integers."""
    result = np.empty((image.height, image.width), np.uint8)
    top = 0
    for band in bands(image):
        result[top : top + len(band)] = convert(band).astype(np.uint8)
        top += len(band)
    return Image.fromarray(result)
