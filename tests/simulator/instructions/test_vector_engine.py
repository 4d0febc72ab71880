"""Copies, operators and reductions, compared with NumPy; test_every_instruction.py covers every dtype and odd sizes."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import new, on, tile, uniform


def test_int32_adds_exactly_on_gpsimd_and_through_float32_on_vector(core):
    a, b = np.array([[2**24]], np.int32), np.array([[1]], np.int32)
    out = nl.ndarray((1, 1), nl.int32)
    nisa.tensor_tensor(out, tile(a, nl.int32), tile(b, nl.int32), nl.add)
    assert out.values[0, 0] == 2**24 + 1 and core.program[-1].engine is nisa.engine.gpsimd
    nisa.tensor_tensor(out, tile(a, nl.int32), tile(b, nl.int32), nl.add, engine=nisa.engine.vector)
    assert out.values[0, 0] == 2**24


@pytest.mark.parametrize("axis", [2, (1, 2), -1, [1, 2]])
@pytest.mark.parametrize(
    "name,function", [("add", np.sum), ("maximum", np.max), ("minimum", np.min), ("multiply", np.prod)]
)
def test_tensor_reduce(core, axis, name, function):
    data = uniform(4, 3, 5)
    axes = tuple(a % 3 for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    out = nl.ndarray((4, 1 if len(axes) == 2 else 3), nl.float32)
    nisa.tensor_reduce(out, getattr(nl, name), tile(data), axis, negate=True)
    np.testing.assert_allclose(out.values, -function(data, axis=axes).reshape(out.shape), rtol=1e-6)


def test_two_by_two_pooling_is_a_reduce_over_a_permuted_view(core):
    data = uniform(4, 6, 8)
    out = nl.ndarray((4, 3, 4), nl.float32)
    windows = tile(data).reshape((4, 3, 2, 4, 2)).permute((0, 1, 3, 2, 4))
    nisa.tensor_reduce(out, nl.maximum, windows, (3, 4))
    np.testing.assert_array_equal(out.values, data.reshape(4, 3, 2, 4, 2).max(axis=(2, 4)))


def test_reciprocal(core):
    data = uniform(3, 4) + 3
    out = nl.ndarray((3, 4), nl.float32)
    nisa.reciprocal(out, tile(data))
    np.testing.assert_array_equal(out.values, np.float32(1) / data)


@pytest.mark.parametrize("copy", [nisa.tensor_copy, nisa.dma_copy])
def test_copies_are_exact_within_a_dtype_and_go_by_way_of_float32_between_two(copy):
    odd = np.array([[2**24 + 1, 2**31 - 1, 7, 0]], np.int32)
    with on():
        same, other = new((1, 4), nl.int32), new((1, 4), nl.uint32)
        copy(same, tile(odd, nl.int32))
        copy(other, tile(odd, nl.int32))
        np.testing.assert_array_equal(same.values, odd)
        np.testing.assert_array_equal(other.values, [[2**24, 2**31, 7, 0]])


def test_copy_of_a_tile_is_exact():
    with on():
        np.testing.assert_array_equal(nl.copy(tile(np.array([[2**24 + 1]], np.int32), nl.int32)).values, [[2**24 + 1]])


def test_integer_powers_may_be_negative():
    with on():
        out = new((1, 3), nl.int32)
        base, exponent = np.array([[2, 1, -1]], np.int32), np.array([[-1, -5, -3]], np.int32)
        nisa.tensor_tensor(out, tile(base, nl.int32), tile(exponent, nl.int32), nl.power)
        np.testing.assert_array_equal(out.values, [[0, 1, -1]])


def test_integer_arithmetic_wraps_and_bits_keep_their_pattern():
    with on():
        wrapped, bits = new((1, 2), nl.int32), new((1, 2), nl.int32)
        a, b = np.array([[2**31 - 1, -1]], np.int32), np.array([[1, 1]], np.int32)
        nisa.tensor_tensor(wrapped, tile(a, nl.int32), tile(b, nl.int32), nl.add)
        np.testing.assert_array_equal(wrapped.values, [[-(2**31), 0]])
        high = np.array([[2**31, 2**32 - 1]], np.uint32)
        nisa.tensor_tensor(bits, tile(high, nl.uint32), tile(a, nl.int32), nl.bitwise_or)
        np.testing.assert_array_equal(bits.values, (high | a.view(np.uint32)).view(np.int32))


def test_an_axis_may_be_counted_from_the_end():
    with on():
        data = new((4, 6))
        assert nl.expand_dims(data, -1).shape == nl.expand_dims(data, 2).shape == (4, 6, 1)
        assert nl.expand_dims(data, 1).shape == (4, 1, 6)
