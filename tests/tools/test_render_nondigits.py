"""Pictures of what is no digit: drawn from the families of their side, and always the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from trninfer.tools import render_nondigits
from trninfer.tools.fonts import PILLOW_DEFAULT
from trninfer.tools.render_digits import font_ink, try_preprocess
from trninfer.tools.render_nondigits import COUNTS, GROUPS, PARTS, SIDES, NonDigits
from trninfer.tools.signs import Lookalikes


@pytest.fixture
def nondigits(monkeypatch: pytest.MonkeyPatch) -> NonDigits:
    """The held-out side with Pillow's font in the place of all fonts for text."""
    monkeypatch.setattr(render_nondigits, "find_fonts", lambda families: {"Aileron": [PILLOW_DEFAULT]})
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


def test_rows_of_digits_are_told_or_wide(nondigits: NonDigits) -> None:
    images = [try_preprocess(nondigits.picture("several digits", index)) for index in range(20)]
    assert sum(image is None for image in images) >= 12
    look = Lookalikes([font_ink(digit, PILLOW_DEFAULT) for digit in range(10)])
    for image in images:
        if image is not None and render_nondigits._teaches(image, "several digits", look):
            rows, columns = np.nonzero(image[0] > 0.2)
            assert np.ptp(columns) >= render_nondigits.ROW_ASPECT * np.ptp(rows)


def test_a_digit_teaches_nothing_of_what_is_none(nondigits: NonDigits) -> None:
    look = Lookalikes([font_ink(digit, PILLOW_DEFAULT) for digit in range(10)])
    seven = np.asarray(font_ink(7, PILLOW_DEFAULT), np.float32)[None] / 255
    letter = np.asarray(font_ink("M", PILLOW_DEFAULT), np.float32)[None] / 255
    assert not render_nondigits._teaches(seven, "letters", look)
    assert render_nondigits._teaches(letter, "letters", look)


def test_no_part_is_a_whole_digit_and_none_of_a_1() -> None:
    assert 1 not in PARTS and 7 not in PARTS
    assert "r" not in PARTS[4]  # a 1
    assert "t" not in PARTS[8] and "t" not in PARTS[9] and "b" not in PARTS[6]  # each a 0
    assert math.prod(len(where) for where in PARTS.values()) > 0
