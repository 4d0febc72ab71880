"""The "photo" preprocessing, compared with torchvision's presets implemented in Pillow and NumPy."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from trninfer.models import ImageInput, ModelError
from trninfer.models.inputs import describe_input, read_input
from trninfer.models.photo import resize_linear
from trninfer.models.preprocess import InputError, open_image, preprocess

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def spec(height: int = 32, width: int = 32, resize: int = 37, channels: int = 3) -> ImageInput:
    return ImageInput(channels, height, width, "photo", MEAN[:channels], STD[:channels], resize)


def picture(width: int, height: int, mode: str = "RGB", seed: int = 0) -> Image.Image:
    """Return smooth colours with noise."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (5, 6, 4), np.uint8)
    smooth = np.asarray(Image.fromarray(coarse, "RGBA").resize((width, height), Image.Resampling.BICUBIC), np.float32)
    values = np.clip(smooth + random.normal(0, 10, smooth.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(values, "RGBA").convert(mode)


def reference(image: Image.Image, source: ImageInput) -> np.ndarray:
    """Apply torchvision's Resize(resize), CenterCrop((height, width)), ToTensor(), Normalize(mean, std), using
    Pillow."""
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
    exif[0x0112] = 6  # to be rotated a quarter turn clockwise for display
    opened = through_a_file(image, exif=exif.tobytes())
    expected = reference(image.transpose(Image.Transpose.ROTATE_270), spec())
    np.testing.assert_allclose(preprocess(opened, spec()), expected, rtol=0, atol=1e-6)


def test_channels_are_red_green_blue() -> None:
    values = preprocess(Image.new("RGB", (40, 40), (255, 0, 0)), spec())
    expected = [(1 - MEAN[0]) / STD[0], -MEAN[1] / STD[1], -MEAN[2] / STD[2]]
    np.testing.assert_allclose(values[:, 0, 0], expected, rtol=1e-6)


def test_channel_order_bgr_turns_the_colours_and_nothing_else() -> None:
    image = picture(90, 70)
    source = spec()
    turned = dataclasses.replace(source, channel_order="bgr", mean=MEAN[::-1], std=STD[::-1])
    np.testing.assert_array_equal(preprocess(image, turned), preprocess(image, source)[::-1])
    blue = preprocess(Image.new("RGB", (40, 40), (0, 0, 255)), dataclasses.replace(source, channel_order="bgr"))
    assert blue[0, 0, 0] == pytest.approx((1 - MEAN[0]) / STD[0])  # for the first channel, which is blue
    assert blue[2, 0, 0] == pytest.approx(-MEAN[2] / STD[2])


@given(
    size=st.tuples(st.integers(1, 200), st.integers(1, 200)),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    extra=st.integers(0, 20),
    filter=st.sampled_from(["nearest", "bilinear", "bicubic", "lanczos"]),
)
def test_squashing_is_a_resize_of_both_sides(size, height: int, width: int, extra: int, filter: str) -> None:
    side = max(height, width)
    source = dataclasses.replace(spec(height, width, side + extra), resize_mode="squash", filter=filter)
    image = picture(*size)
    scale = (side + extra) / side
    whole = (round(width * scale), round(height * scale))
    resized = np.asarray(image.resize(whole, Image.Resampling[filter.upper()]), np.float32)
    top, left = round((whole[1] - height) / 2), round((whole[0] - width) / 2)
    pixels = resized[top : top + height, left : left + width].transpose(2, 0, 1) / np.float32(255)
    expected = (pixels - np.array(MEAN)[:, None, None]) / np.array(STD)[:, None, None]
    np.testing.assert_allclose(preprocess(image, source), expected, atol=1e-5)


@given(
    size=st.tuples(st.integers(1, 200), st.integers(1, 200)), sides=st.tuples(st.integers(1, 40), st.integers(1, 40))
)
def test_padding_keeps_the_whole_picture_and_its_shape(size, sides: tuple[int, int]) -> None:
    source = ImageInput(3, *sides, "photo", (0.0,) * 3, (1.0,) * 3, max(sides), resize_mode="pad")
    values = preprocess(Image.new("RGB", size, (255, 255, 255)), source)
    rows, columns = (values[0] > 0.5).any(axis=1), (values[0] > 0.5).any(axis=0)
    scale = min(sides[0] / size[1], sides[1] / size[0])
    assert rows.sum() == max(1, round(size[1] * scale)) and columns.sum() == max(1, round(size[0] * scale))
    assert rows.all() or columns.all()  # one side is filled
    for filled in (rows, columns):
        before, after = np.argmax(filled), np.argmax(filled[::-1])
        assert abs(int(before) - int(after)) <= 1 and filled[before : len(filled) - after].all()


def test_modes_and_filters_are_kept_in_the_file_and_left_out_at_their_defaults() -> None:
    plain = spec()
    assert "resize_mode" not in describe_input(plain) and "filter" not in describe_input(plain)
    for changes in ({"resize_mode": "squash"}, {"filter": "lanczos"}, {"resize_mode": "pad", "filter": "nearest"}):
        changed = dataclasses.replace(plain, **changes)
        assert read_input(describe_input_json(changed)) == changed


def describe_input_json(source: ImageInput) -> object:
    return json.loads(json.dumps(describe_input(source)))


def test_invalid_photo_options_are_refused() -> None:
    with pytest.raises(InputError, match="a picture of 1x60000 pixels is too narrow"):
        preprocess(Image.new("L", (1, 60_000)), spec(resize=64))
    with pytest.raises(InputError, match="floating-point"):
        preprocess(Image.new("F", (40, 40)), spec())


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: spec(64, 32, 60), "resize is 60; 64 to"),
        (lambda: ImageInput(2, 8, 8, "photo", (0.0,) * 2, (1.0,) * 2, 8), "channels must be 3"),
        (lambda: ImageInput(1, 8, 8, "digit", (0.0,), (1.0,), 8), "resize is 8; 0 to 0"),
        (
            lambda: dataclasses.replace(spec(), resize_mode="fill"),
            "resize_mode is 'fill'; allowed: crop",
        ),
        (lambda: dataclasses.replace(spec(), filter="box"), "filter is 'box'; allowed: nearest"),
        (lambda: ImageInput(1, 8, 8, "digit", (0.0,), (1.0,), filter="lanczos"), "filter is 'lanczos'"),
    ],
)
def test_inputs_that_do_not_fit_together(build, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        build()


def two_taps(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Interpolate bilinearly without antialiasing, in float64; OpenCV's INTER_LINEAR rounds the result."""

    def weights(source: int, target: int) -> np.ndarray:
        centres = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
        return np.maximum(0, 1 - np.abs(np.arange(source) - centres[:, None]))

    values = np.tensordot(weights(pixels.shape[0], height), pixels.astype(np.float64), 1)
    return np.moveaxis(np.tensordot(weights(pixels.shape[1], width), values, (1, 1)), 0, 1)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.sampled_from([(), (3,)]))
def test_a_linear_filter_is_that_of_opencv(before: int, above: int, width: int, height: int, channels: tuple) -> None:
    pixels = np.random.default_rng(before * above).integers(0, 256, (above, before, *channels), np.uint8)
    found = resize_linear(pixels, width, height)
    assert found.shape == (height, width, *channels)
    assert np.abs(found - two_taps(pixels, width, height)).max() < 1
    # Computed with OpenCV 5.0: `cv2.resize(pixels, (3, 2))`.
    assert resize_linear(np.arange(20, dtype=np.uint8).reshape(4, 5) * 12, 3, 2).tolist() == [
        [34, 54, 74],
        [154, 174, 194],
    ]


def test_a_letterbox_has_its_colour_around_the_picture() -> None:
    white = Image.new("RGB", (40, 10), "white")
    plain = ImageInput(
        3, 20, 20, "photo", (0.0,) * 3, (1.0,) * 3, 20, resize_mode="pad", filter="linear", pad_colour=51
    )
    middle = preprocess(white, plain)
    assert [float(middle[0, row, 0]) for row in (0, 6, 7, 11, 12, 19)] == pytest.approx([0.2, 0.2, 1, 1, 0.2, 0.2])
    corner = preprocess(white, dataclasses.replace(plain, pad_place="corner"))
    assert [float(corner[0, row, 0]) for row in (0, 4, 5, 19)] == pytest.approx([1, 1, 0.2, 0.2])
    grey = preprocess(white.convert("L"), dataclasses.replace(plain, channels=1, mean=(0.0,), std=(1.0,)))
    assert grey.shape == (1, 20, 20) and grey[0, 0, 0] == pytest.approx(0.2)
