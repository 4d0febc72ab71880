"""Glyphs as the network's input are reproducible, centred, and from the training families."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from trninfer.tools.digits import render_glyphs, signs
from trninfer.tools.digits.fonts import HELD_OUT_FAMILIES, PILLOW_DEFAULT, TRAINING_FAMILIES, VALIDATION_FAMILIES
from trninfer.tools.digits.lookalikes import Lookalikes
from trninfer.tools.digits.render_digits import fit_ink, font_ink
from trninfer.tools.digits.render_glyphs import (
    COMMON,
    COUNTS,
    FURTHER_FONTS,
    FURTHER_SCRIPTS,
    TURNS,
    Glyphs,
    draw_strokes,
)
from trninfer.tools.digits.render_nondigits import NONE

pytestmark = pytest.mark.by_hand

# The kinds that need only Pillow's font.
KINDS = [kind for kind in COUNTS if kind not in ("letters", "scripts", "pictograms")]


LOOK = Lookalikes([font_ink(digit, PILLOW_DEFAULT) for digit in range(10)])


@pytest.fixture
def glyphs(monkeypatch: pytest.MonkeyPatch) -> Glyphs:
    """Use Pillow's font instead of all others, and noise instead of handwriting."""
    monkeypatch.setattr(render_glyphs, "find_fonts", lambda families: {"Aileron": [PILLOW_DEFAULT]})
    monkeypatch.setattr(render_glyphs, "lookalikes", lambda: LOOK)
    monkeypatch.setattr(render_glyphs, "_characters", lambda group, path: "AMWK")
    made = Glyphs()
    made.__dict__["_handwriting"] = np.random.default_rng(0).uniform(0, 16, (20, 64)), np.arange(20) % 10
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_glyph_depends_on_its_number_alone(glyphs: Glyphs, kind: str) -> None:
    (first, label), (other, _), (again, _) = (glyphs.glyph(kind, index) for index in (7, 8, 7))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert label == {"variants": 1, "digits": 7, "handwriting": 7, "written digits": 7}.get(kind, NONE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_glyph_is_ink_in_the_middle(glyphs: Glyphs, kind: str) -> None:
    for index in range(20):
        image, _ = glyphs.glyph(kind, index)
        assert image.shape == (1, 32, 32) and image.dtype == np.float32
        assert image.min() >= 0 and 0.5 < image.max() <= 1
        rows, columns = np.nonzero(image[0] > 0.4)
        assert 14 <= max(np.ptp(rows), np.ptp(columns)) < 32


def test_invented_characters_differ_from_digits(glyphs: Glyphs) -> None:
    with pytest.raises(ValueError, match="like a digit"):
        render_glyphs._none(font_ink(7, PILLOW_DEFAULT))
    strokes = fit_ink(draw_strokes(np.random.default_rng(0)))
    assert LOOK.alike(strokes) < render_glyphs.MAX_LIKENESS and render_glyphs._none(strokes) is strokes


def test_a_sign_that_looks_like_a_digit_is_left_out(glyphs: Glyphs) -> None:
    render_glyphs._sign_ink.cache_clear()
    assert render_glyphs._sign_ink("7", PILLOW_DEFAULT) is None
    assert render_glyphs._sign_ink("M", PILLOW_DEFAULT) is not None


def test_no_turned_digit_is_a_digit() -> None:
    assert 0 not in TURNS and 1 not in TURNS
    for digit, turns in TURNS.items():
        for turn in turns:
            assert LOOK.alike(font_ink(digit, PILLOW_DEFAULT).transpose(turn)) < 0.85, (digit, turn)


def test_no_script_is_on_two_sides() -> None:
    sides = (signs.TRAINING_SCRIPTS, FURTHER_SCRIPTS, signs.VALIDATION_SCRIPTS, signs.HELD_OUT_SCRIPTS)
    every = [script for side in sides for script in side]
    assert len(every) == len(set(every))
    assert min(COUNTS.values()) > 0
    assert not set(COMMON) & (signs.ALSO_DIGITS | signs.BARELY_LETTERS) and not any(map(signs.is_number, COMMON))
    assert not set(FURTHER_FONTS) & {*VALIDATION_FAMILIES, *HELD_OUT_FAMILIES} and set(FURTHER_FONTS) < set(
        TRAINING_FAMILIES
    )
    for pattern in signs.script_patterns(signs.HELD_OUT_SCRIPTS + signs.VALIDATION_SCRIPTS).values():
        assert not [
            script for script in FURTHER_SCRIPTS if Path(f"truetype/noto/NotoSans{script}-A.ttf").match(pattern)
        ]
    for script, pattern in signs.script_patterns(FURTHER_SCRIPTS).items():
        for other in signs.HELD_OUT_SCRIPTS + signs.VALIDATION_SCRIPTS:
            assert not Path(f"truetype/noto/NotoSans{other}-A.ttf").match(pattern), (script, other)


@pytest.mark.parametrize(
    "character, expected",
    [
        *[(character, True) for character in ("A", "\u00e9", "\u4e2d")],
        *[(character, False) for character in ("O", "\U0001d40e", "\u24c8", "\u2460", "\u01b7", "\u01bd", "\u00d8")],
    ],
)
def test_what_is_surely_none(character: str, expected: bool) -> None:
    assert signs.teaches(character) == expected
