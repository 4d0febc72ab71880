"""Pictures: supported formats, errors of one line, and that "digit" finds the digit in any light."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from PIL.PngImagePlugin import PngImageFile
from trninfer.models import ImageInput
from trninfer.models import preprocess as module
from trninfer.models.preprocess import FORMATS, InputError, decode_image, open_image, picture_size, preprocess

SPEC = ImageInput(1, 32, 32, "digit", (0.0,), (1.0,))
PAPER, PEN = (235, 232, 225), (30, 30, 60)


def draw(
    text: str = "4",
    size: tuple[int, int] = (240, 180),
    at: tuple[int, int] = (120, 90),
    height: int = 100,
    paper: tuple[int, int, int] = PAPER,
    pen: tuple[int, int, int] = PEN,
) -> Image.Image:
    picture = Image.new("RGB", size, paper)
    font = ImageFont.load_default(height)
    ImageDraw.Draw(picture).text(at, text, fill=pen, font=font, anchor="mm")
    return picture


def light(picture: Image.Image, shape) -> Image.Image:
    pixels = np.asarray(picture, np.float32)
    x, y = np.meshgrid(np.linspace(-1, 1, picture.width), np.linspace(-1, 1, picture.height))
    return Image.fromarray((pixels * shape(x, y)[:, :, None]).astype(np.uint8))


def noise(picture: Image.Image, deviation: float) -> Image.Image:
    pixels = np.asarray(picture, np.float32)
    noisy = pixels + np.random.default_rng(0).normal(0, deviation, pixels.shape)
    return Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8))


def framed(picture: Image.Image) -> Image.Image:
    box = (6, 6, picture.width - 7, picture.height - 7)
    ImageDraw.Draw(picture).rectangle(box, outline="black", width=3)
    return picture


def beside_a_dark_desk(picture: Image.Image) -> Image.Image:
    ImageDraw.Draw(picture).rectangle((0, 0, 40, picture.height), fill=(25, 20, 20))
    return picture


def with_specks(picture: Image.Image) -> Image.Image:
    pen = ImageDraw.Draw(picture)
    for x, y in np.random.default_rng(1).integers(0, [picture.width, picture.height], (40, 2)).tolist():
        pen.ellipse((x, y, x + 2, y + 2), fill="black")
    return picture


def likeness(picture: Image.Image, text: str = "4") -> float:
    """Return the correlation between the network's inputs for a picture and for the plain digit."""
    got, plain = preprocess(picture, SPEC), preprocess(draw(text), SPEC)
    return float(np.corrcoef(got.ravel(), plain.ravel())[0, 1])


DIFFICULT = {
    "light on dark": draw(paper=(20, 40, 30), pen=(230, 230, 220)),
    "white on black": draw(paper=(0, 0, 0), pen=(255, 255, 255)),
    "small in a large picture": draw(size=(1600, 1200), at=(1350, 220), height=70),
    "filling the picture": draw(size=(64, 84), at=(32, 42), height=100),
    "red on green of the same brightness": draw(paper=(0, 110, 0), pen=(200, 10, 10)),
    "faint": draw(paper=(150, 150, 150), pen=(115, 115, 115)),
    "light from the side": light(draw(), lambda x, y: 0.6 + 0.4 * x),
    "a lamp's spot": light(draw(), lambda x, y: 0.2 + 0.8 * np.exp(-((x - 0.4) ** 2 + (y + 0.4) ** 2) / 0.7)),
    "the edge of a shadow": light(draw(), lambda x, y: np.where(x + y > -0.6, 1.0, 0.45)),
    "a soft shadow": light(draw(), lambda x, y: 0.4 + 0.6 / (1 + np.exp(-(x + y) / 0.2))),
    "noise": noise(draw(), 25),
    "noise in bad light": noise(light(draw(), lambda x, y: 0.6 - 0.35 * y), 10),
    "blur": draw(height=60).filter(ImageFilter.GaussianBlur(2.5)),
    "a frame": framed(draw()),
    "a desk beside the paper": beside_a_dark_desk(draw(at=(150, 90))),
    "specks": with_specks(draw()),
}


