"""Moves of rows whose indices are in memory, compared with NumPy; missing rows are an error or are skipped."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, in_hbm, indices
from small_kernels import gather
from trninfer import simulator
from trninfer.simulator import NkiValidationError, OutOfBoundsError


@nki.jit
def scatter(a, rows, out, skip=False):
    index, tile = nl.load(rows), nl.load(a)
    mode = nisa.oob_mode.skip if skip else nisa.oob_mode.error
    nisa.dma_copy(out.vector_select(0, index), tile, oob_mode=mode)
    return out


@given(rows=st.lists(st.integers(0, 9), min_size=1, max_size=40), dtype=st.sampled_from([np.int32, np.uint32]))
def test_gather_and_scatter_of_rows(rows, dtype):
    a = counted(10, 6)
    index = np.array(rows, dtype)[:, None]
    (out,) = simulator.run(gather, a, index).outputs
    assert np.array_equal(out, a[rows])
    unique = list(dict.fromkeys(rows))
    new = -counted(len(unique), 6) - 1
    (out,) = simulator.run(scatter, new, np.array(unique, dtype)[:, None], a).outputs
    expected = a.copy()
    expected[unique] = new
    assert np.array_equal(out, expected)


def test_out_of_bounds_rows_are_an_error_or_skipped():
    a, index = counted(10, 6), np.array([[3], [10], [-1], [0]], np.int32)
    with pytest.raises(OutOfBoundsError, match=r"index 10 .* must be 0 to 9"):
        simulator.run(gather, a, index)
    (out,) = simulator.run(gather, a, index, skip=True).outputs
    assert np.array_equal(out, np.stack([a[3], np.zeros(6), np.zeros(6), a[0]]))
    (out,) = simulator.run(scatter, counted(4, 6) + 100, index, a, skip=True).outputs
    expected = a.copy()
    expected[[3, 0]] = (counted(4, 6) + 100)[[0, 3]]
    assert np.array_equal(out, expected)


def test_out_of_bounds_scalar_is_an_error_or_skipped(core):
    a, out = in_hbm(counted(4, 8)), in_hbm(np.zeros(8))
    view = a.select(0, indices([[4]]))
    with pytest.raises(OutOfBoundsError, match="must be 0 to 3"):
        nisa.dma_copy(out, view)
    nisa.dma_copy(out, view, oob_mode=nisa.oob_mode.skip)
    assert not out.values.any()


def test_a_move_that_skips_has_as_many_rows_as_indices(core):
    index, source = indices([[0], [9], [1]]), in_hbm(counted(4, 6))
    view = source.ap([[6, 3], [1, 6]], vector_offset=index)
    with pytest.raises(
        NkiValidationError, match=r"with oob_mode skip, dst .* and src .* must have 3 rows, one per index"
    ):
        nisa.dma_copy(nl.ndarray((6, 3), nl.float32), view, oob_mode=nisa.oob_mode.skip)


def test_rows_are_skipped_if_either_index_is_out_of_bounds(core):
    """A gather by [2, 9, 0, 1] into a scatter by [0, 1, 7, 3]."""
    source, target = in_hbm(counted(4, 5) + 1), in_hbm(np.zeros((4, 5)))
    gathers, scatters = indices([[2], [9], [0], [1]]), indices([[0], [1], [7], [3]])
    view = target.ap([[5, 4], [1, 5]], vector_offset=scatters)
    nisa.dma_copy(view, source.ap([[5, 4], [1, 5]], vector_offset=gathers), oob_mode=nisa.oob_mode.skip)
    expected = np.zeros((4, 5))
    expected[0], expected[3] = (counted(4, 5) + 1)[[2, 1]]
    np.testing.assert_array_equal(target.values, expected)
