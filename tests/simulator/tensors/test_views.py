"""Shapes and strides of views, compared with NumPy and with the addresses of single elements."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from trninfer.simulator import NkiValidationError, OutOfBoundsError
from trninfer.simulator.tensors.views import (
    comb,
    dimensions,
    fill_ellipsis,
    infer,
    is_row_major,
    resolve_index,
    resolve_slice,
    row_major,
    shape_of,
    strides_of_reshape,
)

TENSOR = SimpleNamespace(label="x sbuf[4, 8] float32")
SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
STRIDED = SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), st.tuples(*[st.integers(0, 9)] * len(shape))))


def addresses(shape, strides):
    """Return the position of each element in memory."""
    return as_strided(np.arange(1000), shape, [8 * stride for stride in strides])


@given(SHAPES)
def test_dense_strides_are_numpys(shape):
    strides = row_major(shape)
    assert np.array_equal(addresses(shape, strides), np.arange(np.prod(shape)).reshape(shape))
    assert is_row_major(shape, strides)


@given(STRIDED)
def test_dense_means_one_after_the_other(view):
    shape, strides = view
    assert is_row_major(shape, strides) == np.array_equal(addresses(*view).ravel(), np.arange(np.prod(shape)))


def factorings(size, most=4):
    """Return all shapes with the given number of elements and up to `most` dimensions."""
    if most == 1:
        return [(size,)]
    divisors = [extent for extent in range(1, size + 1) if size % extent == 0]
    found = [(extent, *rest) for extent in divisors for rest in factorings(size // extent, most - 1)]
    return [*factorings(size, most - 1), *found]


@given(STRIDED, st.data())
def test_a_reshape_is_a_view_if_possible(view, data):
    new = data.draw(st.sampled_from(factorings(int(np.prod(view[0])))))
    strides = strides_of_reshape(*view, new)
    expected = addresses(*view).ravel()
    if strides is not None:
        np.testing.assert_array_equal(addresses(new, strides).ravel(), expected)
    elif np.prod(new) > 1:  # no strides exist
        wanted, found = expected.reshape(new), [0] * len(new)
        for axis, extent in enumerate(new):
            if extent > 1:
                step = wanted.take(1, axis) - wanted.take(0, axis)
                found[axis] = int(step.flat[0])
        assert (np.array(found) < 0).any() or not np.array_equal(addresses(new, found), wanted)


def test_a_dense_view_takes_any_shape_of_its_size():
    assert strides_of_reshape((4, 6), (6, 1), (2, 12)) == (12, 1)
    assert strides_of_reshape((4, 6), (12, 2), (8, 3)) == (6, 2)  # every second column of 12
    assert strides_of_reshape((4, 6), (8, 1), (24,)) is None
    assert strides_of_reshape((4, 6), (8, 1), (4, 2, 3)) == (8, 3, 1)


@given(STRIDED)
def test_a_comb_covers_the_elements(view):
    shape, strides = view
    step, run = comb(shape, strides)
    if step:
        assert 0 < run < step
        assert (addresses(shape, strides) % step < run).all()


@pytest.mark.parametrize(
    "shape, strides, expected",
    [
        ((8,), (2,), (2, 1)),
        ((4, 3), (8, 1), (8, 3)),  # three of every eight columns
        ((4, 2, 2), (16, 4, 1), (4, 2)),
        ((4, 8), (8, 1), (0, 0)),  # all of them
        ((2, 2, 3), (9, 4, 1), (0, 0)),  # inconsistent steps
        ((4, 3, 1), (8, 1, 5), (8, 3)),
        ((4, 5), (8, 0), (8, 1)),  # one element, five times
    ],
)
def test_combs(shape, strides, expected):
    assert comb(shape, strides) == expected


@pytest.mark.parametrize(
    "shape, strides, on_chip, count",
    [
        ((128, 4, 6), (99, 6, 1), True, 2),  # the partitions, and one run
        ((128, 4, 6), (99, 8, 1), True, 3),
        ((128, 4, 1, 6), (99, 6, 3, 1), True, 2),
        ((4, 6), (6, 1), False, 1),
        ((4, 6), (12, 2), False, 1),
        ((4, 6), (1, 4), False, 2),
        ((1, 1), (1, 1), False, 0),
    ],
)
def test_contiguous_dimensions_are_merged(shape, strides, on_chip, count):
    view = SimpleNamespace(shape=shape, strides=strides, storage=SimpleNamespace(on_chip=on_chip))
    assert dimensions(view) == count


@given(st.integers(1, 9), st.data())
def test_slices_are_pythons(extent, data):
    ends = st.one_of(st.none(), st.integers(-extent, extent))
    item = slice(data.draw(ends), data.draw(ends), data.draw(st.sampled_from([None, 1, 2, 5])))
    expected = range(*item.indices(extent))
    start, stop = (
        (0 if end is None else end % extent if end < 0 else end)
        if at == 0
        else (extent if end is None else end % extent if end < 0 else end)
        for at, end in enumerate((item.start, item.stop))
    )
    if start > stop:
        with pytest.raises(OutOfBoundsError, match=f"x sbuf.*: {start}:{stop} of dimension 1 must lie in 0:{extent}"):
            resolve_slice(item, extent, 1, TENSOR)
        return
    first, count, step = resolve_slice(item, extent, 1, TENSOR)
    assert [first + n * step for n in range(count)] == list(expected)


@pytest.mark.parametrize(
    "item, kind, message",
    [
        (slice(0, 9), OutOfBoundsError, "0:9 of dimension 1 must lie in 0:8"),
        (slice(-9, 8), OutOfBoundsError, "-1:8 of dimension 1 must lie in 0:8"),
        (slice(4, 0, -1), NkiValidationError, "slices must have a positive step, got -1 in dimension 1"),
        (slice(0, 4, 0), NkiValidationError, "slices must have a positive step, got 0"),
        (slice(0.0, 4.0), NkiValidationError, "slice of dimension 1: .* must be integers"),
    ],
)
def test_slices_that_are_none(item, kind, message):
    with pytest.raises(kind, match=message):
        resolve_slice(item, 8, 1, TENSOR)


def test_indices_count_from_either_end():
    assert [resolve_index(item, 8, 0, TENSOR) for item in (0, 7, -1, -8, np.int64(3))] == [0, 7, 7, 0, 3]
    for item in (8, -9):
        with pytest.raises(OutOfBoundsError, match=f"index {item} of dimension 0 is out of bounds; it must be 0 to 7"):
            resolve_index(item, 8, 0, TENSOR)
    with pytest.raises(
        NkiValidationError, match=r"index 1\.0 of dimension 0 must be an integer, a slice, `...` or nl.ds"
    ):
        resolve_index(1.0, 8, 0, TENSOR)


def test_an_ellipsis_is_all_dimensions_that_are_not_named():
    everything = slice(None)
    assert fill_ellipsis((1,), 3, TENSOR) == (1, everything, everything)
    assert fill_ellipsis((..., 1), 3, TENSOR) == (everything, everything, 1)
    assert fill_ellipsis((1, ..., 2), 2, TENSOR) == (1, 2)
    for keys, ndim, message in (((..., ...), 2, "only one index"), ((1, 2, 3), 2, "3 indices for 2 dimensions")):
        with pytest.raises(OutOfBoundsError, match=message):
            fill_ellipsis(keys, ndim, TENSOR)


def test_one_extent_of_a_shape_may_be_left_open():
    assert infer((4, -1), 24, "reshape") == (4, 6) and infer((24,), 24, "reshape") == (24,)
    assert infer((np.int64(4), 6), 24, "reshape") == (4, 6)
    assert shape_of(5) == (5,) and shape_of([2, 3]) == (2, 3)
    for shape in ((5, -1), (-1, -1), (4, 5), (0, -1), (-4, -6)):
        with pytest.raises(NkiValidationError, match=r"reshape: shape .* does not hold 24 elements"):
            infer(shape, 24, "reshape")
    with pytest.raises(NkiValidationError, match=r"reshape: shape: \(4, 6\.0\) must be integers"):
        infer((4, 6.0), 24, "reshape")