@pytest.mark.parametrize("picture", DIFFICULT.values(), ids=DIFFICULT.keys())
def test_the_digit_is_found_and_looks_as_it_should(picture: Image.Image) -> None:
    assert likeness(picture) > 0.9


def test_likeness_reports_digits_apart() -> None:
    assert max(likeness(draw(digit)) for digit in "012356789") < 0.8


@pytest.mark.parametrize("text", list("0123456789"))
def test_digit_is_centred_and_scaled(text: str) -> None:
    result = preprocess(draw(text), SPEC)
    assert result.shape == (1, 32, 32)
    assert result.dtype == np.float32
    assert result.min() == 0
    assert 0.9 < result.max() <= 1
    rows, columns = np.nonzero(result[0] > 0.3)
    height = rows.max() - rows.min() + 1
    assert 22 <= height <= 26
    assert min(rows.min(), columns.min()) >= 1
    assert max(rows.max(), columns.max()) <= 30
    mass = result[0] / result.sum()
    assert abs((mass.sum(1) * np.arange(32)).sum() - 15.5) < 0.75
    assert abs((mass.sum(0) * np.arange(32)).sum() - 15.5) < 0.75


def test_mean_and_deviation_are_applied() -> None:
    plain = preprocess(draw(), SPEC)
    shifted = preprocess(draw(), ImageInput(1, 32, 32, "digit", (0.5,), (0.25,)))
    np.testing.assert_allclose(shifted, (plain - 0.5) / 0.25, rtol=1e-6)


def as_mode(mode: str) -> Image.Image:
    picture = draw()
    if mode == "I;16":
        deep = np.asarray(picture.convert("L"), np.uint16) * 200 + 700
        return Image.fromarray(deep)
    if mode in ("I", "F"):
        return Image.fromarray(np.asarray(picture.convert("L"), np.int32 if mode == "I" else np.float32) * 3 - 40)
    if mode == "PA":
        return picture.quantize(16).convert("PA")
    if mode == "LAB":
        return Image.merge("LAB", (picture.convert("L"), *(Image.new("L", picture.size, 128),) * 2))
    return picture.convert(mode)


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I;16", "I", "F"]
)
def test_every_mode(mode: str) -> None:
    assert as_mode(mode).mode == mode
    assert likeness(as_mode(mode)) > 0.95


@pytest.mark.parametrize("tone", [0, 128, 255])
def test_ink_on_nothing(tone: int) -> None:
    """A transparent picture that contains only ink, dark or light."""
    ink = Image.eval(draw(paper=(255,) * 3, pen=(0,) * 3).convert("L"), lambda value: 255 - value)
    picture = Image.new("RGBA", ink.size, (tone, tone, tone, 0))
    picture.putalpha(ink)
    assert likeness(picture) > 0.95


def test_not_a_number_in_a_float_picture() -> None:
    values = np.asarray(draw().convert("L"), np.float32).copy()
    values[0, 0], values[5, 9] = np.nan, np.inf
    assert likeness(Image.fromarray(values)) > 0.95


@pytest.mark.parametrize(
    "picture",
    [
        Image.new("RGB", (300, 200), PAPER),
        Image.new("L", (40, 40), 0),
        noise(Image.new("RGB", (300, 200), (120, 120, 120)), 12),
        light(Image.new("RGB", (300, 200), PAPER), lambda x, y: 0.7 + 0.3 * x * y),
        Image.new("RGBA", (64, 64), (0, 0, 0, 0)),
        Image.new("F", (64, 64), float("nan")),
    ],
    ids=["paper", "black", "noise", "uneven light", "transparent", "not a number"],
)
def test_a_blank_picture(picture: Image.Image) -> None:
    with pytest.raises(
        InputError, match=r"no ink found: (the picture is blank|no ink can be distinguished from the noise)"
    ):
        preprocess(picture, SPEC)


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (4, 4)])
def test_a_picture_too_small(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=f"no ink found: a picture of {size[0]}x{size[1]} pixels is too small"):
        preprocess(Image.new("L", size), SPEC)


