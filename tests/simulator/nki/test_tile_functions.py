"""Functions of nki.language that take several instructions, compared with NumPy."""

import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from nki_tensors import on, tile, uniform
from trninfer.simulator import NkiValidationError
from trninfer.simulator.instructions.core import NeuronCore, running
from trninfer.simulator.machine.chip import find_target

SHAPES = st.sampled_from([(1, 1), (5, 7), (128, 3), (4, 3, 5)])
NUMBERS = st.floats(-1e6, 1e6, width=32)


@given(values=hnp.arrays(np.float32, SHAPES, elements=st.floats(width=32, allow_nan=False, allow_subnormal=False)))
def test_floor_ceil_and_trunc_are_exact(values):
    with on():
        data = tile(values)
        for function, expected in ((nl.floor, np.floor), (nl.ceil, np.ceil), (nl.trunc, np.trunc)):
            assert np.array_equal(function(data).values, expected(values)), function.__name__


@given(x=hnp.arrays(np.float32, (4, 6), elements=NUMBERS), y=st.floats(0.125, 64, width=32), minus=st.booleans())
def test_mod_and_fmod_leave_what_is_no_multiple(x, y, minus):
    y = -y if minus else y
    with on():
        for function, expected in ((nl.mod, np.mod), (nl.fmod, np.fmod)):
            exact = expected(x.astype(np.float64), y)
            error = np.abs(function(tile(x), y).values - exact)
            # A quotient close to an integer may round to it, which changes the remainder by y. It is stored in float32,
            # as a number of magnitude up to y.
            allowed = 1e-6 * np.abs(x).max() + 1e-6 + np.spacing(np.float32(abs(y)))
            assert np.minimum(error, np.abs(error - abs(y))).max() <= allowed


def test_mod_and_fmod_have_the_sign_of_divisor_and_dividend(core):
    x, y = tile([[7.0, -7.0, 7.0, -7.0]]), tile([[3.0, 3.0, -3.0, -3.0]])
    assert nl.mod(x, y).values.tolist() == [[1, 2, -2, -1]]
    assert nl.fmod(x, y).values.tolist() == [[1, -1, 1, -1]]
    assert nl.mod(7.0, y).values.tolist() == [[1, 1, -2, -2]]


@given(shape=SHAPES)
def test_divide_and_negative(shape):
    x, y = uniform(*shape), uniform(*shape, low=0.5, seed=1)
    with on():
        np.testing.assert_allclose(nl.divide(tile(x), tile(y)).values, x / y, rtol=1e-6)
        np.testing.assert_allclose(nl.divide(3.0, tile(y)).values, 3 / y, rtol=1e-6)
        np.testing.assert_allclose(nl.divide(tile(x), 3.0).values, x / 3, rtol=1e-6)
        assert np.array_equal(nl.negative(tile(x)).values, -x)
        assert nl.divide(tile(x), tile(y), nl.bfloat16).dtype == nl.bfloat16


def test_logical_not(core):
    assert nl.logical_not(tile([[0, 1, 1]], nl.uint8)).values.tolist() == [[1, 0, 0]]
    assert nl.logical_not(tile([[0.0, 1.0, 1.0]])).values.tolist() == [[1, 0, 0]]


@given(values=hnp.arrays(np.float32, (3, 8), elements=st.floats(-1000, 1000, width=32)))
def test_sin_and_cos_of_any_angle(values):
    with on():
        wide = values.astype(np.float64)
        np.testing.assert_allclose(nl.sin(tile(values)).values, np.sin(wide), atol=2e-4)
        np.testing.assert_allclose(nl.cos(tile(values)).values, np.cos(wide), atol=2e-4)


def test_sin_cos_and_tan_are_close_near_zero(core):
    x = np.linspace(-1.4, 1.4, 64, dtype=np.float32)[None]
    for function, expected in ((nl.sin, np.sin), (nl.cos, np.cos), (nl.tan, np.tan)):
        np.testing.assert_allclose(function(tile(x)).values, expected(x), rtol=1e-5, atol=1e-6)


@given(shape=SHAPES, number=st.booleans())
def test_where(shape, number):
    x, y = uniform(*shape), uniform(*shape, seed=1)
    condition = (uniform(*shape, seed=2) > 0).astype(np.float32)
    with on():
        assert np.array_equal(nl.where(tile(condition), tile(x), tile(y)).values, np.where(condition, x, y))
        result = nl.where(tile(condition), 1.5 if number else tile(x), -1.0)
        assert np.array_equal(result.values, np.where(condition, 1.5 if number else x, np.float32(-1)))


