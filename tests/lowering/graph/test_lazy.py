"""Arrays that are created on demand."""

import numpy as np
from trninfer.lowering.graph.lazy import LazyArray


def test_an_array_is_made_when_it_is_asked_for() -> None:
    made = []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(6.0).reshape(2, 3)

    array = LazyArray((2, 3), make)
    turned = array.changed((3, 2), np.transpose)
    assert (len(array), array.size, turned.shape, len(turned)) == (2, 6, (3, 2), 3)
    assert made == []
    np.testing.assert_array_equal(turned.make(), np.arange(6.0).reshape(2, 3).T)
    assert made == [1]


def test_an_array_that_is_there_is_not_copied() -> None:
    array = np.ones((2, 1, 3))
    lazy = LazyArray.of(array)
    assert lazy.shape == (2, 1, 3) and lazy.make() is array


def test_changes_follow_one_another() -> None:
    lazy = LazyArray.of(np.ones((2, 2))).changed((2, 2), lambda array: 3 * array).changed((4,), np.ravel)
    np.testing.assert_array_equal(lazy.make(), np.full(4, 3.0))