@pytest.mark.parametrize("size", [(8_000_000, 8), (8, 8_000_000)])
def test_a_picture_too_narrow(size: tuple[int, int]) -> None:
    with pytest.raises(InputError, match=f"no ink found: a picture of {size[0]}x{size[1]} pixels is too narrow"):
        preprocess(Image.new("L", size), SPEC)


@settings(max_examples=60, deadline=None)
@given(pixels=hnp.arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 4]))))
@pytest.mark.filterwarnings("error")
def test_any_picture_gives_an_image_or_an_input_error(pixels: np.ndarray) -> None:
    picture = Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[:, :, 0])
    try:
        result = preprocess(picture, SPEC)
    except InputError as error:
        assert str(error).startswith(("no ink found", "several digits or signs"))
    else:
        assert result.shape == (1, 32, 32)
        assert 0 <= result.min() < result.max() <= 1


@pytest.mark.parametrize("text", ["7 3", "42", "7      3", "1 0", "8 8", "8:3", "5 A", "cat", "7\n3"])
@pytest.mark.parametrize("height", [24, 60])
def test_several_digits_are_reported(text: str, height: int) -> None:
    picture = Image.new("RGB", (height * 8, height * 4), PAPER)
    font = ImageFont.load_default(height)
    ImageDraw.Draw(picture).text((height * 4, height * 2), text, fill=PEN, font=font, anchor="mm", align="center")
    with pytest.raises(
        InputError, match=r"^several digits or signs; this network reads one digit \(trninfer detect finds several\)$"
    ):
        preprocess(picture, SPEC)


def test_several_digits_are_reported_in_bad_light() -> None:
    pair = draw("7 3", size=(320, 180), at=(160, 90), height=80)
    for shape in (lambda x, y: 0.6 + 0.4 * x, lambda x, y: 0.4 + 0.6 / (1 + np.exp(-(x + y) / 0.2))):
        with pytest.raises(InputError, match="several digits"):
            preprocess(noise(light(pair, shape), 6), SPEC)


def test_a_large_digit_far_from_another_is_not_dropped() -> None:
    picture = draw("4", size=(600, 300), at=(80, 100))
    ImageDraw.Draw(picture).text((500, 200), "9", fill=PEN, font=ImageFont.load_default(80), anchor="mm")
    with pytest.raises(InputError, match="several digits"):
        preprocess(picture, SPEC)


def broken(cuts: list[tuple[int, int, int, int]], text: str) -> Image.Image:
    """Return a digit 100 pixels high with gaps, as from a stencil or a dry pen."""
    picture = draw(text)
    for box in cuts:
        ImageDraw.Draw(picture).rectangle(box, fill=PAPER)
    return picture


@pytest.mark.parametrize(
    "picture",
    [
        broken([(117, 0, 122, 180)], "0"),  # the halves of a stencilled 0
        broken([(0, 70, 240, 75)], "5"),
        broken([(0, 88, 240, 92)], "8"),
        broken([(0, 100, 240, 104)], "4"),
    ],
    ids=["a stencilled 0", "a 5 without its neck", "a cut 8", "a cut 4"],
)
def test_the_parts_of_a_broken_digit_are_one(picture: Image.Image) -> None:
    assert preprocess(picture, SPEC).max() > 0.9


def test_a_digit_of_seven_segments_is_whole() -> None:
    """Each segment is close to the next one, and far from the segment on the other side."""
    picture = Image.new("L", (240, 240), 230)
    for box in ((80, 50, 150, 60), (68, 64, 78, 116), (152, 64, 162, 116), (68, 124, 78, 176), (152, 124, 162, 176)):
        ImageDraw.Draw(picture).rectangle(box, fill=40)
    ImageDraw.Draw(picture).rectangle((80, 180, 150, 190), fill=40)
    image = preprocess(picture, SPEC)[0]
    assert all(part.max() > 0.6 for part in (image[:6], image[-6:], image[:, :12], image[:, -12:]))


