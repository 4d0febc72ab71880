"""Statistics and reductions over partitions, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import integers, on, tile, uniform
from trninfer.simulator import NkiValidationError

FREE = st.sampled_from([1, 2, 7, 64, 129])


@given(free=st.integers(1, 1300), dtype=st.sampled_from([nl.float32, nl.bfloat16]))
def test_bn_stats_and_bn_aggr_compute_mean_and_variance(free, dtype):
    with on():
        data = tile(uniform(5, free) + 3, dtype)
        pieces = -(-free // 512)
        stats, result = nl.ndarray((5, 6 * pieces), nl.float32), nl.ndarray((5, 2), nl.float32)
        for piece in range(pieces):
            part = data[:, piece * 512 : min(free, piece * 512 + 512)]
            nisa.bn_stats(stats[:, piece * 6 : piece * 6 + 6], part)
        nisa.bn_aggr(result, stats)
        np.testing.assert_allclose(result.values[:, 0], data.values.mean(axis=1), rtol=1e-5)
        np.testing.assert_allclose(result.values[:, 1], data.values.var(axis=1), rtol=1e-4, atol=1e-6)


def test_bn_stats_separates_even_and_odd_elements(trn3_core):
    data, stats = tile([[1.0, 10.0, 3.0, 30.0, 5.0]]), nl.ndarray((1, 6), nl.float32)
    nisa.bn_stats(stats, data)
    assert np.array_equal(stats.values, [[3, 3, 8, 2, 20, 200]])


def test_limits_of_statistics(trn3_core):
    with pytest.raises(NkiValidationError, match="1 to 512 elements in a partition, got 513"):
        nisa.bn_stats(nl.ndarray((4, 6), nl.float32), tile(uniform(4, 513)))
    with pytest.raises(NkiValidationError, match="6 elements"):
        nisa.bn_stats(nl.ndarray((4, 5), nl.float32), tile(uniform(4, 8)))
    with pytest.raises(NkiValidationError, match="multiple of 3"):
        nisa.bn_aggr(nl.ndarray((4, 2), nl.float32), tile(uniform(4, 8)))
    with pytest.raises(NkiValidationError, match="2 elements"):
        nisa.bn_aggr(nl.ndarray((4, 3), nl.float32), tile(uniform(4, 6)))


@given(
    partitions=st.sampled_from([1, 3, 64, 128]),
    free=FREE,
    case=st.sampled_from([(nl.add, np.sum), (nl.average, np.mean), (nl.maximum, np.max)]),
)
def test_tensor_partition_reduce(partitions, free, case):
    op, expected = case
    with on():
        data, dst = tile(uniform(partitions, free)), nl.ndarray((1, free), nl.float32)
        nisa.tensor_partition_reduce(dst, op, data)
        np.testing.assert_allclose(dst.values[0], expected(data.values, axis=0), rtol=1e-4, atol=1e-5)


def test_tensor_partition_reduce_of_bits_and_its_limits(trn3_core):
    data, dst = tile(integers(16, 128, 4), nl.int32), nl.ndarray((1, 4), nl.int32)
    nisa.tensor_partition_reduce(dst, nl.bitwise_or, data)
    assert np.array_equal(dst.values[0], np.bitwise_or.reduce(data.values, axis=0))
    with pytest.raises(NkiValidationError, match=r"op=nl.multiply is not allowed"):
        nisa.tensor_partition_reduce(dst, nl.multiply, data)
    with pytest.raises(NkiValidationError, match="requires integers"):
        nisa.tensor_partition_reduce(nl.ndarray((1, 4), nl.float32), nl.bitwise_or, data)
    with pytest.raises(NkiValidationError, match="1 partition"):
        nisa.tensor_partition_reduce(nl.ndarray((2, 4), nl.int32), nl.add, data)
    with pytest.raises(NkiValidationError, match="must be in SBUF"):
        nisa.tensor_partition_reduce(dst, nl.add, tile(uniform(4, 4), buffer=nl.psum))
