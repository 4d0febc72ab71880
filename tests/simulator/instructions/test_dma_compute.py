"""Reductions performed by DMA."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import on, tile, uniform
from trninfer.simulator import NkiValidationError, OutOfBoundsError


@given(count=st.integers(1, 16), dtype=st.sampled_from([nl.float32, nl.bfloat16]))
def test_dma_compute_adds(count, dtype):
    with on():
        sources = [tile(uniform(8, 6, seed=seed), dtype, nl.shared_hbm) for seed in range(count)]
        dst = nl.ndarray((8, 6), nl.float32)
        nisa.dma_compute(dst, sources, nl.add, [1.0] * count)
        np.testing.assert_allclose(dst.values, sum(s.values for s in sources), rtol=1e-5, atol=1e-5)


def test_dma_compute_skips_what_is_out_of_bounds(trn3_core):
    table, rows = tile(uniform(10, 6), buffer=nl.shared_hbm), tile(uniform(3, 6, seed=1))
    view = table.vector_select(0, tile([[7], [10], [4]], nl.int32))
    with pytest.raises(OutOfBoundsError, match="index 10"):
        nisa.dma_compute(view, [view, rows], nl.add)
    expected = table.values.copy()
    expected[[7, 4]] += rows.values[[0, 2]]
    nisa.dma_compute(view, [view, rows], nl.add, oob_mode=nisa.oob_mode.skip)
    np.testing.assert_allclose(table.values, expected)


def test_limits_of_dma_compute(trn3_core):
    a, dst = tile(uniform(4, 8), buffer=nl.shared_hbm), nl.ndarray((4, 8), nl.float32)
    with pytest.raises(NkiValidationError, match=r"reduce_op must be nl.add"):
        nisa.dma_compute(dst, [a, a], nl.multiply)
    with pytest.raises(NkiValidationError, match="srcs must contain 1 to 16 tensors"):
        nisa.dma_compute(dst, [a] * 17, nl.add)
    with pytest.raises(NkiValidationError, match="scales must be"):
        nisa.dma_compute(dst, [a, a], nl.add, [1.0, 2.0])
    with pytest.raises(NkiValidationError, match="must have the 32 elements"):
        nisa.dma_compute(dst, [a[:, :4]], nl.add)
    view = a.vector_select(0, tile(np.zeros((4, 1)), nl.int32))
    with pytest.raises(NkiValidationError, match="there must be 2 srcs, one of them indirect"):
        nisa.dma_compute(dst, [view], nl.add)
    with pytest.raises(NkiValidationError, match="unique_indices"):
        nisa.dma_compute(dst, [dst, view], nl.add, unique_indices=False)
