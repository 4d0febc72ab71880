"""The "photo" preprocessing against what torchvision's presets do, written out in Pillow and NumPy."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from trninfer.models import ImageInput, ModelError
from trninfer.models.preprocess import InputError, open_image, preprocess

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def spec(height: int = 32, width: int = 32, resize: int = 37, channels: int = 3) -> ImageInput:
    return ImageInput(channels, height, width, "photo", MEAN[:channels], STD[:channels], resize)


def picture(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Smooth colours with noise over them."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (5, 6, 4), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse, "RGBA").resize((width, height), Image.Resampling.BICUBIC), np.float32)
    values = np.clip(smooth + random.normal(0, 10, smooth.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(values, "RGBA").convert(mode)


def reference(image: Image.Image, source: ImageInput) -> np.ndarray:
    """Resize(resize), CenterCrop((height, width)), ToTensor(), Normalize(mean, std) of torchvision, on Pillow."""
    width, height = image.size
    if width < height:
        size = (source.resize, int(source.resize * height / width))
    else:
        size = (int(source.resize * width / height), source.resize)
    image = image.resize(size, Image.Resampling.BILINEAR)
    top = round((size[1] - source.height) / 2.0)
    left = round((size[0] - source.width) / 2.0)
    pixels = np.asarray(image)[top : top + source.height, left : left + source.width]
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    values = pixels.astype(np.float32).transpose(2, 0, 1) / np.float32(255)
    mean, std = (np.array(each, np.float32)[:, None, None] for each in (source.mean, source.std))
    return (values - mean) / std


def through_a_file(image: Image.Image, form: str = "PNG", **options: object) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    stream.seek(0)
    return open_image(stream)


@given(
    size=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    height=st.integers(1, 60),
    width=st.integers(1, 60),
    extra=st.integers(0, 40),
    mode=st.sampled_from(["RGB", "L"]),
    seed=st.integers(0, 99),
)
def test_any_size(size: tuple[int, int], height: int, width: int, extra: int, mode: str, seed: int) -> None:
    source = spec(height, width, max(height, width) + extra, channels=len(mode) // 2 * 2 + 1)
    image = picture(*size, mode, seed)
    result = preprocess(image, source)
    assert result.dtype == np.float32 and result.shape == source.shape
    np.testing.assert_allclose(result, reference(image, source), rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "LA", "P", "1", "CMYK"])
def test_any_mode_is_read_as_colour_and_as_grey(mode: str) -> None:
    image = picture(90, 70).convert(mode) if mode in ("P", "1", "CMYK") else picture(90, 70, mode)
    opened = through_a_file(image, "TIFF" if mode == "CMYK" else "PNG")
    assert opened.mode == mode
    for channels, as_mode in ((3, "RGB"), (1, "L")):
        expected = reference(image.convert(as_mode), spec(channels=channels))
        np.testing.assert_allclose(preprocess(opened, spec(channels=channels)), expected, rtol=0, atol=1e-6)


def test_transparency_is_left_out_as_torchvision_leaves_it_out() -> None:
    image = picture(60, 60)
    clear = image.copy()
    clear.putalpha(0)
    np.testing.assert_array_equal(preprocess(through_a_file(clear), spec()), preprocess(image, spec()))
    palette = image.convert("P", palette=Image.Palette.ADAPTIVE)
    expected = preprocess(palette.convert("RGB"), spec())
    opened = through_a_file(palette, transparency=bytes(range(256)))
    assert opened.mode == "P" and "transparency" in opened.info
    np.testing.assert_array_equal(preprocess(opened, spec()), expected)


def test_sixteen_bits_of_grey_keep_their_shades() -> None:
    grey = picture(80, 50, "L")
    deep = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    opened = through_a_file(deep)
    assert opened.mode.startswith("I")
    np.testing.assert_allclose(preprocess(opened, spec()), reference(grey.convert("RGB"), spec()), rtol=0, atol=1e-6)


def test_a_photo_is_turned_upright_first() -> None:
    image = picture(80, 50)
    exif = Image.Exif()
    exif[0x0112] = 6  # turn a quarter clockwise to see it upright
    opened = through_a_file(image, exif=exif.tobytes())
    expected = reference(image.transpose(Image.Transpose.ROTATE_270), spec())
    np.testing.assert_allclose(preprocess(opened, spec()), expected, rtol=0, atol=1e-6)


def test_channels_are_red_green_blue() -> None:
    values = preprocess(Image.new("RGB", (40, 40), (255, 0, 0)), spec())
    expected = [(1 - MEAN[0]) / STD[0], -MEAN[1] / STD[1], -MEAN[2] / STD[2]]
    np.testing.assert_allclose(values[:, 0, 0], expected, rtol=1e-6)


def test_what_cannot_be_a_photo() -> None:
    with pytest.raises(InputError, match="a picture of 1x60000 pixels is too narrow"):
        preprocess(Image.new("L", (1, 60_000)), spec(resize=64))
    with pytest.raises(InputError, match="floating point"):
        preprocess(Image.new("F", (40, 40)), spec())


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: spec(64, 32, 60), "resize is 60; 64 to"),
        (lambda: ImageInput(2, 8, 8, "photo", (0.0,) * 2, (1.0,) * 2, 8), "channels is 2; a photo has 3"),
        (lambda: ImageInput(1, 8, 8, "digit", (0.0,), (1.0,), 8), "resize is 8; 0 to 0"),
    ],
)
def test_inputs_that_do_not_fit_together(build, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        build()
