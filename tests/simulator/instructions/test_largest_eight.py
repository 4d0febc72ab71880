"""max8, nc_find_index8 and nc_match_replace8."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import integers, like, new, on, tile
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target


@given(st.integers(8, 300), st.integers(1, 20), st.integers(0, 10**6))
def test_max8_and_find_index8(columns, partitions, seed):
    with running(NeuronCore(find_target("trn2"))):
        data = np.random.default_rng(seed).integers(-5, 5, (partitions, columns)).astype(np.float32)
        best, where = nl.ndarray((partitions, 8), nl.float32), nl.ndarray((partitions, 8), nl.uint32)
        nisa.max8(best, tile(data))
        np.testing.assert_array_equal(best.values, -np.sort(-data, axis=1)[:, :8])
        nisa.nc_find_index8(where, tile(data), best)
        np.testing.assert_array_equal(where.values[:, 0], data.argmax(axis=1))
        nisa.memset(best, 99.0)
        nisa.nc_find_index8(where, tile(data), best)
        assert (where.values == 0xFFFFFFFF).all()


def test_equal_values_advance_through_successive_occurrences():
    data = np.array([[5, 9, 9, 1, 5, 9, 0, 2, 2]], np.float32)
    with on():
        values, places = new((1, 8)), new((1, 8), nl.uint32)
        nisa.max8(values, tile(data))
        np.testing.assert_array_equal(values.values, [[9, 9, 9, 5, 5, 2, 2, 1]])
        nisa.nc_find_index8(places, tile(data), values)
        np.testing.assert_array_equal(places.values, [[1, 2, 5, 0, 4, 7, 8, 3]])


@pytest.mark.parametrize("dtype, sentinel", [(nl.uint32, 2**32 - 1), (nl.uint16, 2**16 - 1)])
def test_a_missing_value_is_all_ones(dtype, sentinel):
    with on():
        places = new((1, 8), dtype)
        nisa.nc_find_index8(places, tile(np.zeros((1, 8))), tile(np.arange(8.0).reshape(1, 8)))
        np.testing.assert_array_equal(places.values, [[0] + [sentinel] * 7])


def test_nc_match_replace8_takes_equal_values_in_turn(trn3_core):
    data = tile([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]])
    vals, dst, index = tile([[3, 8, 8, 8, 8, 8, 8, 8]]), like(data), nl.ndarray((1, 8), nl.uint32)
    nisa.nc_match_replace8(dst, data, vals, -1.0, index)
    assert np.array_equal(index.values, [[2, 10, 9, 8, 7, 6, 5, 4]])
    assert np.array_equal(dst.values, [[1, 2, -1, 4, -1, -1, -1, -1, -1, -1, -1]])


@given(free=st.integers(8, 60), high=st.sampled_from([4, 1000]))
def test_match_replace_after_max8_finds_the_next_largest(free, high):
    with on():
        data = tile(integers(high, 6, free).astype(np.float32))
        top, rest, index = nl.ndarray((6, 8), nl.float32), like(data), nl.ndarray((6, 8), nl.uint16)
        nisa.max8(top, data)
        nisa.nc_match_replace8(rest, data, top, -1.0, index)
        positions = np.argsort(-data.values, axis=1, kind="stable")[:, :8]
        assert np.array_equal(np.sort(index.values, axis=1), np.sort(positions, axis=1))
        expected = data.values.copy()
        np.put_along_axis(expected, positions, -1, axis=1)
        assert np.array_equal(rest.values, expected)


def test_match_replace_marks_what_is_missing(trn3_core):
    data, index = tile(np.arange(8.0)[None]), nl.ndarray((1, 8), nl.uint16)
    nisa.nc_match_replace8(like(data), data, tile([[9, 1, 1, 2, 3, 4, 5, 6]]), 0.0, index)
    assert np.array_equal(index.values, [[0xFFFF, 0xFFFF, 1, 2, 3, 4, 5, 6]])
    with pytest.raises(NkiValidationError, match="uint32 or uint16"):
        nisa.nc_match_replace8(like(data), data, data, 0.0, like(data, nl.int32))
    with pytest.raises(NkiValidationError, match="8 to 16384"):
        nisa.nc_match_replace8(nl.ndarray((1, 7), nl.float32), data[:, :7], data, 0.0)
    with pytest.raises(NkiValidationError, match="8 elements"):
        nisa.nc_match_replace8(like(data), data, data[:, :7], 0.0)
