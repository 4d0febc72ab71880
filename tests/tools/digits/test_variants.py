"""Variants of digits are reproducible, have no margin, and follow their parameters."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from trninfer.tools.digits.fonts import PILLOW_DEFAULT
from trninfer.tools.digits.lookalikes import Lookalikes
from trninfer.tools.digits.render_digits import INK_SIDE, font_ink
from trninfer.tools.digits.variants import (
    OUTLINED,
    VARIED,
    draw_eight,
    draw_upstroke,
    draw_variant,
    outlined,
    varied_digit,
)


def plain(digit: int) -> Image.Image:
    return font_ink(digit, PILLOW_DEFAULT)


def test_every_digit_is_outlined_and_the_others_are_in_turn() -> None:
    at = VARIED.index(OUTLINED)
    assert [varied_digit(at + len(VARIED) * k) for k in range(12)] == [*range(10), 0, 1]
    assert [varied_digit(k) for k in range(3)] == list(VARIED[:3])


@pytest.mark.parametrize("index", range(20))
def test_a_variant_is_ink_without_margin(index: int) -> None:
    drawn = [draw_variant(index, plain, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert drawn[0].tobytes() == drawn[1].tobytes() != drawn[2].tobytes()
    for ink in drawn:
        assert max(ink.size) == INK_SIDE and ink.getbbox() == (0, 0, *ink.size)
        assert 0.01 < np.asarray(ink).mean() / 255 <= 1


def test_a_crossed_digit_is_still_like_itself() -> None:
    look = Lookalikes([plain(7)])
    assert all(look.likeness(draw_variant(3, plain, np.random.default_rng(seed))) > 0.6 for seed in range(10))


def test_an_outline_is_empty_inside() -> None:
    block = Image.new("L", (100, INK_SIDE), 255)
    for seed in range(10):
        ink = np.asarray(outlined(block, np.random.default_rng(seed)))
        middle = ink[ink.shape[0] // 2]
        assert middle[0] > 0 or middle[1] > 0
        assert (np.diff((middle > 127).astype(int)) != 0).sum() >= 2


def test_an_upstroke_is_left_of_its_stem_and_an_eight_has_two_loops() -> None:
    for seed in range(10):
        one = np.asarray(draw_upstroke(np.random.default_rng(seed))) > 127
        assert one[: len(one) // 2].any(axis=1).all()  # one stroke from the top
        eight = np.asarray(draw_eight(np.random.default_rng(seed))) > 127
        assert eight[-8:].any() and eight[: len(eight) // 2].any()
