"""Pictures of non-digits are drawn from the families of their split, and are reproducible."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image, ImageDraw
from trninfer.tools.digits import render_nondigits
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.lookalikes import Lookalikes
from trninfer.tools.digits.render_digits import font_ink, try_preprocess
from trninfer.tools.digits.render_nondigits import COUNTS, GROUPS, PARTS, SIDES, NonDigits


@pytest.fixture
def nondigits(monkeypatch: pytest.MonkeyPatch) -> NonDigits:
    """Draw the held-out split with Pillow's font instead of all text fonts."""
    monkeypatch.setattr(render_nondigits, "find_fonts", lambda families: {"Aileron": [PILLOW_DEFAULT]})
    look = Lookalikes([font_ink(digit, PILLOW_DEFAULT) for digit in range(10)])
    monkeypatch.setattr(render_nondigits, "lookalikes", lambda: look)
    made = NonDigits("held-out")
    made.__dict__["_handwriting"] = np.random.default_rng(0).uniform(0, 16, (5, 64)).astype(np.float32)
    return made


def test_every_side_has_pictures_of_every_group() -> None:
    assert set(COUNTS) == set(SIDES)
    assert all(len(counts) == len(GROUPS) and min(counts) > 0 for counts in COUNTS.values())


@pytest.mark.parametrize("group", ["drawings", "parts of digits", "several digits"])
def test_a_picture_depends_on_its_number_alone(nondigits: NonDigits, group: str) -> None:
    first, other, again = (np.asarray(nondigits.picture(group, index)) for index in (3, 4, 3))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


def test_rows_of_digits_are_reported_or_wide(nondigits: NonDigits) -> None:
    images = [try_preprocess(nondigits.picture("several digits", index)) for index in range(20)]
    assert sum(image is None for image in images) >= 12
    for image in images:
        if image is not None and render_nondigits._teaches(image, "several digits"):
            rows, columns = np.nonzero(image[0] > 0.2)
            assert np.ptp(columns) >= render_nondigits.ROW_ASPECT * np.ptp(rows)


def test_a_digit_teaches_nothing_of_what_is_none(nondigits: NonDigits) -> None:
    seven = np.asarray(font_ink(7, PILLOW_DEFAULT), np.float32)[None] / 255
    letter = np.asarray(font_ink("M", PILLOW_DEFAULT), np.float32)[None] / 255
    assert not render_nondigits._teaches(seven, "letters")
    assert render_nondigits._teaches(letter, "letters")


def test_a_sign_that_may_pass_for_a_digit_is_drawn_again() -> None:
    with pytest.raises(ValueError, match="may pass for a digit"):
        render_nondigits._any_sign("\u13da", np.random.default_rng(0))
    assert render_nondigits._any_sign("A", np.random.default_rng(0)) == "A"


def test_the_ink_of_an_emoji_is_what_differs_from_white() -> None:
    drawing = Image.new("RGBA", (40, 40))
    ImageDraw.Draw(drawing).ellipse((5, 5, 24, 34), fill=(250, 200, 90, 255), outline=(120, 0, 0, 255))
    ink = render_nondigits._contrast(drawing)
    assert abs(ink.height / ink.width - 1.5) < 0.02
    values = np.asarray(ink)
    assert values.max() > 200 and 20 < values[ink.height // 2, ink.width // 2] < 120


def test_no_part_is_a_whole_digit_and_none_of_a_1() -> None:
    assert 1 not in PARTS and 7 not in PARTS
    assert "r" not in PARTS[4]  # a 1
    assert "t" not in PARTS[8] and "t" not in PARTS[9] and "b" not in PARTS[6]  # each a 0
    assert math.prod(len(where) for where in PARTS.values()) > 0
