"""Pictures with drawn boxes."""

import tracemalloc

import numpy as np
import pytest
from PIL import Image
from trninfer.inference.box import Box
from trninfer.inference.detections import encode_mask
from trninfer.inference.drawing import SMALL, draw_boxes
from trninfer.inference.palette import rgb, series_color


def test_a_box_has_the_colour_of_its_class_and_the_rest_stays():
    picture = Image.new("RGB", (800, 600), "white")
    drawn = np.asarray(draw_boxes(picture, [Box("cat", 2, 0.9, 100, 200, 300, 500)], (800, 600)))
    assert tuple(drawn[350, 100]) == tuple(drawn[350, 299]) == tuple(drawn[499, 200]) == rgb(series_color(2))
    assert (drawn[350, 150:250] == 255).all() and (drawn[:, 400:] == 255).all() and (drawn[510:] == 255).all()
    assert (drawn[180:200, 100:200] != 255).any()  # the label above the box


def test_a_small_picture_is_enlarged_and_boxes_with_it():
    drawn = draw_boxes(Image.new("L", (60, 30)), [Box("a", 0, 1.0, 30, 15, 60, 30)], (60, 30))
    assert drawn.size == (SMALL, SMALL // 2)
    assert drawn.getpixel((240, 200)) == rgb(series_color(0))


def test_masks_are_laid_over_the_picture():
    mask = encode_mask(np.ones((10, 10), bool), 5, 5, 500, 20)
    drawn = np.asarray(
        draw_boxes(Image.new("RGB", (500, 20)), [Box("a", 0, 1.0, 400, 5, 420, 15, (), mask)], (500, 20))
    )
    assert drawn[10, 10].any() and not drawn[10, 30].any()


@pytest.mark.parametrize("corners", [(0, 0, 3, 3), (790, 590, 800, 600), (0, 0, 800, 600), (400, 300, 400, 300)])
def test_labels_stay_in_the_picture_and_apart(corners):
    boxes = [Box(f"a label {n}", n, 0.5, *corners, keypoints=((5.0, 5.0, 0.9), (1.0, 1.0, 0.1))) for n in range(3)]
    drawn = np.asarray(draw_boxes(Image.new("RGB", (800, 600), "white"), boxes, (800, 600)))
    colours = {tuple(colour) for colour in drawn.reshape(-1, 3)}
    seen = [rgb(series_color(n)) in colours for n in range(3)]
    assert seen[0] and all(seen) == (corners != (790, 590, 800, 600))  # unless there is no room for three


def test_masks_of_large_pictures_take_a_few_bytes_for_each_pixel():
    mask = encode_mask(np.ones((1500, 3000), bool), 0, 0, 3000, 3000)
    picture = Image.new("RGB", (3000, 3000))
    tracemalloc.start()
    try:
        drawn = draw_boxes(picture, [Box("a", 0, 1.0, 0, 0, 3000, 1500, (), mask)], (3000, 3000))
        assert tracemalloc.get_traced_memory()[1] < 5 * 9_000_000
    finally:
        tracemalloc.stop()
    assert drawn.getpixel((1000, 1000)) != (0, 0, 0) == drawn.getpixel((1000, 2000))
