"""Small pictures of the inputs of a page, inside it."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

    from ...inference.class_maps import ClassMap
    from ...inference.detections import Box

DRAWN_SIDE = 480  # of a picture with boxes and their labels
SIDE = 56  # pixels, at the most
MOST_PIXELS = 40_000_000  # of a picture that is opened once more for it


def thumbnail(name: str) -> str | None:
    """A picture as a data URL of PNG, SIDE pixels at the most; None where it cannot be read as a file of that name."""
    small = _small(name, SIDE)
    return None if small is None else _data_url(small, "PNG")


def drawn_thumbnail(name: str, boxes: Sequence[Box], size: tuple[int, int] | None) -> str | None:
    """A picture of `size` with its boxes drawn as a data URL of JPEG, DRAWN_SIDE pixels at the most; None as above."""
    from ...inference.drawing import draw_boxes

    small = None if size is None else _small(name, DRAWN_SIDE)
    return None if small is None or size is None else _data_url(draw_boxes(small, boxes, size), "JPEG")


def map_thumbnail(name: str, found: ClassMap, labels: Sequence[str]) -> str | None:
    """A picture with its classes in colour as a data URL; the colours alone where it cannot be read, None as above
    without a map."""
    import numpy as np
    from PIL import Image

    from ...inference.class_maps import overlay

    if not found.preview:
        return thumbnail(name)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(found.preview))))
    size = (pixels.shape[1], pixels.shape[0])
    small = _small(name, max(size))
    sheet = Image.new("RGB", size, "white") if small is None else small.resize(size)
    return _data_url(overlay(sheet, pixels, labels), "PNG")


def _small(name: str, side: int) -> Image.Image | None:
    """A small copy of a picture, upright, on white; None where it cannot be read as a file of that name."""
    from PIL import Image, ImageOps

    if not os.path.isfile(name):
        return None
    try:
        with Image.open(name) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                return None
            picture.draft("RGB", (side, side))
            small = ImageOps.exif_transpose(picture).convert("RGBA")
    except Exception:  # whatever a picture can do to a reader: the page does without it
        return None
    small.thumbnail((side, side))
    sheet = Image.new("RGBA", small.size, "white")
    sheet.alpha_composite(small)
    return sheet.convert("RGB")


def _data_url(image: Image.Image, form: str) -> str:
    file = io.BytesIO()
    image.save(file, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
