"""Gathers and shuffles, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import integers, like, on, tile, uniform
from trninfer.simulator import NkiValidationError, OutOfBoundsError

FREE = st.sampled_from([1, 2, 7, 64, 129])


@given(free=FREE, count=st.sampled_from([1, 5, 600]), dtype=st.sampled_from([nl.float32, nl.int8, nl.bfloat16]))
def test_nc_n_gather(free, count, dtype):
    with on():
        data, index = tile(integers(100, 9, free), dtype), tile(integers(free, 9, count, seed=1), nl.uint32)
        dst = nl.ndarray((9, count), dtype)
        nisa.nc_n_gather(dst, data, index)
        assert np.array_equal(dst.values, np.take_along_axis(data.values, index.values.astype(int), axis=1))


@given(groups=st.integers(1, 8), columns=st.integers(1, 4), each=st.sampled_from([1, 2, 4]), left=st.integers(0, 15))
def test_local_gather(groups, columns, each, left):
    with on():
        partitions, count = 16 * groups, 16 * columns - left
        data = tile(uniform(partitions, 40))
        index = tile(integers(40 - each, partitions, columns, seed=1), nl.uint16)
        dst = nl.ndarray((partitions, count, each), nl.float32)
        nisa.local_gather(dst, data, index, each, count)
        for group in range(groups):
            rows = slice(16 * group, 16 * group + 16)
            flat = index.values[rows].flatten(order="F")[:count].astype(int)
            expected = np.stack([data.values[rows, k : k + each] for k in flat], axis=1)
            assert np.array_equal(dst.values[rows], expected)


def test_limits_of_gathers(trn3_core):
    data, index = tile(uniform(16, 8)), tile(integers(8, 16, 1), nl.uint32)
    with pytest.raises(NkiValidationError, match="must be uint32"):
        nisa.nc_n_gather(nl.ndarray((16, 1), nl.float32), data, tile(integers(8, 16, 1), nl.int32))
    with pytest.raises(NkiValidationError, match="dtype of data"):
        nisa.nc_n_gather(nl.ndarray((16, 1), nl.bfloat16), data, index)
    with pytest.raises(OutOfBoundsError, match=r"index 8 .* allowed: 0 to 7"):
        nisa.nc_n_gather(nl.ndarray((16, 1), nl.float32), data, tile(np.full((16, 1), 8), nl.uint32))
    short = tile(integers(8, 16, 1), nl.uint16)
    with pytest.raises(NkiValidationError, match="multiple of 16 partitions"):
        nisa.local_gather(nl.ndarray((8, 16), nl.float32), data[:8], short[:8])
    with pytest.raises(NkiValidationError, match="num_elem_per_idx 3"):
        nisa.local_gather(nl.ndarray((16, 48), nl.float32), data, short, 3)
    with pytest.raises(NkiValidationError, match="indices, got 17"):
        nisa.local_gather(nl.ndarray((16, 17), nl.float32), data, short, 1, 17)
    with pytest.raises(NkiValidationError, match="must have 16 elements"):
        nisa.local_gather(nl.ndarray((16, 15), nl.float32), data, short)
    with pytest.raises(NkiValidationError, match="must be uint16"):
        nisa.local_gather(nl.ndarray((16, 16), nl.float32), data, index)


@given(quadrants=st.integers(1, 4), seed=st.integers(0, 5))
def test_nc_stream_shuffle(quadrants, seed):
    with on():
        partitions = 32 * quadrants
        mask = [int(lane) for lane in integers(32, 32, seed=seed)]
        mask[3] = 255
        src, dst = tile(uniform(partitions, 5)), tile(uniform(partitions, 5, seed=9))
        expected = dst.values.copy()
        for partition in range(partitions):
            if partition % 32 != 3:
                expected[partition] = src.values[partition - partition % 32 + mask[partition % 32]]
        nisa.nc_stream_shuffle(dst, src, mask)
        assert np.array_equal(dst.values, expected)


def test_shuffle_in_place_and_from_one_partition(trn3_core):
    data = tile(uniform(32, 4))
    before = data.values.copy()
    nisa.nc_stream_shuffle(data, data, [(i + 1) % 32 for i in range(32)])
    assert np.array_equal(data.values, np.roll(before, -1, axis=0))
    spread = nl.ndarray((32, 4), nl.float32)
    nisa.nc_stream_shuffle(spread, data[0:1], [0] * 32)
    assert np.array_equal(spread.values, np.tile(data.values[0], (32, 1)))


def test_limits_of_shuffle(trn3_core):
    data = tile(uniform(128, 4))
    with pytest.raises(NkiValidationError, match="32 elements, each 0 to 31, or 255"):
        nisa.nc_stream_shuffle(like(data), data, [32] + [0] * 31)
    with pytest.raises(NkiValidationError, match="dtype of src"):
        nisa.nc_stream_shuffle(like(data, nl.bfloat16), data, [0] * 32)
    with pytest.raises(NkiValidationError, match="reads partition 5"):
        nisa.nc_stream_shuffle(nl.ndarray((32, 4), nl.float32), data[0:5], [5] * 32)
    with pytest.raises(NkiValidationError, match="starts at partition 32"):
        nisa.nc_stream_shuffle(nl.ndarray((64, 4), nl.float32), data[32:64], [0] * 32)


def test_dma_compute_scatters_and_gathers(trn3_core):
    table, rows = tile(uniform(10, 6), buffer=nl.shared_hbm), tile(uniform(3, 6, seed=1))
    index, before = tile([[7], [0], [4]], nl.int32), table.values.copy()
    view = table.vector_select(0, index)
    nisa.dma_compute(view, [view, rows], nl.add)
    expected = before.copy()
    expected[[7, 0, 4]] += rows.values
    np.testing.assert_allclose(table.values, expected)
    start = rows.values.copy()
    nisa.dma_compute(rows, [rows, table.vector_select(0, index)], nl.add)
    np.testing.assert_allclose(rows.values, start + expected[[7, 0, 4]], rtol=1e-6)
