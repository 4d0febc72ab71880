"""Scans, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import like, on, tile, uniform
from trninfer.simulator import NkiValidationError

FREE = st.sampled_from([1, 2, 7, 64, 129])


def scanned(a, b, state, first, second, reverse0=False, reverse1=False):
    result = np.empty_like(a)
    for i in range(a.shape[1]):
        state = first(state, a[:, i]) if reverse0 else first(a[:, i], state)
        state = second(b[:, i], state) if reverse1 else second(state, b[:, i])
        result[:, i] = state
    return result


@given(free=FREE, reverse0=st.booleans(), reverse1=st.booleans(), vector=st.booleans())
def test_tensor_tensor_scan(free, reverse0, reverse1, vector):
    with on():
        a, b = tile(uniform(7, free)), tile(uniform(7, free, seed=1), buffer=nl.psum)
        start = tile(uniform(7, 1, seed=2)) if vector else 0.25
        dst = like(a)
        nisa.tensor_tensor_scan(dst, a, b, start, nl.subtract, nl.add, reverse0, reverse1)
        state = start.values[:, 0] if vector else np.full(7, 0.25, np.float32)
        expected = scanned(a.values, b.values, state, np.subtract, np.add, reverse0, reverse1)
        np.testing.assert_allclose(dst.values, expected, rtol=1e-6)


def test_scan_is_a_linear_recurrence(trn3_core):
    decay, data = tile(np.full((2, 5), 0.5)), tile(np.ones((2, 5)))
    dst = like(data)
    nisa.tensor_tensor_scan(dst, decay, data, 0.0, nl.multiply, nl.add)
    assert np.array_equal(dst.values, np.tile([1, 1.5, 1.75, 1.875, 1.9375], (2, 1)))


@given(free=FREE, op=st.sampled_from([nl.add, nl.subtract, nl.multiply, nl.maximum, nl.minimum]))
def test_tensor_scalar_cumulative(free, op):
    compute = getattr(np, op.__name__)
    identity = {"add": 0, "subtract": 0, "multiply": 1, "maximum": -np.inf, "minimum": np.inf}[op.__name__]
    with on():
        data = tile(uniform(3, free))
        dst, start = like(data), tile(uniform(3, 1, seed=4))
        shifted = data.values + np.float32(0.5)

        def expected(state):
            result = np.empty_like(shifted)
            for i in range(free):
                result[:, i] = state = compute(shifted[:, i], state)
            return result

        nisa.tensor_scalar_cumulative(dst, data, nl.add, op, 0.5)
        first = expected(np.full(3, identity, np.float32))
        np.testing.assert_allclose(dst.values, first, rtol=1e-6)
        nisa.tensor_scalar_cumulative(dst, data, nl.add, op, 0.5, None, nisa.reduce_cmd.reduce)
        np.testing.assert_allclose(dst.values, expected(first[:, -1]), rtol=1e-6)
        nisa.tensor_scalar_cumulative(dst, data, nl.add, op, 0.5, start, nisa.reduce_cmd.load_reduce)
        np.testing.assert_allclose(dst.values, expected(start.values[:, 0]), rtol=1e-6)


def test_limits_of_running_results(trn3_core):
    data, psum = tile(uniform(4, 8)), tile(uniform(4, 8), buffer=nl.psum)
    with pytest.raises(NkiValidationError, match="cannot both be in PSUM"):
        nisa.tensor_tensor_scan(like(data), psum, tile(uniform(4, 8), buffer=nl.psum), 0.0, nl.add, nl.add)
    with pytest.raises(NkiValidationError, match="arithmetic"):
        nisa.tensor_tensor_scan(like(data), data, data, 0.0, nl.bitwise_and, nl.add)
    with pytest.raises(NkiValidationError, match="accepts one input"):
        nisa.tensor_tensor_scan(like(data), data, data, 0.0, nl.square, nl.add)
    with pytest.raises(NkiValidationError, match="cannot be int32, uint32 or tfloat32"):
        nisa.tensor_scalar_cumulative(like(data, nl.int32), data, nl.add, nl.add, 0.0)
    with pytest.raises(NkiValidationError, match=r"op1=nl.power is not allowed"):
        nisa.tensor_scalar_cumulative(like(data), data, nl.add, nl.power, 0.0)
    with pytest.raises(NkiValidationError, match="needs imm1"):
        nisa.tensor_scalar_cumulative(like(data), data, nl.add, nl.add, 0.0, None, nisa.reduce_cmd.load_reduce)
    with pytest.raises(NkiValidationError, match="requires reduce_cmd load_reduce"):
        nisa.tensor_scalar_cumulative(like(data), data, nl.add, nl.add, 0.0, 1.0)


def test_accumulators_are_shared_and_in_order(trn3_core):
    data = tile(np.ones((4, 8)))
    dst, total = like(data), nl.ndarray((4, 1), nl.float32)
    nisa.exponential(dst, tile(np.zeros((4, 8))), 0.0, None, nisa.reduce_cmd.reset_reduce)
    last = nisa.tensor_scalar_reduce(dst, data, nl.add, 1.0, nl.add, total, reduce_cmd=nisa.reduce_cmd.reduce)
    assert np.array_equal(total.values, np.full((4, 1), 24.0))
    assert [i.op for i in last.after] == ["exponential"]


def test_limits_of_the_accumulating_instructions(trn3_core):
    data, total = tile(uniform(4, 8)), nl.ndarray((4, 1), nl.float32)
    with pytest.raises(NkiValidationError, match="reverse0"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.add, total, reverse0=True)
    with pytest.raises(NkiValidationError, match="arithmetic"):
        nisa.tensor_scalar_reduce(like(data), data, nl.bitwise_or, 1, nl.add, total)
    with pytest.raises(NkiValidationError, match=r"reduce_op=nl.subtract is not allowed"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.subtract, total)
    with pytest.raises(NkiValidationError, match="one element in a partition"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.add, like(data))
    with pytest.raises(NkiValidationError, match=r"must be one of nisa\.reduce_cmd reset_reduce"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.add, None, False, nisa.reduce_cmd.idle)
    with pytest.raises(NkiValidationError, match="requires reduce_cmd load_reduce"):
        nisa.exponential(like(data), data, reduce_init=1.0)
    with pytest.raises(NkiValidationError, match="must be one of"):
        nisa.exponential(like(data, nl.uint32), data)
    with on("trn2"), pytest.raises(NkiValidationError, match="NeuronCore-v4"):
        nisa.exponential(like(data), data)


def test_each_partition_has_its_own_accumulator(trn3_core):
    data, total = tile(np.arange(64.0)[:, None]), nl.ndarray((64, 1), nl.float32)
    nisa.tensor_scalar_reduce(like(data), data, nl.add, 0.0, nl.add)
    more, again = tile(np.ones((64, 1))), nisa.reduce_cmd.reduce
    nisa.tensor_scalar_reduce(like(more)[32:64], more[32:64], nl.add, 0.0, nl.add, total[32:64], reduce_cmd=again)
    assert np.array_equal(total.values[32:], np.arange(33.0, 65.0)[:, None])
