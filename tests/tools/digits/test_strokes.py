"""Glyphs drawn stroke by stroke are reproducible; digits resemble those of fonts, and signs resemble none."""

from __future__ import annotations

import numpy as np
import pytest
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.lookalikes import Lookalikes
from trninfer.tools.digits.render_digits import INK_SIDE, font_ink
from trninfer.tools.digits.strokes import (
    MAX_LIKENESS,
    PLAIN,
    Pen,
    digit_strokes,
    draw_made_up_sign,
    draw_written_digit,
    sign_strokes,
    written,
)

pytestmark = pytest.mark.slow

FONT = [Lookalikes([font_ink(digit, PILLOW_DEFAULT)]) for digit in range(10)]


@pytest.mark.parametrize("digit", range(10))
def test_a_written_digit_is_ink_without_margin(digit: int) -> None:
    for seed in range(20):
        first, again, other = (draw_written_digit(digit, np.random.default_rng(s)) for s in (seed, seed, seed + 20))
        assert first.tobytes() == again.tobytes() != other.tobytes()
        assert max(first.size) == INK_SIDE and first.getbbox() is not None


@pytest.mark.parametrize("digit", range(10))
def test_a_written_digit_is_like_itself(digit: int) -> None:
    """On average; some handwritten forms of 4 or 6 resemble another digit of this font just as much."""
    inks = [written(digit_strokes(digit, rng), PLAIN) for rng in map(np.random.default_rng, range(60))]
    likeness = [np.mean([look.alike(ink) for ink in inks]) for look in FONT]
    assert likeness[digit] > 0.2 and digit in np.argsort(likeness)[-2:]


def test_a_made_up_sign_is_like_no_digit_or_is_refused() -> None:
    drawn = refused = 0
    for seed in range(60):
        try:
            ink = draw_made_up_sign(np.random.default_rng(seed))
        except ValueError as error:
            assert str(error) == "like a digit"
            refused += 1
        else:
            drawn += 1
            plain = written(sign_strokes(np.random.default_rng(seed)), PLAIN)
            assert max(ink.size) == INK_SIDE
            assert max(look.alike(plain) for look in FONT) < MAX_LIKENESS + 0.15
    assert drawn > 20 and refused > 2


def test_a_flat_pen_writes_thick_and_thin() -> None:
    strokes = [np.array([[0.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 1.0]])]
    ink = np.asarray(written(strokes, Pen(20.0, 4.0, 0.0))) > 127
    upright = ink[: len(ink) // 2].sum(axis=1).mean()
    lying = ink[:, ink.shape[1] // 2 :].sum(axis=0).mean()
    assert upright > 3 * lying > 0
