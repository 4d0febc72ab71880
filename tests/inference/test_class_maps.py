"""Class maps of pictures: nearest-neighbour resizing, counting, comparing and drawing."""

import base64
import io
import tracemalloc

import numpy as np
import pytest
from PIL import Image
from trninfer.inference import class_maps
from trninfer.inference.class_maps import (
    Overlap,
    class_color,
    compare,
    overlay,
    palette_picture,
    read_map,
    to_picture,
    void_of,
)
from trninfer.models.frame import frame_of
from trninfer.models.inputs import ImageInput

LABELS = ("background", "cat", "dog")


def spec(mode: str, resize: int = 8) -> ImageInput:
    return ImageInput(3, 8, 8, "photo", (0.0,) * 3, (1.0,) * 3, resize=resize, resize_mode=mode)


@pytest.mark.parametrize("size", [(8, 8), (16, 16), (5, 3), (31, 17), (1, 40)])
def test_a_squashed_picture_has_the_nearest_class_everywhere(size: tuple[int, int]) -> None:
    classes = np.arange(64).reshape(8, 8) % 3
    found = to_picture(classes, frame_of(spec("squash"), *size), (8, 8), 3)
    assert found.shape == size[::-1] and found.dtype == np.uint8
    rows, columns = (((np.arange(side) + 0.5) * 8 / side).astype(int) for side in size[::-1])
    np.testing.assert_array_equal(found, classes[rows][:, columns])


def test_a_map_coarser_than_the_image_is_as_large_as_the_picture() -> None:
    classes = np.array([[0, 1], [2, 1]])
    found = to_picture(classes, frame_of(spec("squash"), 8, 8), (8, 8), 3)
    np.testing.assert_array_equal(found, classes.repeat(4, 0).repeat(4, 1))


def test_pixels_that_were_cut_off_have_no_class_and_padding_is_no_pixel() -> None:
    cut = to_picture(np.ones((8, 8)), frame_of(spec("crop"), 16, 8), (8, 8), 3)
    assert (cut[:, 4:12] == 1).all() and (cut[:, :4] == 255).all() and (cut[:, 12:] == 255).all()
    padded = to_picture(np.arange(8)[:, None].repeat(8, 1), frame_of(spec("pad"), 16, 8), (8, 8), 8)
    assert padded.shape == (8, 16) and padded[:, 0].tolist() == [2, 2, 3, 3, 4, 4, 5, 5]


def test_more_than_255_classes_take_16_bits() -> None:
    found = to_picture(np.full((8, 8), 999), frame_of(spec("squash"), 4, 4), (8, 8), 1000)
    assert (found == 999).all() and palette_picture(found, ()).mode == "I;16" and void_of(found.dtype) == 65535


def test_areas_and_the_small_map_of_an_answer() -> None:
    pixels = np.zeros((30, 400), np.uint8)
    pixels[:, :100], pixels[:, 390:] = 2, 255
    found = read_map(pixels, LABELS)
    assert [(area.label, area.pixels) for area in found.areas] == [("background", 8700), ("dog", 3000)]
    assert sum(area.share for area in found.areas) == pytest.approx(0.975)
    assert found.text == "background 72.5 %, dog 25.0 %"
    small = Image.open(io.BytesIO(base64.b64decode(found.preview)))
    assert small.mode == "P" and max(small.size) <= 160 and set(np.unique(small)) == {0, 2, 255}


def test_overlaps_leave_out_what_has_no_right_class() -> None:
    pixels = np.array([[0, 0, 1, 1], [2, 2, 255, 1]], np.uint8)
    right = np.array([[0, 1, 1, 255], [2, 0, 1, 255]])
    assert compare(pixels, right, 3) == (Overlap(0, 2, 2, 1), Overlap(1, 1, 3, 1), Overlap(2, 2, 1, 1))


def test_a_palette_picture_keeps_class_numbers(tmp_path) -> None:
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4)
    palette_picture(pixels, LABELS).save(tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        assert picture.mode == "P"
        np.testing.assert_array_equal(np.asarray(picture), pixels)
        assert picture.convert("RGB").getpixel((0, 0)) == (0, 0, 0)
    assert len({class_color(index, ()) for index in range(24)}) == 24


def test_an_overlay_colours_classes_but_no_background() -> None:
    picture = Image.new("RGB", (9, 9), (10, 200, 30))
    pixels = np.zeros((9, 9), np.uint8)
    pixels[:, 5:] = 1
    drawn = np.asarray(overlay(picture, pixels, LABELS))
    assert drawn[0, 0].tolist() == [10, 200, 30] and drawn[0, 5].tolist() == [255] * 3
    assert drawn[0, 8].tolist() != [10, 200, 30]
    assert np.asarray(overlay(picture, pixels, ("wall", "sky")))[0, 0].tolist() != [10, 200, 30]


@pytest.mark.parametrize("labels", [LABELS, ("wall", "sky"), tuple(map(str, range(300)))])
def test_bands_change_nothing(labels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    dtype = np.uint16 if len(labels) > 255 else np.uint8
    pixels = random.integers(0, len(labels) + 1, (40, 31)).astype(dtype)
    pixels[pixels == len(labels)] = np.iinfo(dtype).max
    right = random.integers(0, len(labels), (40, 31))
    picture = Image.fromarray(random.integers(0, 256, (40, 31, 3), np.uint8))
    whole = np.asarray(overlay(picture, pixels, labels)), read_map(pixels, labels), compare(pixels, right, len(labels))
    monkeypatch.setattr(class_maps, "BAND_PIXELS", 100)
    bands = np.asarray(overlay(picture, pixels, labels)), read_map(pixels, labels), compare(pixels, right, len(labels))
    assert np.array_equal(whole[0], bands[0]) and whole[1:] == bands[1:]


def test_large_maps_take_a_few_bytes_for_each_pixel() -> None:
    pixels = np.zeros((3000, 3000), np.uint8)
    picture = Image.new("RGB", (3000, 3000))
    tracemalloc.start()
    try:
        overlay(picture, pixels, LABELS)
        read_map(pixels, LABELS)
        compare(pixels, pixels, 3)
        assert tracemalloc.get_traced_memory()[1] < 16 * pixels.size
    finally:
        tracemalloc.stop()
