"""Device scalars of NKI 0.7: loading, arithmetic, use as addresses, and storing."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nki_tensors import counted, in_hbm, indices, on, psum, tile
from trninfer.simulator import NkiValidationError


def scalar(value, dtype=nl.int32):
    return nisa.scalar_load(tile(np.array([[value]]), dtype) if dtype == nl.int32 else in_hbm([[value]], dtype))


WORDS = st.integers(-(1 << 31), (1 << 31) - 1)


@given(a=WORDS, b=WORDS, wide=st.booleans())
def test_scalars_compute_and_wrap_at_their_width(a, b, wide):
    dtype, held = (nl.int64, np.int64) if wide else (nl.int32, np.int32)
    with on(), np.errstate(over="ignore"):
        x, y = scalar(a, dtype), scalar(b, dtype)
        left, right = np.array([a], held), np.array([b], held)
        expected = [left * right - 7, 3 + right, 5 - left, -left, left * np.array([b], held) * right, +right - left]
        found = [x * y - 7, 3 + y, 5 - x, -x, x * b * y, +y - x]
        for result, wanted in zip(found, expected):
            out = nl.ndarray((1, 1), dtype, nl.shared_hbm)
            nisa.scalar_store(out, result)
            assert out.values[0, 0] == wanted[0] and result.dtype == dtype


def test_the_documented_values_of_scalars(core):
    assert (scalar(100000) * 100000).read("it") == 1410065408
    assert (scalar((1 << 31) - 1) + np.int32(1)).read("it") == -(1 << 31) and (np.int64(2) * scalar(3)).read("it") == 6


def test_limits_of_scalars(core):
    x, wide = scalar(3), scalar(3, nl.int64)
    compared = x < 4
    for compute, message in (
        (lambda: x // 2, r"documents only \+, - and \*"),
        (lambda: x << 1, r"documents only \+, - and \*"),
        (lambda: x + 1.5, "allowed: integers and scalars"),
        (lambda: x + True, "allowed: integers and scalars"),
        (lambda: x + wide, "of int32 and int64: they must have the same dtype"),
        (lambda: wide < 4, "int64 scalars does not compile"),
        (lambda: compared + 1, "a comparison of scalars, whose result cannot be used"),
        (lambda: nisa.scalar_store(nl.ndarray((1, 1), nl.int32), compared), "whose result cannot be used"),
        (lambda: nl.fori_loop(0, compared, print), "whose result cannot be used"),
        (lambda: nisa.scalar_store(nl.ndarray((1, 1), nl.int32), 4), "got int; nisa.memset writes a constant"),
        (lambda: range(x), "only on the device"),
        (lambda: bool(x == 3), "only on the device"),
        (lambda: [1, 2][x], "only on the device"),
    ):
        with pytest.raises(TypeError, match=message):
            compute()
    for compute, message in (
        (lambda: nisa.scalar_load(indices([[1, 2]])), "must be one element of int32 or int64"),
        (lambda: nisa.scalar_load(indices([[1]], nl.uint32)), "must be one element of int32 or int64"),
        (lambda: nisa.scalar_load(psum((1, 1), nl.int32)), "in SBUF or HBM"),
        (lambda: nisa.scalar_store(nl.ndarray((1, 1), nl.int32), wide), "of the scalar's dtype, int64"),
        (lambda: nl.fori_loop(0, wide, print), "must be 32-bit, got an int64 scalar"),
        (lambda: tile(counted(4, 8))[:, nl.ds(wide, 2)], "an int64 scalar can only address HBM"),
        (lambda: nisa.tensor_copy(nl.ndarray((1, 1), nl.int64), indices([[1]])), "engines do not support int64"),
        (lambda: nisa.dma_copy(nl.ndarray((1, 1), nl.int64), indices([[1]])), "int64 can only be copied"),
    ):
        with pytest.raises(NkiValidationError, match=message):
            compute()


def test_scalars_address_memory(core):
    table, where = in_hbm(counted(6, 4)), in_hbm([[2]], nl.int64)
    for index in (scalar(2) * 2 - 1, nisa.scalar_load(where) + 1):
        row = nl.ndarray((1, 4), nl.float32)
        nisa.dma_copy(row, table[index])
        assert row.values.tolist() == [[12, 13, 14, 15]]
        nisa.dma_copy(row, table.ap([[4, 1], [1, 4]], scalar_offset=index))
        assert row.values.tolist() == [[12, 13, 14, 15]]
    wide = tile(counted(2, 8))
    nisa.tensor_copy(row[:, 0:2], wide[0:1, nl.ds(scalar(2) * 3, 2)])
    assert row.values[0, :2].tolist() == [6, 7]
    with pytest.raises(NkiValidationError, match="index 6 at run time is out of bounds"):
        nisa.dma_copy(row, table[scalar(6)])


def test_scalars_wait_for_their_operands(core):
    count = tile([[5]], nl.int32)
    first = nisa.scalar_load(count)
    total = first * 2 + first
    nisa.scalar_store(nl.ndarray((1, 1), nl.int32), total)
    load, multiply, add, store = core.program[-4:]
    assert [i.op for i in (load, multiply, add, store)] == ["scalar_load", "scalar *", "scalar +", "scalar_store"]
    assert set(multiply.after) == {load} and set(add.after) == {multiply, load} and set(store.after) == {add}


def test_a_shape_only_run_does_not_know_loaded_scalars():
    with on(functional=False):
        loaded = scalar(3)
        row = nl.ndarray((1, 4), nl.float32)
        nisa.dma_copy(row, in_hbm(counted(6, 4))[loaded + 1])
        with pytest.raises(NkiValidationError, match="unknown in a shape-only run"):
            nl.fori_loop(0, loaded, lambda i: None)