@pytest.mark.parametrize("lamp", [0.5, 0.7])
def test_a_lamp_that_lights_the_paper_around_a_digit_is_no_ink(lamp: float) -> None:
    """The light is larger than the digit, and contrasts as strongly with the dark corners."""
    y, x = np.mgrid[-1:1:176j, -1:1:158j]
    light = 0.4 + 0.6 * np.exp(-(x * x + y * y) / lamp)
    ink = Image.new("L", (158, 176))
    ImageDraw.Draw(ink).text((79, 88), "8", fill=255, font=ImageFont.load_default(50), anchor="mm")
    paper = 0.9 - 0.6 * np.asarray(ink, np.float32) / 255
    image = preprocess(Image.fromarray((255 * paper * light).astype(np.uint8)), SPEC)[0]
    alone = preprocess(Image.fromarray((255 * paper).astype(np.uint8)), SPEC)[0]
    assert np.corrcoef(image.ravel(), alone.ravel())[0, 1] > 0.95


def smiley(pen: int) -> Image.Image:
    picture = Image.new("L", (200, 200), 255)
    face = ImageDraw.Draw(picture)
    face.ellipse((20, 20, 180, 180), outline=0, width=pen)
    for x in (75, 125):
        face.ellipse((x - 10, 70, x + 10, 90), fill=0)
    face.arc((60, 60, 140, 150), 20, 160, fill=0, width=pen)
    return picture


@pytest.mark.parametrize("pen", [4, 8, 12])
def test_content_of_a_ring_is_kept(pen: int) -> None:
    """Otherwise a face would be a 0, and a 0 with a dot inside would change."""
    image = preprocess(smiley(pen), SPEC)[0]
    assert image[11:15, 11:15].max() > 0.5 and image[11:15, 18:22].max() > 0.5  # its eyes
    assert image[18:25, 13:19].max() > 0.5  # and its mouth


def test_a_filled_dot_below_is_kept() -> None:
    image = preprocess(draw("?"), SPEC)[0]
    rows = np.flatnonzero(image.max(axis=1) > 0.5)
    assert np.diff(rows).max() > 1  # the dot of a question mark is separate


def encoded(kind: str, picture: Image.Image | None = None) -> bytes:
    buffer = io.BytesIO()
    (picture or draw()).save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM"])
def test_formats(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(encoded(kind))
    assert likeness(open_image(path)) > 0.95
    assert likeness(open_image(io.BytesIO(encoded(kind)))) > 0.95


def test_exif_orientation(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # displayed after a quarter turn clockwise
    path = tmp_path / "sideways.jpg"
    draw().transpose(Image.Transpose.ROTATE_90).save(path, exif=exif)
    assert likeness(open_image(path)) > 0.95


def test_damaged_exif_data_leave_the_picture_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = io.BytesIO()
    draw().save(damaged, "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x02\x01\x12\0\x03\xff\xff\xff\xff\0\0")
    assert likeness(open_image(damaged)) > 0.95

    def raises(_: Image.Image) -> Image.Image:
        raise struct.error("unpack requires a buffer of 12 bytes")

    monkeypatch.setattr(module.ImageOps, "exif_transpose", raises)  # as in some releases of Pillow
    assert likeness(open_image(damaged)) > 0.95


class Pipe(io.RawIOBase):
    """A stream that cannot seek."""

    def __init__(self, content: bytes) -> None:
        self.content = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self.content.read(size)

    def seekable(self) -> bool:
        return False


def test_a_stream_that_cannot_seek(monkeypatch: pytest.MonkeyPatch) -> None:
    assert likeness(open_image(Pipe(encoded("PNG")))) > 0.95
    monkeypatch.setattr(module, "MAX_STREAM_BYTES", 1 << 20)
    with pytest.raises(InputError, match="more than 1 MiB of data"):
        open_image(Pipe(bytes(2 << 20)))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG header that states a size, without pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "^an empty file$"),
        (b"%PDF-1.4\n", "^a PDF file, which is not supported; save the picture as PNG$"),
        (b'<?xml version="1.0"?>\n<svg width="9"></svg>', "^an SVG drawing, which is not supported"),
        (b"<!doctype html>\n<html lang=en>", "^a web page, which is not supported"),
        (b"just text, whatever its name", "not a picture in a known format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not a picture in a known format"),
        (b"\0\0\0\x18ftypheic" + bytes(100), "^HEIC pictures are not supported; save the picture as JPEG or PNG$"),
        (b"\0\0\0\x18ftypavif" + bytes(100), "^(a corrupt or truncated picture|AVIF pictures)"),
        (encoded("PNG")[:-200], "^a corrupt or truncated picture$"),
        (encoded("JPEG")[:1500], "corrupt or truncated"),
        (encoded("GIF")[:500], "corrupt or truncated"),
        (png_header(200, 200), "corrupt or truncated"),
        (png_header(10_000, 10_000), "too large: 10000x10000 is 100 megapixels; at most 64 are allowed"),
        (png_header(100_000, 100_000), "^too large: at most 64 megapixels are allowed$"),
    ],
)
def test_file_that_is_not_a_picture_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InputError, match=says) as error:
            open_image(path)
    assert "\n" not in str(error.value)


