"""Operators whose meaning the documentation defines."""

import math
import warnings

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import hbm, new, on, tile
from trninfer import simulator
from trninfer.simulator import NkiValidationError
from trninfer.simulator.machine.errors import UndefinedOnChipWarning


def test_magnitudes_are_compared_and_signed_values_returned():
    x, y = np.array([[-5, 1, 2, -3.0]], np.float32), np.array([[3, -1, -4, 1.0]], np.float32)
    with on("trn3"):
        larger, smaller = new((1, 4)), new((1, 4))
        nisa.tensor_tensor(larger, tile(x), tile(y), nl.abs_max)
        nisa.tensor_tensor(smaller, tile(x), tile(y), nl.abs_min)
        np.testing.assert_array_equal(larger.values, [[-5, -1, -4, -3]])  # the second of equal elements
        np.testing.assert_array_equal(smaller.values, [[3, -1, 2, 1]])
    with on("trn2"), pytest.raises(NkiValidationError, match=r"nl\.abs_max requires NeuronCore-v4"):
        nisa.tensor_scalar(new((1, 4)), tile(x), nl.abs_max, 1.0)


def test_sin_extrapolates_a_cubic_beyond_pi():
    x = np.array([[9.0, -9.0, 3.0, -np.pi / 2]], np.float32)
    with on():
        out = new((1, 4))
        with pytest.warns(UndefinedOnChipWarning, match="for -pi to pi"):
            nisa.activation(out, nl.sin, tile(x))
        # the numbers in the documentation of nki-act-func
        np.testing.assert_allclose(out.values[0, :2], [27.65, -27.65], atol=5e-3)
        np.testing.assert_allclose(out.values[0, 2:], np.sin(x[0, 2:]), rtol=1e-6)


RANGES = {  # nki.api.shared.rst, tbl-act-func
    nl.log: ([2.0**-64, 1.0, 2.0**64], [0.0, 2.0**-65, -1.0, 2.0**65, np.inf]),
    nl.sin: ([-math.pi, 0.0, math.pi], [3.2, -3.2, np.inf]),
    nl.arctan: ([-math.pi / 2, math.pi / 2], [1.6, -1.6]),
    nl.sqrt: ([2.0**-116, 2.0**118], [0.0, -1.0, 2.0**119]),
    nl.rsqrt: ([2.0**-87, 2.0**97], [0.0, -1.0, 2.0**98]),
    nl.reciprocal: ([2.0**-42, -(2.0**42), -(2.0**-42)], [0.0, 2.0**-43, -(2.0**43)]),
    nl.exp: ([-100.0, 0.0, 100.0, np.inf], []),
    nl.gelu: ([-1e30, 1e30], []),
}


@pytest.mark.parametrize("function", RANGES, ids=lambda function: function.__name__)
def test_inputs_out_of_a_functions_range_are_reported(function):
    inside, outside = RANGES[function]
    with on() as core:
        out = new((1, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for value in [*inside, np.nan]:
                nisa.activation(out, function, tile([[value]]))
        for value in outside:
            core._warned.clear()
            with pytest.warns(
                UndefinedOnChipWarning, match=f"op=nl.{function.__name__} is applied to .* are valid only for "
            ):
                nisa.activation(out, function, tile([[value]]))


def test_a_range_is_reported_once_a_line_and_when_a_launch_is_replayed():
    def kernel(a):
        t, out = new(a.shape), hbm(a.shape)
        nisa.dma_copy(t, a)
        for _ in range(3):
            nisa.activation(t, nl.sqrt, t)
        nisa.dma_copy(out, t)
        return out

    good, bad = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            simulator.run(kernel, good)
    with pytest.warns(UndefinedOnChipWarning, match=r"op=nl.sqrt is applied to 0; .* 2\^-116 to 2\^118") as told:
        simulator.run(kernel, bad)
    assert len(told) == 1
