"""Signs that look like digits: by Unicode's confusables, and by shape under the distortions used for the pictures."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from PIL import Image
from trninfer.tools.digits import lookalikes, signs
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.lookalikes import CONFUSABLES, Lookalikes, centred, distorted, is_confusable
from trninfer.tools.digits.render_digits import fit_ink, font_ink
from trninfer.tools.digits.variants import draw_bar, draw_upstroke


@pytest.fixture(scope="module")
def look() -> Lookalikes:
    return Lookalikes([font_ink(digit, PILLOW_DEFAULT) for digit in range(10)])


@pytest.mark.parametrize("character", ["\u13da", "\u13c3", "\u13cf", "\u13ce", "\u13ee", "\u00d8", "\u2d54", "\u0555"])
def test_letters_of_other_scripts_may_pass_for_digits(character: str) -> None:
    """Cherokee S, Z, b, 4 and 6; O with a stroke; Tifinagh and Armenian O."""
    assert is_confusable(character)


@pytest.mark.parametrize("character", ["A", "\u05d0", "\u4e2d", "\u13a0", "\u2602"])
def test_most_characters_may_not(character: str) -> None:
    assert not is_confusable(character)


def test_the_table_repeats_nothing_that_is_left_out_already() -> None:
    assert len(CONFUSABLES) == len(lookalikes._CONFUSABLES.split()) > 200
    for character in CONFUSABLES:
        assert not signs.is_number(character) and character not in signs.ALSO_DIGITS, character
        assert unicodedata.category(character)[0] in "LPSMC", character


def test_character_with_the_outline_of_a_digit_is_a_lookalike(look: Lookalikes) -> None:
    for text in "07":
        assert look(font_ink(text, PILLOW_DEFAULT))
    zero = font_ink(0, PILLOW_DEFAULT)
    assert look(zero.resize((zero.width + 8, zero.height)))
    for text in "MWx?&@":
        assert not look(font_ink(text, PILLOW_DEFAULT)), text
    for digit in range(10):
        ink = font_ink(digit, PILLOW_DEFAULT)
        assert look.likeness(ink) >= look.alike(ink) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("digit", [2, 3, 5, 7])
def test_a_digit_that_is_turned_or_squeezed_looks_like_one_all_the_same(look: Lookalikes, digit: int) -> None:
    ink = font_ink(digit, PILLOW_DEFAULT)
    turned = fit_ink(ink.rotate(14, Image.Resampling.BICUBIC, expand=True).resize((int(ink.width * 1.25), ink.height)))
    assert look.likeness(turned) > max(0.8, look.alike(turned))


def test_the_variants_that_hands_write_look_like_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar and a Greek lambda look like a common handwritten 1; without the variants, neither resembles a digit."""
    monkeypatch.setattr(lookalikes, "find_fonts", lambda families: {"Aileron": [PILLOW_DEFAULT]})
    lookalikes.lookalikes.cache_clear()
    look = lookalikes.lookalikes()
    lookalikes.lookalikes.cache_clear()
    for seed in range(5):
        assert look(draw_bar(np.random.default_rng(seed)))
        assert look(draw_upstroke(np.random.default_rng(seed)))
    assert not look(font_ink("M", PILLOW_DEFAULT))


def test_an_empty_picture_looks_like_nothing(look: Lookalikes) -> None:
    empty = Image.new("L", (30, 50))
    assert centred(empty).max() == 0 and distorted(empty) == []
    assert not look(empty)