def test_irregular_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        open_image(tmp_path / "missing.png")
    for name in ("x" * 5000, "nul\0byte"):
        with pytest.raises(InputError, match="cannot be read"):
            open_image(name)
    with pytest.raises(InputError, match="not a regular file"):
        open_image(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):  # opening it would wait for a writer forever
        open_image(tmp_path / "pipe")


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"]))
def test_damage_is_an_input_error_or_a_picture(data: st.DataObject, kind: str) -> None:
    damaged = bytearray(encoded(kind, draw(size=(24, 18), at=(12, 9), height=10)))
    for _ in range(data.draw(st.integers(1, 6))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        picture = open_image(io.BytesIO(bytes(damaged)))
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert picture.width * picture.height <= module.MAX_PIXELS


def test_a_row_of_millions_of_pixels_is_refused_by_its_header() -> None:
    with pytest.raises(InputError, match=r"too large: 63000000x1 .* sides of at most 65,535"):
        open_image(io.BytesIO(b"P5 63000000 1 255\n" + b"\0" * 1000))


@pytest.mark.skipif("AVIF" not in FORMATS, reason="this Pillow reads no AVIF")
def test_avif_is_read_where_pillow_reads_it(tmp_path: Path) -> None:
    picture = Image.effect_noise((64, 48), 40)
    picture.save(tmp_path / "x.avif")
    assert open_image(tmp_path / "x.avif").size == (64, 48)
    (tmp_path / "x.avif").write_bytes((tmp_path / "x.avif").read_bytes()[:-200])
    with pytest.raises(InputError, match="corrupt or truncated"):
        open_image(tmp_path / "x.avif")


def test_a_picture_that_pillow_has_opened_is_decoded_or_refused() -> None:
    buffer = io.BytesIO()
    Image.effect_noise((50, 50), 30).save(buffer, "png")
    whole = Image.open(io.BytesIO(buffer.getvalue()))
    assert decode_image(whole).size == (50, 50)
    with pytest.raises(InputError, match="corrupt or truncated"):
        decode_image(Image.open(io.BytesIO(buffer.getvalue()[:-900])))
    with pytest.raises(InputError, match="too large: 70000x1"):
        decode_image(Image.new("L", (70_000, 1)))


@pytest.mark.parametrize("size", [(64, 64), (200, 200), (600, 400)])
def test_noise_is_not_called_blank(size: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    for pixels in (random.integers(0, 256, size[::-1], np.uint8), random.integers(0, 256, (*size[::-1], 3), np.uint8)):
        with pytest.raises(InputError, match="no ink found: no ink can be distinguished from the noise"):
            preprocess(Image.fromarray(pixels), SPEC)


def test_the_size_of_a_picture_that_is_too_large_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    loaded = []
    monkeypatch.setattr(PngImageFile, "load", lambda image: loaded.append(image))
    assert picture_size(file.getvalue()) is None and not loaded
