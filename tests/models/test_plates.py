"""Round plates: the sign on a disc, a ring or a ball is read, and other round shapes are unchanged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from trninfer.models import ImageInput
from trninfer.models.ink import InkError, find_blob
from trninfer.models.plates import find_plate
from trninfer.models.preprocess import InputError, preprocess

SPEC = ImageInput(1, 32, 32, "digit", (0.0,), (1.0,))
Pen = ImageDraw.ImageDraw


def picture(paint: Callable[[Pen], None], text: str = "", pen: str = "black", height: int = 100) -> Image.Image:
    made = Image.new("RGB", (240, 240), "white")
    canvas = ImageDraw.Draw(made)
    paint(canvas)
    canvas.text((120, 120), text, fill=pen, font=ImageFont.load_default(height), anchor="mm")
    return made


def button(pen: Pen) -> None:
    pen.ellipse((20, 20, 220, 220), fill=(0, 120, 215))


def road_sign(pen: Pen) -> None:
    pen.rectangle((0, 0, 240, 240), fill=(130, 170, 210))
    pen.ellipse((10, 10, 230, 230), fill="white", outline=(200, 0, 0), width=24)


def ball(pen: Pen) -> None:
    pen.rectangle((0, 0, 240, 240), fill=(10, 100, 50))
    pen.ellipse((15, 15, 225, 225), fill=(200, 20, 20))
    pen.ellipse((60, 60, 180, 180), fill="white")


def ring(pen: Pen) -> None:
    pen.ellipse((30, 30, 210, 210), outline="black", width=8)


def house_number(pen: Pen) -> None:
    pen.ellipse((10, 50, 230, 190), fill=(245, 240, 220), outline=(30, 30, 90), width=6)


PLATES = {
    "an oval house number": (house_number, "black", 80),
    "a button": (button, "white", 100),
    "a road sign": (road_sign, "black", 110),
    "a ball, a plate on a plate": (ball, "black", 70),
    "a ring": (ring, "black", 110),
}


@pytest.mark.parametrize("text", ["1", "2", "4", "7", "8"])
@pytest.mark.parametrize(("paint", "pen", "height"), PLATES.values(), ids=PLATES)
def test_the_digit_on_a_plate_is_what_the_network_gets(
    paint: Callable[[Pen], None], pen: str, height: int, text: str
) -> None:
    got = preprocess(picture(paint, text, pen, height), SPEC)
    plain = preprocess(picture(lambda _: None, text, "black", height), SPEC)
    assert np.corrcoef(got.ravel(), plain.ravel())[0, 1] > 0.95


def wide_zero(pen: Pen) -> None:
    pen.ellipse((30, 10, 210, 230), fill="black")
    pen.ellipse((95, 60, 145, 180), fill="white")


def dotted_zero(pen: Pen) -> None:
    pen.ellipse((30, 10, 210, 230), outline="black", width=16)
    pen.ellipse((105, 100, 135, 140), fill="black")


def slashed_zero(pen: Pen) -> None:
    pen.ellipse((30, 10, 210, 230), outline="black", width=16)
    pen.line((70, 200, 170, 40), fill="black", width=14)


def wide_slashed_zero(pen: Pen) -> None:
    pen.ellipse((10, 30, 230, 210), fill="black")
    pen.ellipse((60, 55, 180, 185), fill="white")
    pen.line((70, 160, 170, 80), fill="black", width=24)


def rings(pen: Pen) -> None:
    for radius in (100, 60, 20):
        pen.ellipse((120 - radius, 120 - radius, 120 + radius, 120 + radius), outline="black", width=12)


ROUND = {
    "a disc": lambda pen: pen.ellipse((20, 20, 220, 220), fill="black"),
    "a ring of nothing": ring,
    "a bold 0": wide_zero,
    "a 0 with a dot": dotted_zero,
    "a 0 with a slash": slashed_zero,
    "a wide 0 with a slash": wide_slashed_zero,
    "rings": rings,
    "a square": lambda pen: pen.rectangle((40, 40, 200, 200), fill="black"),
}


@pytest.mark.parametrize("paint", ROUND.values(), ids=ROUND)
def test_round_digit_is_not_a_plate(paint: Callable[[Pen], None]) -> None:
    pixels = np.asarray(picture(paint), np.float32) / np.float32(255)
    assert find_plate(pixels, find_blob(pixels)) is None


def test_a_face_on_a_disc_is_no_ring() -> None:
    def face(pen: Pen) -> None:
        pen.ellipse((20, 20, 220, 220), fill=(255, 210, 0))
        pen.ellipse((75, 80, 95, 100), fill="black")
        pen.ellipse((145, 80, 165, 100), fill="black")
        pen.arc((70, 90, 170, 175), 20, 160, fill="black", width=10)

    mouth = preprocess(picture(lambda pen: pen.arc((70, 90, 170, 175), 20, 160, fill="black", width=10)), SPEC)
    got = preprocess(picture(face), SPEC)
    assert np.corrcoef(got.ravel(), mouth.ravel())[0, 1] > 0.8


def test_noise_in_a_ring_is_no_sign() -> None:
    made = np.asarray(picture(ring), np.float32) / np.float32(255)
    noisy = (made + np.random.default_rng(0).normal(0, 0.05, made.shape)).clip(0, 1).astype(np.float32)
    assert find_plate(noisy, find_blob(noisy)) is None


def test_the_ground_is_the_plate_without_its_rim() -> None:
    pixels = np.asarray(picture(ring, "4"), np.float32) / np.float32(255)
    plate = find_plate(pixels, find_blob(pixels))
    assert plate is not None
    assert plate.share < 1 - 8 / 90  # of the ring's radius
    ground = plate.ground(pixels)
    assert ground.shape == (plate.box.height, plate.box.width, 3)
    np.testing.assert_array_equal(ground[0], 1)  # white, like the inside of the ring
    assert ground.min() < 0.1  # contains the digit


@pytest.mark.parametrize(("paint", "pen"), [(button, "white"), (road_sign, "black")])
def test_several_digits_on_a_plate_are_several(paint: Callable[[Pen], None], pen: str) -> None:
    with pytest.raises(InputError, match="several digits"):
        preprocess(picture(paint, "50", pen, 80), SPEC)


def test_a_disc_of_any_size() -> None:
    for side in range(3, 40):
        pixels = np.ones((48, 48, 1), np.float32)
        y, x = np.indices((side, side)) - (side - 1) / 2
        pixels[4 : 4 + side, 4 : 4 + side, 0][x * x + y * y <= side * side / 4] = 0
        pixels[4 + side // 2, 4 + side // 2] = 0.9
        try:
            blob = find_blob(pixels)
        except InkError:  # too small to be ink
            assert side < 8
        else:
            assert find_plate(pixels, blob) is None, side


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P"])
@pytest.mark.parametrize("side", [64, 127, 129, 513])
def test_plates_of_any_size_and_mode(mode: str, side: int) -> None:
    made = picture(button, "4", "white").resize((side, side)).convert(mode)
    plain = preprocess(picture(lambda _: None, "4"), SPEC)
    assert np.corrcoef(preprocess(made, SPEC).ravel(), plain.ravel())[0, 1] > 0.9
