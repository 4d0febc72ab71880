"""Index arrays and masks, compared with the NumPy arrays that they represent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("libcst")
from trninfer.simulator.migrate.indices import Clip, Index, Mask, arange
from trninfer.simulator.migrate.sums import Sum

NAMES = {"n": 5, "m": -2}
NUMBERS = st.integers(-3, 9).map(Sum) | st.sampled_from(
    [Sum.of(text) for text in ("n", "m", "n - 2 * m", "4 - n // 2")]
)
COUNTS = {-2: 6, -1: 9}


def worth(number):
    return eval(number.text, {"min": min, "max": max}, dict(NAMES))


def array(index):
    """Return the index array as NumPy would compute it."""
    shape = [worth(index.axes[at].count) if at in index.axes else 1 for at in range(-index.rank, 0)]
    found = np.full(shape, worth(index.base))
    for at, axis in index.axes.items():
        steps = np.arange(worth(axis.count)) * worth(axis.factor)
        found = found + steps.reshape([-1 if each == at else 1 for each in range(-index.rank, 0)])
    return found


ROWS = arange(Sum(0), Sum(COUNTS[-2])).placed((True, False))
COLUMNS = arange(Sum(0), Sum(COUNTS[-1])).placed((False, True))
R, C = np.arange(COUNTS[-2])[:, None], np.arange(COUNTS[-1])[None, :]


def test_arange_with_axes_put_before_behind_and_between():
    index = arange(Sum.of("n"), Sum.of("n + 3"))
    np.testing.assert_array_equal(array(index), np.arange(5, 8))
    np.testing.assert_array_equal(array(index.placed((True, False))), np.arange(5, 8)[:, None])
    np.testing.assert_array_equal(array(index.placed((False, True, False))), np.arange(5, 8)[None, :, None])
    grid = (ROWS + COLUMNS).placed((True, False, True))
    np.testing.assert_array_equal(array(grid), (R + C)[:, None, :])
    assert index.placed((True, True)) is None and index.placed((False, False)) is None


@given(NUMBERS, NUMBERS, NUMBERS)
def test_arithmetic_is_that_of_arrays(first, second, base):
    found = ROWS.scaled(first) + COLUMNS.scaled(second) + Index(base)
    np.testing.assert_array_equal(array(found), R * worth(first) + C * worth(second) + worth(base))
    np.testing.assert_array_equal(array(found + ROWS), array(found) + R)
    assert (found + ROWS).rank == 2
    assert found + arange(Sum(0), Sum(4)) is None  # 4 positions along an axis with 9


@given(st.integers(0, 3), st.integers(1, 3), NUMBERS)
def test_clips_leave_a_part_of_each_axis(start, count, base):
    index = ROWS.scaled(Sum(3)) + COLUMNS + Index(base)
    clipped = index.clipped({-2: Clip(Sum(start), Sum(count)), -3: Clip(Sum(0), Sum(1))})
    np.testing.assert_array_equal(array(clipped), array(index)[start : start + count])


CONDITION = st.tuples(st.sampled_from([-2, -1]), st.sampled_from([-3, -2, -1, 1, 2, 3]), NUMBERS)


@given(st.lists(CONDITION, min_size=1, max_size=3))
def test_a_mask_leaves_a_rectangle(conditions):
    """Conditions factor * position + base <= 0, all of which must hold."""
    mask, expected = Mask(()), np.ones((COUNTS[-2], COUNTS[-1]), bool)
    for at, factor, base in conditions:
        index = {-2: ROWS, -1: COLUMNS}[at].scaled(Sum(factor)) + Index(base)
        mask = mask & Mask((index,))
        expected &= array(index) <= 0
    clips, unmet = mask.clips()
    assert unmet == [] and clips.keys() == {at for at, _, _ in conditions}
    found = np.ones_like(expected)
    for at, clip in clips.items():
        kept, stop = np.zeros(COUNTS[at], bool), worth(clip.start) + worth(clip.count)
        assert worth(clip.start) >= 0 and stop <= COUNTS[at]
        kept[worth(clip.start) : max(stop, 0)] = True
        found &= kept[:, None] if at == -2 else kept
    np.testing.assert_array_equal(found, expected)


def test_conditions_without_an_axis_stay_conditions():
    clips, conditions = (Mask((Index(Sum.of("n - 8")),)) & Mask((ROWS.scaled(Sum(0)) + Index(Sum(3)),))).clips()
    assert clips == {} and [each.text for each in conditions] == ["n - 8", "3"]


def test_mask_that_is_not_a_rectangle_has_no_clips():
    assert Mask((ROWS + COLUMNS,)).clips() is None


@pytest.mark.parametrize("sign", [1, -1])
def test_a_factor_of_unknown_sign_is_assumed_to_be_positive(sign):
    mask = Mask((ROWS.scaled(Sum.of("n") * sign) + Index(Sum(sign * -12)),))
    assert [factor.text for factor in mask.assumed_positive] == ["n"]
    clip = mask.clips()[0][-2]
    kept = [row for row in range(COUNTS[-2]) if sign * (NAMES["n"] * row - 12) <= 0]
    assert [*range(worth(clip.start), worth(clip.start) + worth(clip.count))] == kept
