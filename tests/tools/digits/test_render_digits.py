"""Pictures of digits are reproducible, completely inside the picture, and legible."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw
from trninfer.tools.digits import render_digits
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.render_digits import (
    INK_SIDE,
    SMALL,
    USUAL,
    change_strokes,
    collect,
    distort_ink,
    fit_ink,
    font_ink,
    font_picture,
    handwriting_picture,
    photograph,
    plain_handwriting,
    try_preprocess,
)

FONTS = {"Aileron": [PILLOW_DEFAULT]}
EIGHT = font_ink(8, PILLOW_DEFAULT)


@pytest.mark.parametrize("box", [(3, 4, 12, 30), (0, 0, 1, 1), (10, 10, 90, 14), (5, 5, 6, 80)])
def test_ink_is_cut_out_and_scaled_by_its_longer_side(box: tuple[int, int, int, int]) -> None:
    canvas = Image.new("L", (100, 100))
    ImageDraw.Draw(canvas).rectangle((box[0], box[1], box[2] - 1, box[3] - 1), fill=255)
    wide, high = box[2] - box[0], box[3] - box[1]
    ink = fit_ink(canvas)
    scale = INK_SIDE / max(wide, high)
    assert ink.size == (max(1, round(wide * scale)), max(1, round(high * scale))) and np.asarray(ink).min() == 255


def test_no_ink_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^no ink$"):
        fit_ink(Image.new("L", (10, 10)))
    with pytest.raises(ValueError, match=r"^no ink$"):
        font_ink(" ", PILLOW_DEFAULT)


@pytest.mark.parametrize("text", [*range(10), "WW"])
def test_a_text_in_a_font_touches_all_four_sides(text: int | str) -> None:
    ink = font_ink(text, PILLOW_DEFAULT)
    assert max(ink.size) == INK_SIDE and np.asarray(ink).max() == 255
    left, top, right, bottom = ink.point(lambda tone: 255 * (tone > 127)).getbbox()
    assert max(left, top, ink.width - right, ink.height - bottom) <= 2  # except for smoothing


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), size=st.floats(28, 110), digit=st.integers(0, 9))
def test_distorted_ink_is_wholly_inside_its_canvas(seed: int, size: float, digit: int) -> None:
    rng = np.random.default_rng(seed)
    canvas = (round(size * rng.uniform(1.5, 3.2)), round(size * rng.uniform(1.5, 3.2)))
    ink = np.asarray(distort_ink(font_ink(digit, PILLOW_DEFAULT), size, canvas, rng))
    assert ink.shape == canvas[::-1] and ink.max() > 128
    assert max(edge.max() for edge in (ink[0], ink[-1], ink[:, 0], ink[:, -1])) < 16
    rows, columns = np.nonzero(ink > 128)
    assert 0.6 * size < max(np.ptp(rows), np.ptp(columns)) < 1.6 * size


def test_strokes_become_thicker_thinner_or_stay_and_never_break() -> None:
    amounts = []
    hairline = Image.new("L", (INK_SIDE, INK_SIDE))
    ImageDraw.Draw(hairline).line((0, 0, 191, 191), fill=255, width=3)
    area = np.asarray(EIGHT, np.float32).sum()
    for seed in range(60):
        changed = change_strokes(EIGHT, np.random.default_rng(seed))
        margin = (changed.width - EIGHT.width) // 2
        assert changed.size == (EIGHT.width + 2 * margin, EIGHT.height + 2 * margin) and margin <= INK_SIDE // 30
        amounts.append(float(np.asarray(changed, np.float32).sum() / area))
        assert (amounts[-1] > 1) == (margin > 0)
        thin = np.asarray(change_strokes(hairline, np.random.default_rng(seed)), np.float32)
        assert thin.sum() >= 0.6 * np.asarray(hairline, np.float32).sum()
    shares = [sum(a > 1 for a in amounts), sum(a < 1 for a in amounts), sum(a == 1 for a in amounts)]
    assert min(shares) >= 8 and shares[2] >= 18  # a quarter, a quarter and half of 60


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("sizes", [USUAL, SMALL])
def test_a_photograph_can_be_told_from_its_paper(colour: bool, sizes: tuple[float, float]) -> None:
    lighter = 0
    for seed in range(20):
        picture = photograph(EIGHT, np.random.default_rng(seed), colour, sizes)
        pixels = np.asarray(picture, np.float32)
        assert picture.mode == ("RGB" if colour else "L")
        assert 1.5 * sizes[0] - 1 <= min(picture.size) and max(picture.size) <= 3.2 * sizes[1] + 1
        assert np.ptp(pixels.reshape(-1, pixels.shape[2] if colour else 1), axis=0).max() > 25
        rim = np.concatenate([pixels[0], pixels[-1]])
        lighter += rim.mean() > pixels[pixels.shape[0] // 2].mean()
    assert 3 <= lighter <= 17  # dark on light, and light on dark


def test_light_and_tones_are_within_bounds() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        light = render_digits.light_on((30, 20), rng)
        assert light.shape == (20, 30) and 0.34 <= light.min() <= light.max() <= 1
        for channels in (1, 3):
            dark, bright = render_digits.two_tones(rng, channels)
            assert dark.shape == bright.shape == (channels,) and bright.mean() - dark.mean() > 0.15
            assert np.abs(bright - dark).max() >= 0.25 and 0 <= min(dark.min(), bright.min()) <= bright.max() <= 1


@pytest.mark.parametrize("stream", ["training fonts", "small training fonts"])
def test_a_picture_depends_on_its_stream_and_number_alone(stream: str) -> None:
    (first, digit), (again, _), (other, _) = (font_picture(stream, number, FONTS) for number in (17, 17, 27))
    np.testing.assert_array_equal(np.asarray(first), np.asarray(again))
    assert digit == 7 and first.size != other.size
    assert (max(first.size) <= 3.2 * SMALL[1] + 1) or stream == "training fonts"
    elsewhere, _ = font_picture("held-out fonts", 17, FONTS)
    assert elsewhere.size != first.size or (np.asarray(elsewhere) != np.asarray(first)).any()


FEATURES = np.zeros((3, 8, 8), np.float32)
FEATURES[:, 1:7, 3:5] = 16
FEATURES = FEATURES.reshape(3, 64)


def test_handwriting_goes_round_the_digits_that_there_are() -> None:
    labels = np.array([4, 5, 6], np.int32)
    assert [handwriting_picture(number, FEATURES, labels)[1] for number in (0, 2, 4)] == [4, 6, 5]


def test_a_rendering_has_what_was_not_refused_in_order() -> None:
    images = [np.full((1, 32, 32), number, np.float32) for number in range(3)]
    made = collect([(images[0], 7), (None, 8), (images[2], 9)])
    assert made.labels.tolist() == [7, 9] and made.numbers.tolist() == [0, 2] and made.refused == 1
    assert made.images.shape == (2, 1, 32, 32) and made.images[1, 0, 0, 0] == 2


def test_plain_handwriting_and_a_blank_cell() -> None:
    made = plain_handwriting(np.concatenate([FEATURES[:1], np.zeros((1, 64), np.float32)]), np.array([1, 2]))
    assert made.labels.tolist() == [1] and made.refused == 1 and made.images[0].max() > 0.9
    assert try_preprocess(Image.new("L", (60, 60), 255)) is None


def test_a_sheet_has_a_place_for_each_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render_digits, "find_fonts", lambda families: FONTS)
    monkeypatch.setattr(render_digits, "load_split", lambda: ((FEATURES, np.array([1, 1, 1])), None))
    render_digits.draw_sheet(tmp_path / "sheet.png", rows=1, columns=2)
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size == (408, 102)
        parts = [np.asarray(sheet.crop((left, 0, left + 100, 100)).convert("L")) for left in (0, 102, 204, 306)]
    assert all(np.ptp(part) > 40 for part in parts)
