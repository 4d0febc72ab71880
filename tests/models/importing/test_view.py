"""Views, compared with NumPy: reshapes and transposes of an array whose numbers are their positions in memory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.models.errors import ModelError
from trninfer.models.importing.view import Factor, View

SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4).map(tuple)


def numbers_of(view: View) -> np.ndarray:
    """Return the memory positions in the logical order of a view, using only the strides of its factors."""
    factors = [factor for axis in view.axes for factor in axis]
    grids = np.meshgrid(*(np.arange(f.extent) * f.stride for f in factors), indexing="ij") if factors else [np.zeros(1)]
    return sum(grids).reshape(view.shape).astype(int)


def shapes_of(size: int) -> list[tuple[int, ...]]:
    """Draw shapes with one to three axes."""
    pairs = [(size // side, side) for side in range(1, size + 1) if size % side == 0]
    even = [(rest // 2, side) for rest, side in pairs if rest % 2 == 0]
    return [(size,), *pairs, *((2, *pair) for pair in even), *((pair[0], 2, pair[1]) for pair in even)]


@given(data=st.data(), shape=SHAPES)
def test_any_reshapes_and_transposes_are_those_of_numpy(data: st.DataObject, shape: tuple[int, ...]) -> None:
    view, array = View.of("layer", shape), np.arange(math.prod(shape)).reshape(shape)
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            order = tuple(data.draw(st.permutations(range(array.ndim))))
            view, array = view.permuted(order), array.transpose(order)
        else:
            target = data.draw(st.sampled_from(shapes_of(array.size)))
            try:
                view = view.reshaped(target, True)
            except ModelError as error:  # for some transposed axes
                assert str(list(target)) in str(error) and not np.array_equal(array.ravel(), np.arange(array.size))
                continue
            array = array.reshape(target)
        assert view.shape == array.shape
        np.testing.assert_array_equal(numbers_of(view), array)
    arrangement = view.arrangement()
    if arrangement is None:
        np.testing.assert_array_equal(array.ravel(), np.arange(array.size))
    else:
        split, order = arrangement
        np.testing.assert_array_equal(np.arange(array.size).reshape(split).transpose(order).ravel(), array.ravel())


def test_factors_that_are_neighbours_are_joined() -> None:
    view = View.of("layer", (2, 3, 4)).reshaped((6, 4), True)
    assert view.axes == ((Factor(6, 4),), (Factor(4, 1),))
    swapped = View.of("layer", (2, 3, 4)).permuted((1, 0, 2)).reshaped((6, 4), True)
    assert swapped.axes[0] == (Factor(3, 4), Factor(2, 12))


def test_a_transposed_axis_is_not_split_across_its_factors() -> None:
    turned = View.of("layer", (2, 9)).permuted((1, 0))
    with pytest.raises(ModelError, match=r"\[9, 2\] cannot be reshaped to \[2, 9\] after it was transposed"):
        turned.reshaped((2, 9), True)


@pytest.mark.parametrize(
    ("shape", "turned", "order"),
    [
        ((2, 3, 5), (2, 0, 1), (1, 2, 0)),
        ((3, 1, 5), (2, 1, 0), (1, 2, 0)),  # the axis of size one precedes the known axis that follows it
        ((1, 3, 5), (1, 2, 0), (0, 1, 2)),
        ((1, 1), (0, 1), (0, 1)),
    ],
)
def test_the_order_in_memory(shape: tuple[int, ...], turned: tuple[int, ...], order: tuple[int, ...]) -> None:
    view = View.of("layer", shape).permuted(turned)
    assert view.order() == order
    assert view.permuted(order).arrangement() is None  # the numbers are already in this order


@pytest.mark.parametrize(
    ("shape", "batched", "expected"),
    [((1, 5), False, ((5,), 2)), ((3, 5), False, ((3, 5), 2)), ((1, 5), True, ((1, 5), 3)), ((), False, ((), 0))],
)
def test_an_axis_of_one_becomes_the_batch(shape: tuple[int, ...], batched: bool, expected: tuple) -> None:
    view = View.of("layer", shape, batched).with_batch()
    assert (view.shape, view.rank) == expected
