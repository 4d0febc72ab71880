"""The "photo" preprocessing: what torchvision's presets do with a picture, in Pillow and NumPy.

The picture is resized (antialiased), the network's image cut from the centre, and the values scaled to 0..1. Sizes are
rounded as `torchvision.transforms.Resize` and `CenterCrop` round them, colours converted as its `ImageFolder` does:
red, green, blue, with transparency left out.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from .deep_pictures import to_8_bits
from .inputs import ImageInput

MAX_RESIZED_PIXELS = 64_000_000  # of a picture that is long and narrow: as many as one may have when it is opened


_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class PhotoError(ValueError):
    """A picture that cannot be used; the message says why."""


def photo(image: Image.Image, spec: ImageInput) -> np.ndarray:
    """Return a picture as float32 [channels, height, width] in 0..1: red, green, blue, or grey alone.

    See `ImageInput` for how it is resized and cut. Raises PhotoError.
    """
    size = _size(image, spec)
    if size[0] * size[1] > MAX_RESIZED_PIXELS:
        raise PhotoError(f"a picture of {image.width}x{image.height} pixels is too narrow")
    resized = _colours(image, spec.channels).resize(size, _FILTERS[spec.filter])
    left, top = round((size[0] - spec.width) / 2), round((size[1] - spec.height) / 2)
    # Beyond the edges of a picture, which is where `pad` cuts too, Pillow puts black.
    part = resized.crop((left, top, left + spec.width, top + spec.height))
    pixels = np.asarray(part, np.float32) / np.float32(255)
    return np.ascontiguousarray(pixels.reshape(spec.height, spec.width, spec.channels).transpose(2, 0, 1))


def _size(image: Image.Image, spec: ImageInput) -> tuple[int, int]:
    """Return (width, height) of the resized picture."""
    if spec.resize_mode == "squash":
        scale = spec.resize / max(spec.height, spec.width)
        return round(spec.width * scale), round(spec.height * scale)
    if spec.resize_mode == "pad":
        scale = min(spec.width / image.width, spec.height / image.height)
        return max(1, round(image.width * scale)), max(1, round(image.height * scale))
    short, long = sorted(image.size)
    longer = int(spec.resize * long / short)
    return (spec.resize, longer) if image.width <= image.height else (longer, spec.resize)


def _colours(image: Image.Image, channels: int) -> Image.Image:
    """The picture in mode RGB or L, 8 bits a channel."""
    if image.mode == "F":
        raise PhotoError("a picture of floating point numbers, whose values for black and white are unknown")
    if image.mode == "I" or image.mode.startswith("I;16"):  # grey of 16 bits, which Pillow's conversion would cut off
        image = to_8_bits(image, lambda deep: np.rint(np.clip(deep, 0, 65535) / np.float32(257)))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # else Pillow may warn of a palette whose transparency is lost
    return image.convert("L" if channels == 1 else "RGB")
