"""Thumbnails of the input pictures, embedded in the HTML page."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

    from ...inference.box import Box
    from ...inference.class_maps import ClassMap

DRAWN_SIDE = 480  # maximum side in pixels of a picture with boxes and labels
SIDE = 56  # maximum side in pixels of a thumbnail
MOST_PIXELS = 40_000_000  # larger pictures are not opened again for a thumbnail


def thumbnail(name: str) -> str | None:
    """Return a picture of at most SIDE pixels as a PNG data URL, or None if there is no readable file of that name."""
    small = _small(name, SIDE)
    return None if small is None else _data_url(small, "PNG")


def drawn_thumbnail(name: str, boxes: Sequence[Box], size: tuple[int, int] | None) -> str | None:
    """Return a picture of `size` with its boxes drawn, of at most DRAWN_SIDE pixels, as a JPEG data URL. Returns None
    under the same conditions as `thumbnail`."""
    from ...inference.drawing import draw_boxes

    small = None if size is None else _small(name, DRAWN_SIDE)
    return None if small is None or size is None else _data_url(draw_boxes(small, boxes, size), "JPEG")


def map_thumbnail(name: str, found: ClassMap, labels: Sequence[str]) -> str | None:
    """Return a picture with its classes in colour as a data URL: only the colours if the picture is unreadable, None if
    there is no class map."""
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
    """Return a small upright copy of a picture on a white background, or None if there is no readable file of that
    name."""
    from PIL import Image, ImageOps

    if not os.path.isfile(name):
        return None
    try:
        with Image.open(name) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                return None
            picture.draft("RGB", (side, side))
            small = ImageOps.exif_transpose(picture).convert("RGBA")
    except Exception:  # decoders may raise any exception; the page then omits the picture
        return None
    small.thumbnail((side, side))
    sheet = Image.new("RGBA", small.size, "white")
    sheet.alpha_composite(small)
    return sheet.convert("RGB")


def _data_url(image: Image.Image, form: str) -> str:
    file = io.BytesIO()
    image.save(file, form)
    return f"data:image/{form.lower()};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
