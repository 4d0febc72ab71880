"""The "photo" preprocessing: what torchvision's presets do with a picture, in Pillow and NumPy.

The shorter side is resized (bilinear, antialiased), the network's image cut from the middle, and the values scaled to
0..1. Sizes are rounded as `torchvision.transforms.Resize` and `CenterCrop` round them, colours converted as its
`ImageFolder` does: red, green, blue, with transparency left out.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

MAX_RESIZED_PIXELS = 64_000_000  # of a picture that is long and narrow: as many as one may have when it is opened


class PhotoError(ValueError):
    """A picture that cannot be used; the message says why."""


def photo(image: Image.Image, channels: int, height: int, width: int, resize: int) -> np.ndarray:
    """The middle of a picture as float32 [channels, height, width] in 0..1: red, green, blue, or grey alone.

    `resize` is the shorter side of the whole picture, in pixels, before the middle is cut out; height and width are at
    most that. Raises PhotoError.
    """
    short, long = sorted(image.size)
    longer = int(resize * long / short)
    if resize * longer > MAX_RESIZED_PIXELS:
        raise PhotoError(f"a picture of {image.width}x{image.height} pixels is too narrow")
    size = (resize, longer) if image.width <= image.height else (longer, resize)
    resized = _colours(image, channels).resize(size, Image.Resampling.BILINEAR)
    left, top = round((size[0] - width) / 2), round((size[1] - height) / 2)
    pixels = np.asarray(resized.crop((left, top, left + width, top + height)), np.float32) / np.float32(255)
    return np.ascontiguousarray(pixels.reshape(height, width, channels).transpose(2, 0, 1))


def _colours(image: Image.Image, channels: int) -> Image.Image:
    """The picture in mode RGB or L, 8 bits a channel."""
    if image.mode == "F":
        raise PhotoError("a picture of floating point numbers, which do not tell what black and white are")
    if image.mode == "I" or image.mode.startswith("I;16"):  # grey of 16 bits, which Pillow's conversion would cut off
        deep = np.clip(np.asarray(image, np.float32), 0, 65535) / np.float32(257)
        image = Image.fromarray(np.rint(deep).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # else Pillow may warn of a palette whose transparency is lost
    return image.convert("L" if channels == 1 else "RGB")
