"""Selections, compared with NumPy."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import like, on, tile, uniform
from trninfer.simulator import NkiValidationError

FREE = st.sampled_from([1, 2, 7, 64, 129])
FLOAT32_MIN = np.finfo(np.float32).min
COMPARISONS = {nl.equal: np.equal, nl.less: np.less, nl.less_equal: np.less_equal, nl.greater: np.greater}


def bits(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 2, shape)


@given(free=FREE, dtype=st.sampled_from([nl.uint8, nl.uint16, nl.uint32]), reverse=st.booleans())
def test_tensor_copy_predicated(free, dtype, reverse):
    with on():
        mask, dst = tile(bits(9, free) * 3, dtype), tile(uniform(9, free))
        before, source = dst.values.copy(), tile(uniform(9, free, seed=2))
        nisa.tensor_copy_predicated(dst, source, mask)
        copied = np.where(mask.values != 0, source.values, before)
        assert np.array_equal(dst.values, copied)
        nisa.tensor_copy_predicated(dst, 0.5, mask, reverse)
        assert np.array_equal(dst.values, np.where((mask.values != 0) ^ reverse, np.float32(0.5), copied))
        whole = tile(bits(9, free), nl.int8)  # a Python int fits any integer dtype
        nisa.tensor_copy_predicated(whole, 7, mask, reverse_pred=True)
        assert (whole.values[mask.values == 0] == 7).all()


@pytest.mark.parametrize(
    ("src", "dtype", "reverse", "message"),
    [
        ("tile", nl.float32, True, "reverse_pred=True needs a number as src"),
        (1, nl.float32, False, "src 1 must be a float"),
        (np.int64(1), nl.bfloat16, False, "must be a float"),
        (1.0, nl.int32, False, "src 1.0 must be an integer"),
        (True, nl.float32, False, "must be a float"),
    ],
)
def test_tensor_copy_predicated_takes_numbers_of_the_kind_of_dst(core, src, dtype, reverse, message):
    dst, mask = tile(bits(4, 8), dtype), tile(bits(4, 8), nl.uint8)
    with pytest.raises(NkiValidationError, match=message):
        nisa.tensor_copy_predicated(dst, tile(bits(4, 8), dtype) if src == "tile" else src, mask, reverse)


@pytest.mark.parametrize("shape", [(4, 2, 2, 2), (4, 2, 2, 2, 2)])
def test_predicated_copies_and_reductions_have_three_free_dimensions(trn3_core, shape):
    calls = [
        lambda x, y, m, s: nisa.tensor_copy_predicated(y, x, m),
        lambda x, y, m, s: nisa.tensor_copy_predicated(y, 1.0, m),
        lambda x, y, m, s: nisa.tensor_scalar_reduce(y, x, nl.add, 1.0, nl.add, s),
        lambda x, y, m, s: nisa.exponential(y, x),
    ]
    for call in calls:
        x, y = tile(np.ones(shape)), tile(np.ones(shape))
        mask, total = tile(np.ones(shape), nl.uint8), nl.ndarray((4, 1), nl.float32)
        if len(shape) <= 4:
            call(x, y, mask, total)
        else:
            with pytest.raises(NkiValidationError, match="must have at most 4 dimensions, got 5"):
                call(x, y, mask, total)


def test_limits_of_tensor_copy_predicated(trn3_core):
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


def test_limits_of_select_reduce(trn3_core):
    data, mask, top = tile(uniform(4, 8)), tile(bits(4, 8), nl.uint8), nl.ndarray((4, 1), nl.float32)
    with pytest.raises(NkiValidationError, match="reduce_cmd other than idle"):
        nisa.select_reduce(like(data), mask, data, 0.0, top)
    with pytest.raises(NkiValidationError, match="int8, uint8, int16 or uint16"):
        nisa.select_reduce(like(data), tile(bits(4, 8), nl.uint32), data, 0.0)
    with pytest.raises(NkiValidationError, match=r"must be nl.maximum"):
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


def test_limits_of_affine_select(trn3_core):
    data = tile(uniform(4, 8))
    with pytest.raises(NkiValidationError, match="generates 7 elements"):
        nisa.affine_select(like(data), [[1, 7]], 0, data, 0.0)
    with pytest.raises(NkiValidationError, match="must be in SBUF"):
        nisa.affine_select(nl.ndarray((4, 8), nl.float32, nl.psum), [[1, 8]], 0, data, 0.0)
    with pytest.raises(NkiValidationError, match="must be a comparison"):
        nisa.affine_select(like(data), [[1, 8]], 0, data, 0.0, nl.multiply)
    with pytest.raises(NkiValidationError, match="must be a number"):
        nisa.affine_select(like(data), [[1, 8]], 0, data, data)
