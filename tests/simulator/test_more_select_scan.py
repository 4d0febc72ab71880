"""Selections, running results and the Vector Engine's accumulators, against NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trninfer.simulator import NkiValidationError
from trninfer.simulator.core import NeuronCore, running
from trninfer.simulator.targets import find_target

FREE = st.sampled_from([1, 2, 7, 64, 129])
FLOAT32_MIN = np.finfo(np.float32).min
COMPARISONS = {nl.equal: np.equal, nl.less: np.less, nl.less_equal: np.less_equal, nl.greater: np.greater}


def on(target="trn2"):
    return running(NeuronCore(find_target(target)))


@pytest.fixture
def core():
    core = NeuronCore(find_target("trn3"))
    with running(core):
        yield core


def tile(values, dtype=nl.float32, buffer=nl.sbuf):
    tensor = nl.ndarray(np.shape(values), dtype, buffer)
    tensor.write(np.asarray(values))
    return tensor


def like(tensor, dtype=None):
    return nl.ndarray(tensor.shape, dtype or tensor.dtype)


def uniform(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def bits(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 2, shape)


# Selections


@given(free=FREE, dtype=st.sampled_from([nl.uint8, nl.uint16, nl.uint32]), reverse=st.booleans())
def test_tensor_copy_predicated(free, dtype, reverse):
    with on():
        mask, dst = tile(bits(9, free) * 3, dtype), tile(uniform(9, free))
        before, source = dst.values.copy(), tile(uniform(9, free, seed=2))
        nisa.tensor_copy_predicated(dst, source, mask, reverse)
        chosen = (mask.values != 0) ^ reverse
        assert np.array_equal(dst.values, np.where(chosen, source.values, before))
        nisa.tensor_copy_predicated(dst, 0.5, mask, not reverse)
        assert np.array_equal(dst.values, np.where(chosen, source.values, np.float32(0.5)))


def test_limits_of_tensor_copy_predicated(core):
    dst, mask = tile(uniform(4, 8)), tile(bits(4, 8), nl.uint8)
    with pytest.raises(NkiValidationError, match=r"predicate .* must be uint8"):
        nisa.tensor_copy_predicated(dst, 1.0, tile(bits(4, 8), nl.int32))
    with pytest.raises(NkiValidationError, match="must have the dtype of dst"):
        nisa.tensor_copy_predicated(dst, tile(uniform(4, 8), nl.bfloat16), mask)
    with pytest.raises(NkiValidationError, match="cannot both be in PSUM"):
        nisa.tensor_copy_predicated(dst, tile(uniform(4, 8), buffer=nl.psum), tile(bits(4, 8), nl.uint8, nl.psum))


@given(free=FREE, reverse=st.booleans(), vector=st.booleans())
def test_select_reduce(free, reverse, vector):
    with on():
        mask, data = tile(bits(5, free), nl.int8), tile(uniform(5, free))
        other = tile(uniform(5, 1, seed=3)) if vector else -7.0
        dst, top = like(data), nl.ndarray((5, 1), nl.float32)
        nisa.select_reduce(dst, mask, data, other, top, nisa.reduce_cmd.reset_reduce, nl.maximum, reverse)
        expected = np.where((mask.values != 0) ^ reverse, data.values, other.values if vector else np.float32(-7))
        assert np.array_equal(dst.values, expected) and np.array_equal(top.values[:, 0], expected.max(axis=1))
        higher = tile(np.full((5, free), 5.0))
        nisa.select_reduce(dst, mask, higher, -9.0, None, nisa.reduce_cmd.reduce, nl.maximum)
        nisa.select_reduce(dst, mask, data, -9.0, top, nisa.reduce_cmd.reduce, nl.maximum)
        ever = np.maximum(expected.max(axis=1), np.where(mask.values.any(axis=1), 5, -9))
        assert np.array_equal(top.values[:, 0], np.maximum(ever, np.where(mask.values, data.values, -9).max(axis=1)))


def test_limits_of_select_reduce(core):
    data, mask, top = tile(uniform(4, 8)), tile(bits(4, 8), nl.uint8), nl.ndarray((4, 1), nl.float32)
    with pytest.raises(NkiValidationError, match="reduce_cmd that reduces"):
        nisa.select_reduce(like(data), mask, data, 0.0, top)
    with pytest.raises(NkiValidationError, match="int8, uint8, int16 or uint16"):
        nisa.select_reduce(like(data), tile(bits(4, 8), nl.uint32), data, 0.0)
    with pytest.raises(NkiValidationError, match=r"allowed: nl.maximum"):
        nisa.select_reduce(like(data), mask, data, 0.0, reduce_op=nl.add)
    with pytest.raises(NkiValidationError, match="cannot be tfloat32, int32 or uint32"):
        nisa.select_reduce(like(data), mask, tile(bits(4, 8), nl.int32), 0.0)


@given(free=FREE, begin=st.integers(0, 9), first=st.sampled_from(list(COMPARISONS)), second=st.sampled_from([nl.less]))
def test_range_select(free, begin, first, second):
    with on():
        data, low, high = tile(uniform(6, free)), tile(np.arange(6.0)[:, None]), tile(np.full((6, 1), 40.0))
        dst, top = like(data), nl.ndarray((6, 1), nl.float32)
        nisa.range_select(dst, data, first, second, low, high, reduce_res=top, range_start=begin)
        position = begin + np.arange(free)
        inside = COMPARISONS[first](position, low.values) & np.less(position, 40)
        expected = np.where(inside, data.values, FLOAT32_MIN)
        assert np.array_equal(dst.values, expected) and np.array_equal(top.values[:, 0], expected.max(axis=1))


def test_limits_of_range_select():
    with on("trn1"), pytest.raises(NkiValidationError, match="NeuronCore-v3"):
        data, bound = tile(uniform(4, 8)), tile(uniform(4, 1))
        nisa.range_select(like(data), data, nl.less, nl.less, bound, bound)
    with on("trn2"):
        data, bound = tile(uniform(4, 8)), tile(uniform(4, 1))
        with pytest.raises(NkiValidationError, match="on_false_value must be"):
            nisa.range_select(like(data), data, nl.less, nl.less, bound, bound, on_false_value=0.0)
        nisa.range_select(like(data), data, nl.less, nl.less, bound, bound, on_false_value=-3.4028235e38)
        with pytest.raises(NkiValidationError, match="must be a comparison"):
            nisa.range_select(like(data), data, nl.add, nl.less, bound, bound)
        with pytest.raises(NkiValidationError, match="must be float32"):
            nisa.range_select(like(data), data, nl.less, nl.less, tile(uniform(4, 1), nl.bfloat16), bound)
        with pytest.raises(NkiValidationError, match="of a float type"):
            nisa.range_select(like(data), tile(bits(4, 8), nl.int8), nl.less, nl.less, bound, bound)
        with pytest.raises(NkiValidationError, match=r"2\^24"):
            nisa.range_select(like(data), data, nl.less, nl.less, bound, bound, range_start=1 << 24)


@given(rows=st.integers(1, 40), columns=st.integers(1, 40), offset=st.integers(-5, 5))
def test_affine_select_makes_a_causal_mask(rows, columns, offset):
    with on():
        scores = tile(uniform(rows, columns))
        dst = like(scores)
        nisa.affine_select(dst, [[-1, columns]], 1, scores, -9.0, nl.greater_equal, offset)
        keep = np.arange(rows)[:, None] - np.arange(columns) + offset >= 0
        assert np.array_equal(dst.values, np.where(keep, scores.values, np.float32(-9)))


def test_limits_of_affine_select(core):
    data = tile(uniform(4, 8))
    with pytest.raises(NkiValidationError, match="makes 7 elements"):
        nisa.affine_select(like(data), [[1, 7]], 0, data, 0.0)
    with pytest.raises(NkiValidationError, match="must be in SBUF"):
        nisa.affine_select(nl.ndarray((4, 8), nl.float32, nl.psum), [[1, 8]], 0, data, 0.0)
    with pytest.raises(NkiValidationError, match="must be a comparison"):
        nisa.affine_select(like(data), [[1, 8]], 0, data, 0.0, nl.multiply)
    with pytest.raises(NkiValidationError, match="must be a number"):
        nisa.affine_select(like(data), [[1, 8]], 0, data, data)


# Running results


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


def test_scan_is_a_linear_recurrence(core):
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


def test_limits_of_running_results(core):
    data, psum = tile(uniform(4, 8)), tile(uniform(4, 8), buffer=nl.psum)
    with pytest.raises(NkiValidationError, match="cannot both be in PSUM"):
        nisa.tensor_tensor_scan(like(data), psum, tile(uniform(4, 8), buffer=nl.psum), 0.0, nl.add, nl.add)
    with pytest.raises(NkiValidationError, match="arithmetic"):
        nisa.tensor_tensor_scan(like(data), data, data, 0.0, nl.bitwise_and, nl.add)
    with pytest.raises(NkiValidationError, match="takes one input"):
        nisa.tensor_tensor_scan(like(data), data, data, 0.0, nl.square, nl.add)
    with pytest.raises(NkiValidationError, match="cannot be int32 or uint32"):
        nisa.tensor_scalar_cumulative(like(data, nl.int32), data, nl.add, nl.add, 0.0)
    with pytest.raises(NkiValidationError, match=r"reduce_op=nl.power is not allowed"):
        nisa.tensor_scalar_cumulative(like(data), data, nl.add, nl.power, 0.0)
    with pytest.raises(NkiValidationError, match="needs imm1"):
        nisa.tensor_scalar_cumulative(like(data), data, nl.add, nl.add, 0.0, None, nisa.reduce_cmd.load_reduce)
    with pytest.raises(NkiValidationError, match="load_reduce only"):
        nisa.tensor_scalar_cumulative(like(data), data, nl.add, nl.add, 0.0, 1.0)


# The accumulators


@given(free=FREE, op=st.sampled_from([nl.add, nl.multiply, nl.maximum, nl.minimum]), negate=st.booleans())
def test_tensor_scalar_reduce(free, op, negate):
    reduce = getattr(np, op.__name__).reduce
    with on():
        data = tile(uniform(4, free))
        dst, total, start = like(data), nl.ndarray((4, 1), nl.float32), tile(uniform(4, 1, seed=5))
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 0.5, op, total, reduce_res_negate=negate)
        halves = data.values * np.float32(0.5)
        once = reduce(halves, axis=1)
        np.testing.assert_allclose(dst.values, halves)
        np.testing.assert_allclose(total.values[:, 0], -once if negate else once, rtol=1e-5)
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 0.5, op, total, reduce_cmd=nisa.reduce_cmd.reduce)
        np.testing.assert_allclose(total.values[:, 0], reduce(np.stack([once, once]), axis=0), rtol=1e-5)
        load = nisa.reduce_cmd.load_reduce
        nisa.tensor_scalar_reduce(dst, data, nl.multiply, 0.5, op, total, reduce_cmd=load, reduce_init=start)
        np.testing.assert_allclose(total.values[:, 0], reduce(np.stack([start.values[:, 0], once]), axis=0), rtol=1e-5)


def test_accumulators_are_shared_and_in_order(core):
    data = tile(np.ones((4, 8)))
    dst, total = like(data), nl.ndarray((4, 1), nl.float32)
    nisa.exponential(dst, tile(np.zeros((4, 8))), 0.0, None, nisa.reduce_cmd.reset_reduce)
    last = nisa.tensor_scalar_reduce(dst, data, nl.add, 1.0, nl.add, total, reduce_cmd=nisa.reduce_cmd.reduce)
    assert np.array_equal(total.values, np.full((4, 1), 24.0))
    assert [i.op for i in last.after] == ["exponential"]


@given(free=FREE, vector=st.booleans())
def test_exponential(free, vector):
    with on("trn3"):
        data = tile(uniform(4, free))
        top = tile(data.values.max(axis=1, keepdims=True)) if vector else 1.5
        dst, total = like(data), nl.ndarray((4, 1), nl.float32)
        nisa.exponential(dst, data, top, total, nisa.reduce_cmd.load_reduce, 2.0)
        expected = np.exp(data.values - (top.values if vector else np.float32(1.5)))
        np.testing.assert_allclose(dst.values, expected, rtol=1e-6)
        np.testing.assert_allclose(total.values[:, 0], 2 + expected.sum(axis=1), rtol=1e-6)


def test_limits_of_the_accumulating_instructions(core):
    data, total = tile(uniform(4, 8)), nl.ndarray((4, 1), nl.float32)
    with pytest.raises(NkiValidationError, match="reverse0"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.add, total, reverse0=True)
    with pytest.raises(NkiValidationError, match="arithmetic"):
        nisa.tensor_scalar_reduce(like(data), data, nl.bitwise_or, 1, nl.add, total)
    with pytest.raises(NkiValidationError, match=r"reduce_op=nl.subtract is not allowed"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.subtract, total)
    with pytest.raises(NkiValidationError, match="one element in a partition"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.add, like(data))
    with pytest.raises(NkiValidationError, match="allowed: reset_reduce"):
        nisa.tensor_scalar_reduce(like(data), data, nl.add, 1.0, nl.add, None, False, nisa.reduce_cmd.idle)
    with pytest.raises(NkiValidationError, match="load_reduce only"):
        nisa.exponential(like(data), data, reduce_init=1.0)
    with pytest.raises(NkiValidationError, match="must be one of"):
        nisa.exponential(like(data, nl.uint32), data)
    with on("trn2"), pytest.raises(NkiValidationError, match="NeuronCore-v4"):
        nisa.exponential(like(data), data)


@pytest.mark.parametrize(
    ("op0", "op1", "before"),
    [
        (nl.multiply, nl.add, lambda x: x * 2 + 0.5),
        (nl.multiply, nl.subtract, lambda x: x * 2 - 0.5),
        (nl.multiply, nl.bypass, lambda x: x * 2),
        (nl.add, nl.bypass, lambda x: x + 2),
        (nl.subtract, nl.bypass, lambda x: x - 2),
        (nl.bypass, nl.bypass, lambda x: x),
    ],
)
def test_activate2(core, op0, op1, before):
    data = tile(uniform(4, 8))
    dst, total = like(data), nl.ndarray((4, 1), nl.float32)
    nisa.activate2(
        dst,
        nl.tanh,
        data,
        2.0,
        0.5,
        op0,
        op1,
        reduce_op=nl.maximum,
        reduce_res=total,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    expected = np.tanh(before(data.values))
    np.testing.assert_allclose(dst.values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total.values[:, 0], expected.max(axis=1), rtol=1e-5)


def test_activate2_reverses_and_takes_columns_and_a_slope(core):
    data, column, slope = tile(uniform(4, 8)), tile(uniform(4, 1, seed=1)), tile(uniform(4, 1, seed=2))
    dst = like(data)
    nisa.activate2(dst, nl.prelu, data, column, 1.0, nl.subtract, nl.bypass, slope, reverse0=True)
    expected = column.values - data.values
    np.testing.assert_allclose(dst.values, np.where(expected > 0, expected, slope.values * expected), rtol=1e-6)


def test_limits_of_activate2(core):
    data = tile(uniform(4, 8))
    with pytest.raises(NkiValidationError, match=r"op0 and op1 \(add, multiply\)"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.add, nl.multiply)
    with pytest.raises(NkiValidationError, match="reverse0 needs"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.bypass, nl.bypass, reverse0=True)
    with pytest.raises(NkiValidationError, match="one dtype"):
        pair = tile(uniform(4, 1)), tile(uniform(4, 1), nl.bfloat16)
        nisa.activate2(like(data), nl.exp, data, *pair, nl.multiply, nl.add)
    with pytest.raises(NkiValidationError, match="reduce_op"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.multiply, nl.add, reduce_cmd=nisa.reduce_cmd.reset_reduce)
    with on("trn2"), pytest.raises(NkiValidationError, match="NeuronCore-v4"):
        nisa.activate2(like(data), nl.exp, data, 1.0, 1.0, nl.multiply, nl.add)


def test_each_partition_has_its_own_accumulator(core):
    data, total = tile(np.arange(64.0)[:, None]), nl.ndarray((64, 1), nl.float32)
    nisa.tensor_scalar_reduce(like(data), data, nl.add, 0.0, nl.add)
    more, again = tile(np.ones((64, 1))), nisa.reduce_cmd.reduce
    nisa.tensor_scalar_reduce(like(more)[32:64], more[32:64], nl.add, 0.0, nl.add, total[32:64], reduce_cmd=again)
    assert np.array_equal(total.values[32:], np.arange(33.0, 65.0)[:, None])


@pytest.mark.parametrize(
    "write",
    [
        lambda dst, data: nisa.tensor_copy_predicated(dst, 1.0, like(data, nl.uint8)),
        lambda dst, data: nisa.affine_select(dst, [[1, 8]], 0, data, 0.0),
        lambda dst, data: nisa.tensor_tensor_scan(dst, data, data, 0.0, nl.add, nl.add),
        lambda dst, data: nisa.tensor_scalar_cumulative(dst, data, nl.add, nl.add, 0.0),
        lambda dst, data: nisa.tensor_scalar_reduce(dst, data, nl.add, 0.0, nl.add),
        lambda dst, data: nisa.nc_match_replace8(dst, data, data, 0.0),
        lambda dst, data: nisa.exponential(dst, data),
    ],
)
def test_a_broadcast_destination_is_refused(core, write):
    data = tile(uniform(4, 8))
    with pytest.raises(NkiValidationError, match="written several times"):
        write(nl.ndarray((4, 1), nl.float32).broadcast(1, 8), data)
