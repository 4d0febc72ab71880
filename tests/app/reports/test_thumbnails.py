"""Thumbnails embedded in a page."""

import base64
import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trninfer.app.reports import thumbnails
from trninfer.app.reports.thumbnails import SIDE, thumbnail


def opened(url: str | None) -> Image.Image:
    assert url is not None and url.startswith("data:image/png;base64,")
    return Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))


@pytest.mark.parametrize(
    ("size", "small"), [((560, 280), (56, 28)), ((1, 3), (1, 3)), ((57, 56), (56, 55)), ((3000, 2), (56, 1))]
)
def test_no_side_is_longer_than_allowed(tmp_path: Path, size, small) -> None:
    Image.new("RGB", size, (10, 200, 30)).save(tmp_path / "x.png")
    found = opened(thumbnail(str(tmp_path / "x.png")))
    assert found.size == small and max(found.size) <= SIDE and found.getpixel((0, 0)) == (10, 200, 30)


def test_transparent_pixels_become_white(tmp_path: Path) -> None:
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0] = (255, 0, 0, 255)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    found = opened(thumbnail(str(tmp_path / "x.png")))
    assert found.mode == "RGB" and found.getpixel((0, 0)) == (255, 0, 0) and found.getpixel((1, 1)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "I;16"])
def test_modes_of_pictures(tmp_path: Path, mode: str) -> None:
    Image.new(mode, (4, 4)).save(tmp_path / "x.tiff")
    assert opened(thumbnail(str(tmp_path / "x.tiff"))).size == (4, 4)


def test_unreadable_picture_has_no_thumbnail(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\njunk")
    os.mkfifo(tmp_path / "pipe")
    for name in ("x.png", "missing.png", "pipe", "."):
        assert thumbnail(str(tmp_path / name)) is None
    assert thumbnail("-") is None and thumbnail("https://host.example/a.png") is None
    Image.new("L", (4, 4)).save(tmp_path / "large.png")
    monkeypatch.setattr(thumbnails, "MOST_PIXELS", 15)
    assert thumbnail(str(tmp_path / "large.png")) is None
    monkeypatch.setattr(thumbnails, "MOST_PIXELS", 16)
    assert thumbnail(str(tmp_path / "large.png")) is not None