@given(shape=st.sampled_from([(5, 7), (128, 1), (4, 3, 5), (2, 3, 2, 4)]), axes=st.integers(1, 3), keep=st.booleans())
def test_mean_var_all_and_softmax(shape, axes, keep):
    axis = tuple(range(max(1, len(shape) - axes), len(shape)))
    x = uniform(*shape)
    with on():
        data = tile(x)
        kept = nl.mean(data, axis, keepdims=True)
        np.testing.assert_allclose(kept.values, x.mean(axis=axis, keepdims=True), atol=1e-5)
        flat = nl.mean(data, axis).values
        np.testing.assert_allclose(flat.reshape(-1), x.mean(axis=axis).reshape(-1), atol=1e-5)
        assert flat.shape == (x.mean(axis=axis).shape if len(shape) - len(axis) > 1 else (shape[0], 1))
        np.testing.assert_allclose(nl.var(data, axis, keepdims=keep).values, x.var(axis=axis, keepdims=True), atol=1e-5)
        bits = tile((x > -1).astype(np.float32))
        assert np.array_equal(nl.all(bits, axis).values.reshape(-1), (x > -1).all(axis=axis).reshape(-1))
        powers = np.exp(x - x.max(axis=axis, keepdims=True))
        expected = powers / powers.sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(nl.softmax(data, axis).values, expected, rtol=1e-5)


def test_softmax_takes_the_last_axis_and_keeps_its_dtype(core):
    x = tile(uniform(4, 9), nl.bfloat16)
    assert nl.softmax(x).dtype == nl.bfloat16
    np.testing.assert_allclose(nl.softmax(x, dtype=nl.float32).values.sum(axis=1), 1, rtol=1e-6)


@given(columns=st.sampled_from([1, 8, 129]), epsilon=st.sampled_from([1e-6, 0.5]))
def test_rms_norm(columns, epsilon):
    x, w = uniform(6, columns), uniform(6, columns, seed=1)
    with on():
        result = nl.rms_norm(tile(x), tile(w), 1, columns, epsilon)
        expected = x / np.sqrt(np.square(x).sum(axis=1, keepdims=True) / columns + np.float32(epsilon)) * w
        np.testing.assert_allclose(result.values, expected, rtol=1e-4, atol=1e-6)


@given(shape=st.sampled_from([(1, 5), (70, 5), (70, 1), (1, 1)]), dtype=st.sampled_from([None, nl.bfloat16]))
def test_broadcast_to(shape, dtype):
    x = np.round(uniform(*shape) * 8)
    with on():
        result = nl.broadcast_to(tile(x), (70, 5), dtype)
        assert np.array_equal(result.values, np.broadcast_to(x, (70, 5))) and result.dtype == (dtype or nl.float32)


def test_broadcast_to_refuses_other_sizes_and_returns_what_stays(core):
    x = tile(uniform(4, 5))
    assert nl.broadcast_to(x, (4, 5)) is x
    for shape in ((4, 10), (8, 5), (4, 5, 1)):
        with pytest.raises(NkiValidationError, match="only dimensions of 1 can be broadcast"):
            nl.broadcast_to(x, shape)


def test_load_transpose2d_and_gather_flattened(core):
    x = uniform(40, 16)
    source = tile(x, buffer=nl.shared_hbm)
    assert np.array_equal(nl.load_transpose2d(source).values, x.T)
    assert nl.load_transpose2d(source, nl.bfloat16).dtype == nl.bfloat16
    index = np.random.default_rng(0).integers(0, 16, (40, 5))
    result = nl.gather_flattened(tile(x), tile(index, nl.int32))
    assert np.array_equal(result.values, np.take_along_axis(x, index, axis=1))
    with pytest.raises(NkiValidationError, match="axis 0"):
        nl.gather_flattened(tile(x), tile(index, nl.uint32), 1)
    with pytest.raises(NkiValidationError, match="2 dimensions"):
        nl.load_transpose2d(nl.ndarray((2, 3, 4), nl.float32, nl.shared_hbm))


def test_rand_repeats_for_a_seed(core):
    seed = tile([[42]], nl.int32)
    nl.random_seed(seed)
    first, second = nl.rand((128, 100), nl.float32), nl.rand((128, 100), nl.float32)
    nl.random_seed(seed)
    third = nl.rand((128, 100), nl.float32, nl.shared_hbm)
    assert np.array_equal(first.values, third.values) and not np.array_equal(first.values, second.values)
    assert first.values.min() >= 0 and first.values.max() < 1 and abs(first.values.mean() - 0.5) < 0.01


def test_dropout(core):
    x = tile(np.ones((128, 200)))
    dropped = nl.dropout(x, 0.25).values
    assert set(np.unique(dropped)) == {0, 1} and abs(dropped.mean() - 0.75) < 0.02


def test_a_shape_only_walk_takes_the_same_instructions():
    def walk(core):
        with running(core):
            x = nl.ndarray((16, 32), nl.float32) if not core.functional else tile(uniform(16, 32))
            for result in (nl.softmax(x), nl.floor(x), nl.cos(x), nl.var(x, 1), nl.where(x, x, 0.0), nl.mod(x, 3.0)):
                assert core.functional or result.storage.array is None
            nl.dropout(x, 0.5), nl.rand((4, 4), nl.float32)
        return [instruction.op for instruction in core.program]

    target = find_target("trn2")
    assert walk(NeuronCore(target)) == walk(NeuronCore(target, functional=False))
