"""Class maps: the class of each pixel of a picture, the area of each class, and renderings of maps."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from ..models.frame import Frame
from .palette import rgb, shaded_color

VOID = 255  # value of pixels without a class in 8 bits, as in PASCAL VOC; 65,535 in 16 bits
PREVIEW_SIDE = 160  # side in pixels of the small map on an HTML page
OPACITY = 0.55  # opacity of the overlay
BAND_PIXELS = 1 << 20  # number of pixels processed at once; NumPy needs up to 50 bytes for each
# names of a first class that is drawn without a colour
BACKGROUNDS = ("background", "__background__", "unlabeled", "unlabelled", "void")


@dataclass(frozen=True)
class ClassArea:
    """The number of pixels of a class in a picture, and their fraction of all pixels."""

    label: str
    class_index: int
    pixels: int
    share: float


@dataclass(frozen=True)
class Overlap:
    """Pixel counts for one class in a picture with known classes: predicted, correct, and both."""

    class_index: int
    answered: int
    right: int
    both: int


@dataclass(frozen=True)
class ClassMap:
    """The prediction of a segmentation network for a picture.

    `areas` are sorted in decreasing order. `preview` is a small map as base64 PNG. `overlaps` holds the comparison with
    the correct classes, if they are known. `pixels`, if stored, contains the classes [height, width], with the maximum
    value for pixels outside the network's image.
    """

    width: int
    height: int
    areas: tuple[ClassArea, ...]
    preview: str
    overlaps: tuple[Overlap, ...] | None = None
    pixels: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Return each class with its percentage."""
        return ", ".join(f"{area.label} {100 * area.share:.1f} %" for area in self.areas)


def to_picture(classes: np.ndarray, frame: Frame, size: tuple[int, int], count: int) -> np.ndarray:
    """Return the class of each pixel of a picture by nearest-neighbour resampling of the network's map.

    `classes` [rows, columns] covers the network's image, which has `size` (height, width) pixels; `count` is the number
    of classes. The result is uint8 [H, W], or uint16 for more than 255 classes, with the maximum value for pixels
    outside the network's image.
    """
    dtype = np.dtype(np.uint8 if count <= VOID else np.uint16)
    rows, columns = (
        _nearest(pixels, scale, first, side, map_side)
        for pixels, scale, first, side, map_side in (
            (frame.height, frame.scale[1], frame.top, size[0], classes.shape[0]),
            (frame.width, frame.scale[0], frame.left, size[1], classes.shape[1]),
        )
    )
    enlarged = classes.astype(dtype)[np.maximum(rows, 0)][:, np.maximum(columns, 0)]
    enlarged[rows < 0] = void_of(dtype)
    enlarged[:, columns < 0] = void_of(dtype)
    return np.asarray(enlarged)


