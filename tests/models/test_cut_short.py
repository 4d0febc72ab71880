"""PNG and JPEG files that end before their last row."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image
from trninfer.models.cut_short import FILLS, load
from trninfer.models.errors import InputError
from trninfer.models.preprocess import open_image

MODES = ("1", "L", "LA", "RGB", "RGBA", "I;16")


def picture(mode: str, size: tuple[int, int], value: int) -> Image.Image:
    if mode == "I;16":
        return Image.fromarray(np.full(size[::-1], value, np.uint16))
    return Image.new(
        mode, size, 255 * (value & 1) if mode == "1" else (value,) * len(Image.new(mode, (1, 1)).getbands())
    )


def png(image: Image.Image, share: float = 1.0) -> bytes:
    """A PNG file with the first rows alone, whose data and checksums are otherwise right."""
    file = io.BytesIO()
    image.save(file, "PNG")
    content = file.getvalue()
    found, data, position = content[:8], b"", 8
    while position < len(content):
        length = int.from_bytes(content[position : position + 4], "big")
        kind, body = content[position + 4 : position + 8], content[position + 8 : position + 8 + length]
        position += 12 + length
        if kind == b"IDAT":
            data += body
            continue
        if kind == b"IEND":
            rows = zlib.decompress(data)
            found += chunk(b"IDAT", zlib.compress(rows[: round(share * len(rows))]))
        found += chunk(kind, body)
    return found


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [(7, 2), (9, 9), (40, 31), (33, 64), (5, 1)])
def test_whole_pictures_are_whole_whatever_their_last_row_is(mode: str, size: tuple[int, int]) -> None:
    for value in (0, 1, 255, *FILLS):
        image = picture(mode, size, value)
        file = io.BytesIO(png(image))
        opened = Image.open(file)
        assert load(opened, file) and np.array_equal(np.asarray(opened), np.asarray(image))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_pictures_without_their_last_rows_are_refused(mode: str, share: float) -> None:
    for value in (0, 255, *FILLS):
        with pytest.raises(InputError, match="a corrupt or truncated picture"):
            open_image(io.BytesIO(png(picture(mode, (40, 31), value), share)))


def jpeg(image: Image.Image, height: int | None = None, **options: Any) -> bytes:
    """A JPEG file, with the height of its header changed."""
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    content = bytearray(file.getvalue())
    frame = max(content.find(b"\xff\xc0"), content.find(b"\xff\xc2"))
    if height is not None:
        content[frame + 5 : frame + 7] = struct.pack(">H", height)
    return bytes(content)


JPEGS = {"baseline": {}, "full colours": {"subsampling": 0}, "progressive": {"progressive": True}}


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("options", JPEGS.values(), ids=JPEGS)
def test_jpegs_without_their_last_rows_are_refused(mode: str, options: dict[str, Any]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (16, 61, 3), np.uint8)
    image = Image.fromarray(noise).convert(mode)
    assert open_image(io.BytesIO(jpeg(image, **options))).size == (61, 16)
    for content in (jpeg(image, 400, **options), jpeg(image, 40, **options)):
        with pytest.raises(InputError, match="a corrupt or truncated picture"):
            open_image(io.BytesIO(content))
    whole = jpeg(image, **options)
    with pytest.raises(InputError, match="a corrupt or truncated picture"):
        open_image(io.BytesIO(whole[: whole.find(b"\xff\xda") + 60] + b"\xff\xd9"))


@pytest.mark.parametrize("size", [(1, 1), (8, 8), (17, 33), (64, 3)])
@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
def test_grey_jpegs_are_whole(mode: str, size: tuple[int, int]) -> None:
    for value in (126, 127, 128, 129):
        for options in JPEGS.values():
            content = jpeg(picture(mode, size, value), **options)
            assert open_image(io.BytesIO(content + b"behind the end")).size == size
