"""The "photo" preprocessing: torchvision's presets, implemented with Pillow and NumPy.

The picture is resized with antialiasing and cropped to the network's image at the centre; values are scaled to the
range [0, 1]. Sizes are rounded as in `torchvision.transforms.Resize` and `CenterCrop`, and colours are converted as in
torchvision's
`ImageFolder`: red, green, blue, without transparency.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from .deep_pictures import to_8_bits
from .frame import frame_of
from .inputs import ImageInput

MAX_RESIZED_PIXELS = 64_000_000  # relevant for long, narrow pictures; the same limit applies when a picture is opened

_ONE = 2048  # sum of the weights of the two pixels
_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}


class PhotoError(ValueError):
    """Raised if a picture cannot be used; the message states the reason."""


def photo(image: Image.Image, spec: ImageInput) -> np.ndarray:
    """Convert a picture to float32 [channels, height, width] from 0 to 1: red, green, blue, or grey.

    See `ImageInput` for resizing and cropping. Raises PhotoError if the picture is too narrow or in mode F.
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
    """Resize a picture in mode RGB or L with a filter of `ImageInput`, given by name."""
    if name != "linear":
        return image.resize(size, _FILTERS[name])
    return Image.fromarray(resize_linear(np.asarray(image), *size))


def resize_linear(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resize uint8 [H, W] or [H, W, channels] like OpenCV's INTER_LINEAR, interpolating between the two nearest rows
    and columns.

    As in OpenCV, the weights are multiples of 1/2048.
    """
    left, right, across = _two_taps(pixels.shape[1], width)
    above, below, down = _two_taps(pixels.shape[0], height)
    across[left == right] = 0  # beyond the edges; for rows, OpenCV applies both weights to the same row
    rows, positions = np.unique(np.concatenate([above, below]), return_inverse=True)
    shape = (-1, *(1,) * (pixels.ndim - 2))
    first, second = (_ONE - across).reshape(shape), across.reshape(shape)
    some = pixels[rows]
    mixed = (some[:, left] * first + some[:, right] * second) >> 4
    shape = (-1, *(1,) * (pixels.ndim - 1))
    upper, lower = mixed[positions[:height]], mixed[positions[height:]]
    total = ((upper * (_ONE - down).reshape(shape)) >> 16) + ((lower * down.reshape(shape)) >> 16)
    return ((total + 2) >> 2).astype(np.uint8)


def _two_taps(source: int, target: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each target pixel, return the source pixels before and after its centre, and the weight of the second one."""
    centres = ((np.arange(target) + 0.5) * (source / target) - 0.5).astype(np.float32)
    before = np.floor(centres).astype(np.int64)
    weight = np.rint((centres - before.astype(np.float32)) * np.float32(_ONE)).astype(np.int32)
    return np.clip(before, 0, source - 1), np.clip(before + 1, 0, source - 1), weight


def _colours(image: Image.Image, channels: int) -> Image.Image:
    """Convert a picture to mode RGB or L, 8 bits per channel."""
    if image.mode == "F":
        raise PhotoError("floating-point pictures are not supported, because their black and white levels are unknown")
    if image.mode == "I" or image.mode.startswith("I;16"):  # 16-bit grey, which Pillow's conversion would clip
        image = to_8_bits(image, lambda deep: np.rint(np.clip(deep, 0, 65535) / np.float32(257)))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # avoids Pillow's warning about lost transparency of a palette
    return image.convert("L" if channels == 1 else "RGB")
