"""The "photo" preprocessing: torchvision's presets, in Pillow and NumPy.

The picture is resized (antialiased), the network's image is cut from the centre, and values are scaled to 0..1. Sizes
are rounded as `torchvision.transforms.Resize` and `CenterCrop` do, and colours are converted as by its `ImageFolder`:
red, green, blue, without transparency.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from .deep_pictures import to_8_bits
from .frame import frame_of
from .inputs import ImageInput

MAX_RESIZED_PIXELS = 64_000_000  # for long and narrow pictures: the limit that also applies when a picture is opened

_ONE = 2048  # sum of the weights of two pixels
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class PhotoError(ValueError):
    """The picture cannot be used; the message says why."""


def photo(image: Image.Image, spec: ImageInput) -> np.ndarray:
    """Convert a picture to float32 [channels, height, width] in 0..1: red, green, blue, or grey.

    See `ImageInput` for resizing and cropping. Raises PhotoError.
    """
    frame = frame_of(spec, *image.size)
    size = (frame.resized_width, frame.resized_height)
    if size[0] * size[1] > MAX_RESIZED_PIXELS:
        raise PhotoError(f"a picture of {image.width}x{image.height} pixels is too narrow")
    resized = _resize(_colours(image, spec.channels), size, spec.filter)
    sheet = Image.new(resized.mode, (spec.width, spec.height), (spec.pad_colour,) * spec.channels)
    sheet.paste(resized, (-frame.left, -frame.top))
    pixels = np.asarray(sheet, np.float32) / np.float32(255)
    return np.ascontiguousarray(pixels.reshape(spec.height, spec.width, spec.channels).transpose(2, 0, 1))


def _resize(image: Image.Image, size: tuple[int, int], name: str) -> Image.Image:
    """Resize a picture in mode RGB or L by a filter of `ImageInput`."""
    if name != "linear":
        return image.resize(size, _FILTERS[name])
    return Image.fromarray(resize_linear(np.asarray(image), *size))


def resize_linear(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resize uint8 [H, W] or [H, W, channels] as OpenCV's INTER_LINEAR does: from the nearest two rows and columns.

    The weights are whole 2,048ths, as there.
    """
    left, right, across = _two_taps(pixels.shape[1], width)
    above, below, down = _two_taps(pixels.shape[0], height)
    across[left == right] = 0  # beyond the edges; OpenCV weighs the same row twice there
    rows, which = np.unique(np.concatenate([above, below]), return_inverse=True)
    shape = (-1, *(1,) * (pixels.ndim - 2))
    first, second = (_ONE - across).reshape(shape), across.reshape(shape)
    some = pixels[rows]
    mixed = (some[:, left] * first + some[:, right] * second) >> 4
    shape = (-1, *(1,) * (pixels.ndim - 1))
    upper, lower = mixed[which[:height]], mixed[which[height:]]
    total = ((upper * (_ONE - down).reshape(shape)) >> 16) + ((lower * down.reshape(shape)) >> 16)
    return ((total + 2) >> 2).astype(np.uint8)


def _two_taps(source: int, target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each target pixel, return the source pixels before and after its centre, and the weight of the latter."""
    centres = ((np.arange(target) + 0.5) * (source / target) - 0.5).astype(np.float32)
    before = np.floor(centres).astype(np.int64)
    weight = np.rint((centres - before.astype(np.float32)) * np.float32(_ONE)).astype(np.int32)
    return np.clip(before, 0, source - 1), np.clip(before + 1, 0, source - 1), weight


def _colours(image: Image.Image, channels: int) -> Image.Image:
    """Convert a picture to mode RGB or L, 8 bits per channel."""
    if image.mode == "F":
        raise PhotoError("a picture of floating point numbers, whose values for black and white are unknown")
    if image.mode == "I" or image.mode.startswith("I;16"):  # 16-bit grey, which Pillow's conversion would clip
        image = to_8_bits(image, lambda deep: np.rint(np.clip(deep, 0, 65535) / np.float32(257)))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # avoids Pillow's warning about lost transparency of a palette
    return image.convert("L" if channels == 1 else "RGB")
