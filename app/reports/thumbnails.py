"""Small pictures of the inputs of a page, inside it."""

from __future__ import annotations

import base64
import io
import os

SIDE = 56  # pixels, at the most
MOST_PIXELS = 40_000_000  # of a picture that is opened once more for it


def thumbnail(name: str) -> str | None:
    """A picture as a data URL of PNG, SIDE pixels at the most; None where it cannot be read as a file of that name."""
    from PIL import Image

    if not os.path.isfile(name):
        return None
    try:
        with Image.open(name) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                return None
            picture.draft("RGB", (SIDE, SIDE))
            small = picture.convert("RGBA")
    except Exception:  # whatever a picture can do to a reader: the page does without it
        return None
    small.thumbnail((SIDE, SIDE))
    sheet = Image.new("RGBA", small.size, "white")
    sheet.alpha_composite(small)
    file = io.BytesIO()
    sheet.convert("RGB").save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