def _nearest(pixels: int, scale: float, first: int, side: int, own: int) -> np.ndarray:
    """Return the source row (or column) of the map for each row of a picture, or -1 outside of the network's image."""
    places = np.floor((np.arange(pixels) + 0.5) * scale - first)
    inside = (places >= 0) & (places < side)
    return np.where(inside, places * own // side, -1).astype(np.int64)


def void_of(dtype: np.dtype[Any]) -> int:
    """Return the value used for pixels without a class."""
    return int(np.iinfo(dtype).max)


def read_map(pixels: np.ndarray, labels: Sequence[str], overlaps: tuple[Overlap, ...] | None = None) -> ClassMap:
    """Convert a map in the format of `to_picture` to the prediction for a picture."""
    counts = _count(pixels, len(labels))
    areas = tuple(
        ClassArea(labels[index], index, int(counts[index]), int(counts[index]) / pixels.size)
        for index in np.argsort(-counts, kind="stable").tolist()
        if counts[index]
    )
    step = max(1, -(-max(pixels.shape) // PREVIEW_SIDE))
    preview = encode_png(palette_picture(pixels[step // 2 :: step, step // 2 :: step], labels))
    return ClassMap(pixels.shape[1], pixels.shape[0], areas, preview, overlaps)


def encode_png(picture: Image.Image) -> str:
    """Return a picture as a PNG file in base64."""
    file = io.BytesIO()
    picture.save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def compare(pixels: np.ndarray, right: np.ndarray, count: int) -> tuple[Overlap, ...]:
    """Compare a map with the correct classes [H, W], and return the overlap for each class; void pixels are ignored."""
    answered, totals, both = np.zeros((3, count), np.int64)
    for rows in _row_bands(pixels):
        known = right[rows] < count
        predicted, true = pixels[rows][known], right[rows][known]
        answered += _count(predicted, count)
        totals += _count(true, count)
        both += _count(true[predicted == true], count)
    return tuple(
        Overlap(index, int(answered[index]), int(totals[index]), int(both[index]))
        for index in np.flatnonzero(answered + totals).tolist()
    )


def palette_picture(pixels: np.ndarray, labels: Sequence[str]) -> Image.Image:
    """Return a map as a picture of class numbers: mode P with the colours of the classes, or 16-bit grey for more than
    255 classes."""
    picture = Image.fromarray(pixels)
    if pixels.dtype == np.uint8:
        picture.putpalette(_colors(labels).astype(np.uint8).tobytes())
    return picture


def overlay(picture: Image.Image, pixels: np.ndarray, labels: Sequence[str]) -> Image.Image:
    """Return a picture overlaid with the colours and borders of its classes, except for the background and for pixels
    without a class."""
    border = np.zeros(pixels.shape, bool)
    border[:, 1:] |= pixels[:, 1:] != pixels[:, :-1]
    border[1:] |= pixels[1:] != pixels[:-1]
    mixed = np.array(picture if picture.mode == "RGB" else picture.convert("RGB"))  # avoids another copy
    table = _colors(labels)
    for rows in _row_bands(pixels):
        part = pixels[rows]
        plain = part == void_of(part.dtype)
        if _has_background(labels):
            plain |= part == 0
        colors = table[part if part.dtype == np.uint8 else part % 255]
        grey = np.asarray(Image.fromarray(mixed[rows]).convert("L"), np.float32)[
            ..., None
        ]  # grey, so that the colours of the overlay stand out
        blended = grey + (colors - grey) * np.float32(OPACITY)
        mixed[rows] = np.where(plain[..., None], mixed[rows], blended.round().astype(np.uint8))
    mixed[border] = 255
    return Image.fromarray(mixed)


def _row_bands(pixels: np.ndarray) -> list[slice]:
    """Return slices of rows with about BAND_PIXELS pixels each, which limit the memory needed at once."""
    rows = max(1, BAND_PIXELS // max(1, pixels.shape[1]))
    return [slice(first, first + rows) for first in range(0, len(pixels), rows)]


def _count(classes: np.ndarray, count: int) -> np.ndarray:
    """Return the number of pixels of each class below `count`."""
    flat = classes.ravel()
    counts = np.zeros(count, np.int64)
    for first in range(0, len(flat), BAND_PIXELS):
        counts += np.bincount(flat[first : first + BAND_PIXELS], minlength=count)[:count]
    return counts


def class_color(index: int, labels: Sequence[str]) -> str:
    """Return the colour of a class as `#rrggbb`; black for a background class."""
    return "#000000" if index == 0 and _has_background(labels) else shaded_color(index)


def _colors(labels: Sequence[str]) -> np.ndarray:
    """Return the colours of the 256 class numbers, float32 [256, 3]; void is light grey."""
    colors = [rgb(class_color(index, labels)) for index in range(VOID)]
    return np.array([*colors, (224, 224, 224)], np.float32)


def _has_background(labels: Sequence[str]) -> bool:
    return bool(labels) and labels[0].strip().lower() in BACKGROUNDS


def map_record(found: ClassMap | None) -> dict[str, Any]:
    """Return the width, height and areas of a picture as plain values; empty for a prediction without a map."""
    if found is None:
        return {}
    record: dict[str, Any] = {
        "width": found.width,
        "height": found.height,
        "areas": [dict(vars(area)) for area in found.areas],
    }
    if found.overlaps is not None:
        record["overlaps"] = [dict(vars(overlap)) for overlap in found.overlaps]
    return record


def read_map_record(record: dict[str, Any]) -> dict[str, Any]:
    """Parse the field `map` of a prediction. Raises KeyError, TypeError or ValueError if it is malformed."""
    if "areas" not in record:
        return {}
    overlaps = record.get("overlaps")
    class_map = ClassMap(
        width=record["width"],
        height=record["height"],
        areas=tuple(ClassArea(**area) for area in record["areas"]),
        preview=record.get("preview", ""),
        overlaps=None if overlaps is None else tuple(Overlap(**overlap) for overlap in overlaps),
    )
    numbers = [class_map.width, class_map.height, *(area.pixels for area in class_map.areas)]
    if any(type(number) is not int for number in numbers) or type(class_map.preview) is not str:
        raise ValueError
    return {"map": class_map}
