"""Drawings: every kind draws something, reproducibly, and belongs to one split only."""

from __future__ import annotations

import numpy as np
import pytest
from trninfer.tools.digits.shapes import HELD_OUT_SHAPES, SIDE, TRAINING_SHAPES, VALIDATION_SHAPES, Drawing, draw_shape

KINDS = (*TRAINING_SHAPES, *VALIDATION_SHAPES, *HELD_OUT_SHAPES)


def test_no_kind_is_on_two_sides() -> None:
    assert len(set(KINDS)) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_kind_draws_a_different_picture_for_each_number(kind: Drawing) -> None:
    drawn = [np.asarray(draw_shape(kind, np.random.default_rng(seed))) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()
    for ink in drawn:
        assert ink.shape == (SIDE, SIDE)
        assert 0.01 < (ink > 0).mean() < 0.95
