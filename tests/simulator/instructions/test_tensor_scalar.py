"""A tensor and scalars or columns, with one operator after the other."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import new, on, tile, uniform
from trninfer.simulator import NkiValidationError


@pytest.mark.parametrize("reverse0", [False, True])
@pytest.mark.parametrize("reverse1", [False, True])
def test_tensor_scalar_with_two_operators(core, reverse0, reverse1):
    data, vector = uniform(6, 5), uniform(6, 1, seed=1)
    out = nl.ndarray((6, 5), nl.float32)
    nisa.tensor_scalar(out, tile(data), nl.subtract, tile(vector), reverse0, nl.subtract, 3.0, reverse1)
    first, three = (vector - data) if reverse0 else (data - vector), np.float32(3)
    expected = three - first if reverse1 else first - three
    np.testing.assert_array_equal(out.values, expected)


def test_scalar_tensor_tensor(core):
    a, b = uniform(6, 5), uniform(6, 5, seed=1)
    out = nl.ndarray((6, 5), nl.bfloat16)
    nisa.scalar_tensor_tensor(out, tile(a), nl.multiply, 0.5, nl.subtract, tile(b), reverse1=True)
    reference = nl.ndarray((6, 5), nl.bfloat16)
    reference.write(b - a * np.float32(0.5))
    np.testing.assert_array_equal(out.values, reference.values)


def test_rsqrt_runs_on_gpsimd_in_either_place():
    x = np.array([[4.0, 16.0]], np.float32)
    with on() as core:
        out = new((1, 2))
        nisa.tensor_scalar(out, tile(x), nl.add, 0.0, op1=nl.rsqrt)
        assert core.program[-1].engine is nisa.engine.gpsimd
        np.testing.assert_allclose(out.values, [[0.5, 0.25]])
        nisa.tensor_scalar(out, tile(x), nl.rsqrt, 0.0, engine=nisa.engine.gpsimd)
        np.testing.assert_allclose(out.values, [[0.5, 0.25]])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"op0": nl.add, "operand0": 1.0, "op1": nl.bitwise_or, "operand1": 1}, "both be bit operators or both arithm"),
        ({"op0": nl.add, "operand0": 1.0, "operand1": 2.0}, "operand1 requires an op1"),
        (
            {"op0": nl.bitwise_or, "operand0": 1, "engine": nisa.engine.gpsimd},
            "bitwise_or runs only on the Vector Engine",
        ),
        ({"op0": nl.add, "operand0": 1.0, "engine": nisa.engine.gpsimd}, "the GpSimd Engine supports only nl.rsqrt"),
        (
            {"op0": nl.maximum, "operand0": 1.0, "engine": nisa.engine.scalar},
            r"of trn2 does not support op0 and op1 \('maximum', None\); from trn2 on, it supports multiply and add",
        ),
    ],
)
def test_operators_that_an_engine_does_not_have(core, arguments, message):
    dtype = nl.int32 if arguments["op0"] is nl.bitwise_or else nl.float32
    with pytest.raises(NkiValidationError, match=message):
        nisa.tensor_scalar(new((2, 3), dtype), tile(np.ones((2, 3), np.int32), dtype), **arguments)


def test_the_scalar_engine_multiplies_and_adds_from_trn2_on():
    x = uniform(3, 5)
    for target, is_there in (("trn1", False), ("trn2", True)):
        with on(target) as core:
            out = new((3, 5))
            arguments = (out, tile(x), nl.multiply, 3.0, False, nl.add, 1.0, False, nisa.engine.scalar)
            if not is_there:
                with pytest.raises(NkiValidationError, match="from trn2 on, it supports"):
                    nisa.tensor_scalar(*arguments)
                continue
            nisa.tensor_scalar(*arguments)
            assert core.program[-1].engine is nisa.engine.scalar
            np.testing.assert_array_equal(out.values, x * np.float32(3) + np.float32(1))


def test_bits_are_those_of_the_integers(core):
    numbers = np.array([[5, -1, 2**31 - 1]], np.int32)
    out = new((1, 3), nl.int32)
    nisa.tensor_scalar(out, tile(numbers, nl.int32), nl.bitwise_and, 6, False, nl.bitwise_xor, 1)
    np.testing.assert_array_equal(out.values, (numbers & 6) ^ 1)


@pytest.mark.parametrize("low", [0.25, "column"])
def test_bounds_are_those_of_numpy(core, low):
    """As two numbers in one pass, and as a column and a number."""
    x, column = uniform(4, 6), uniform(4, 1, low=-1, high=0.5, seed=2)
    lower = column if low == "column" else np.float32(low)
    out = new((4, 6))
    nisa.tensor_scalar(
        out, tile(x), nl.maximum, tile(column) if low == "column" else low, op1=nl.minimum, operand1=0.75
    )
    np.testing.assert_array_equal(out.values, np.minimum(np.maximum(x, lower), np.float32(0.75)))
