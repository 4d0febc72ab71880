"""Rounding, saturation and uninitialised memory behave as on the chip."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from trninfer import simulator
from trninfer.simulator.machine.dtypes import DTYPES, convert, lookup

FLOATS = hnp.arrays(np.float32, st.integers(1, 40), elements=st.floats(width=32, allow_nan=True, allow_infinity=True))


@pytest.mark.parametrize("name", [d.name for d in DTYPES.values() if d.is_float and d.name != "tfloat32"])
@given(values=FLOATS)
def test_floats_round_as_the_true_type_does(name, values):
    dtype = lookup(name)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype.bits).astype(np.float32)
    np.testing.assert_array_equal(convert(values, dtype), expected)


@pytest.mark.parametrize(("name", "dropped"), [("bfloat16", 16), ("float16", 13), ("tfloat32", 13)])
def test_ties_round_to_even(name, dropped):
    """A number halfway between two neighbours rounds to the one with an even last bit: down, up, and up to the next
    power of two."""
    last = np.uint32(1 << dropped)
    low = np.array([0x3F800000, 0x3F800000 + last, 0x40000000 - last, 0xC0400000, 0xC0400000 + last], np.uint32)
    down = low.view(np.float32)
    up = (low + last).view(np.float32)
    ties = (low + last // 2).view(np.float32)
    np.testing.assert_array_equal(convert(ties, lookup(name)), np.where(low & last, up, down))


@given(values=FLOATS)
def test_tfloat32_keeps_ten_bits_of_mantissa(values):
    rounded = convert(values, lookup("tfloat32"))
    finite = np.isfinite(values) & (np.abs(values) > 1e-30) & (np.abs(values) < 1e38)
    assert np.all(np.abs(rounded[finite] - values[finite]) <= np.abs(values[finite]) * 2**-11)
    assert not (rounded.view(np.uint32)[~np.isnan(rounded)] & 0x1FFF).any()


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
@given(values=FLOATS)
def test_integers_round_to_even_and_saturate(name, values):
    info = np.iinfo(name)
    exact = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=info.max, neginf=info.min)
    expected = [min(max(round(v), info.min), info.max) for v in exact]
    np.testing.assert_array_equal(convert(values, lookup(name)), np.array(expected, dtype=name))


@given(hnp.arrays(np.int64, st.integers(1, 30), elements=st.integers(-(2**40), 2**40)))
def test_wider_integers_saturate(values):
    np.testing.assert_array_equal(convert(values, lookup("int16")), np.clip(values, -32768, 32767))


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES.values() if d.kind != "packed"])
def test_uninitialised_memory_is_distinguished(dtype):
    @nki.jit
    def kernel():
        tile = nl.ndarray((4, 8), getattr(nl, dtype), nl.sbuf)
        nisa.memset(tile[:, 0:4], 1)
        out = nl.ndarray((4, 8), getattr(nl, dtype), nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    (out,) = simulator.run(kernel).outputs
    values = out.astype(np.float32)
    assert (values[:, :4] == 1).all()
    assert (
        np.isnan(values[:, 4:]) if lookup(dtype).is_float else values[:, 4:] == (4 if dtype != "bool_" else 1)
    ).all()


@pytest.mark.parametrize(
    "array_type", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.int8, np.bool_]
)
def test_arrays_are_returned_in_their_dtype(array_type):
    @nki.jit
    def kernel(a):
        tile = nl.load(a)
        out = nl.ndarray(a.shape, a.dtype, nl.shared_hbm)
        nl.store(out, tile)
        return out

    a = np.arange(12).reshape(3, 4).astype(array_type)
    (out,) = simulator.run(kernel, a).outputs
    assert out.dtype == a.dtype
    np.testing.assert_array_equal(out, a)


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 2), np.float64), np.zeros((2, 2), np.complex64), np.zeros((0, 3), np.float32), np.array(["a"])],
)
def test_arrays_without_an_nki_dtype_are_refused(array):
    with pytest.raises(simulator.NkiValidationError, match=r"cannot be passed|empty"):
        simulator.run(nki.jit(lambda a: a), array)
