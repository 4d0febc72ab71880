"""The Tensor Engine, compared with NumPy: products and transposes."""

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import normal, on, psum, tile, uniform
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target

SIZES = st.sampled_from([1, 2, 3, 31, 64, 127, 128])


@given(
    k=SIZES,
    m=SIZES,
    n=st.sampled_from([1, 3, 128, 511, 512]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_matmul_contracts_over_partitions(k, m, n, dtype):
    with running(NeuronCore(find_target("trn2"))):
        a, b = tile(uniform(k, m), dtype), tile(uniform(k, n, seed=1), dtype)
        psum = nl.ndarray((m, n), nl.float32, nl.psum)
        nisa.nc_matmul(psum, a, b)
        np.testing.assert_allclose(psum.values, a.values.T @ b.values, rtol=1e-4, atol=1e-4)
        nisa.nc_matmul(psum, a, b)  # accumulate=None: the second call adds
        np.testing.assert_allclose(psum.values, 2 * (a.values.T @ b.values), rtol=1e-4, atol=1e-4)
        nisa.nc_matmul(psum, a, b, accumulate=False)
        np.testing.assert_allclose(psum.values, a.values.T @ b.values, rtol=1e-4, atol=1e-4)


def test_matmul_reads_strided_rows(core):
    rows = uniform(16, 4, 10)
    moving, weights, psum = tile(rows), tile(uniform(16, 8)), nl.ndarray((8, 2, 7), nl.float32, nl.psum)
    nisa.nc_matmul(psum, weights, moving[:, 1:3, 2:9])
    expected = np.einsum("km,krc->mrc", weights.values, rows[:, 1:3, 2:9])
    np.testing.assert_allclose(psum.values, expected, rtol=1e-5)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_matmul_in_transpose_mode_moves_nan_and_infinity_as_they_are(target):
    data = normal(8, 6)
    data[2, 3], data[5, 1] = np.nan, np.inf
    with on(target):
        out = psum((6, 8))
        nisa.nc_matmul(out, tile(data), tile(np.eye(8)), is_transpose=True)
        np.testing.assert_array_equal(out.values, data.T)
        with pytest.raises(NkiValidationError, match="identity or a permutation"):
            nisa.nc_matmul(out, tile(data), tile(2 * np.eye(8)), is_transpose=True)


def test_a_permutation_that_moves_permutes():
    data, order = normal(8, 6), np.random.default_rng(3).permutation(8)
    with on():
        out = psum((6, 8), nl.bfloat16)
        nisa.nc_matmul(out, tile(data, nl.bfloat16), tile(np.eye(8)[order].T, nl.bfloat16), is_transpose=True)
        np.testing.assert_array_equal(out.values, data.astype(ml_dtypes.bfloat16).astype(np.float32)[order].T)


def test_transpose_mode_is_a_plain_matmul_on_trn1():
    data = normal(8, 6)
    data[2, 3] = np.nan
    with on("trn1"):
        out = psum((6, 8))
        nisa.nc_matmul(out, tile(data), tile(np.eye(8)), is_transpose=True)
        assert np.isnan(out.values[3]).all()
