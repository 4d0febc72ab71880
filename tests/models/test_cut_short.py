"""Truncated PNG, JPEG and TIFF files."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, TiffImagePlugin
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
    """Return a PNG file that contains only the first rows, with valid data and checksums."""
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
    """Return a JPEG file with a modified height in its header."""
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


def progressive(image: Image.Image) -> bytes:
    return jpeg(image, progressive=True, quality=90)


@pytest.mark.parametrize("scans", range(1, 6))
def test_progressive_jpegs_without_their_last_scans_are_refused(scans: int) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (48, 61), np.uint8))
    content = progressive(noise)
    starts = [place for place in range(len(content)) if content[place : place + 2] == b"\xff\xda"]
    assert len(starts) == 6 and open_image(io.BytesIO(content)).size == (61, 48)
    with pytest.raises(InputError, match="a corrupt or truncated picture"):
        open_image(io.BytesIO(content[: starts[scans]] + b"\xff\xd9"))


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("kind", ["white", "black", "grey", "noise"])
def test_jpegs_with_restart_markers_are_refused_if_cut(kind: str, share: float) -> None:
    values = {"white": 255, "black": 0, "grey": 128}
    pixels = np.full((80, 96, 3), values.get(kind, 0), np.uint8)
    if kind == "noise":
        pixels = np.random.default_rng(0).integers(0, 256, pixels.shape, np.uint8)
    content = jpeg(Image.fromarray(pixels), restart_marker_rows=1)
    assert open_image(io.BytesIO(content)).size == (96, 80)
    scan = content.find(b"\xff\xda") + 14
    with pytest.raises(InputError, match="a corrupt or truncated picture"):
        open_image(io.BytesIO(content[: scan + round(share * (len(content) - scan))] + b"\xff\xd9"))


TIFFS = {"group3": "1", "group4": "1", "jpeg": "RGB", "tiff_lzw": "RGB", "tiff_adobe_deflate": "L", "packbits": "L"}


def tiff(image: Image.Image, codec: str, share: float = 1.0) -> bytes:
    """Return a TIFF file whose directory states a shorter last strip than was written."""
    file = io.BytesIO()
    image.save(file, "TIFF", compression=codec)
    content = bytearray(file.getvalue())
    (directory,) = struct.unpack_from("<I", content, 4)
    (entries,) = struct.unpack_from("<H", content, directory)
    for entry in range(directory + 2, directory + 2 + 12 * entries, 12):
        tag, kind, number, value = struct.unpack_from("<HHII", content, entry)
        if tag == 279:
            form, size = ("<H", 2) if kind == 3 else ("<I", 4)
            place = (entry + 8 if number * size <= 4 else value) + (number - 1) * size
            struct.pack_into(form, content, place, int(struct.unpack_from(form, content, place)[0] * share))
    return bytes(content)


@pytest.mark.parametrize("codec", TIFFS)
@pytest.mark.parametrize("rows", [16, 80])
def test_tiffs_with_a_short_strip_are_refused(
    codec: str, rows: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (80, 96, 3), np.uint8)
    image = Image.fromarray(noise).convert(TIFFS[codec])
    row_bytes = 12 if TIFFS[codec] == "1" else 96 * len(image.getbands())
    monkeypatch.setattr(TiffImagePlugin, "STRIP_SIZE", rows * row_bytes)
    assert open_image(io.BytesIO(tiff(image, codec))).size == (96, 80)
    for share in (0.05, 0.5, 0.9):
        with pytest.raises(InputError, match="a corrupt or truncated picture"):
            open_image(io.BytesIO(tiff(image, codec, share)))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("codec", ["group3", "group4", "jpeg"])
def test_whole_tiffs_are_whole(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    for size in ((1, 1), (17, 40), (64, 33), (90, 7)):
        for pixels in (np.zeros(size), np.full(size, 255), random.integers(0, 256, size)):
            image = Image.fromarray(pixels.astype(np.uint8)).convert(TIFFS[codec])
            monkeypatch.setattr(TiffImagePlugin, "STRIP_SIZE", 16 * size[1] * 3)
            assert open_image(io.BytesIO(tiff(image, codec))).size == size[::-1]


def test_a_fax_strip_without_its_last_rows_but_with_its_end_is_refused() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 96), np.uint8)).convert("1")
    content = bytearray(tiff(noise, "group4"))
    for tag in (257, 278):  # height, and rows per strip
        (entry,) = (place for kind in (3, 4) if (place := content.find(struct.pack("<HHI", tag, kind, 1))) >= 0)
        struct.pack_into("<H", content, entry + 8, 90)
    with pytest.raises(InputError, match="a corrupt or truncated picture"):
        open_image(io.BytesIO(bytes(content)))
