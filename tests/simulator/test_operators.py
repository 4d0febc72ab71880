"""Operators whose meaning the documentation spells out."""

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from nki_tensors import new, on, tile
from trninfer.simulator import NkiValidationError


def test_magnitudes_compare_and_signed_values_come_back():
    x, y = np.array([[-5, 1, 2, -3.0]], np.float32), np.array([[3, -1, -4, 1.0]], np.float32)
    with on("trn3"):
        larger, smaller = new((1, 4)), new((1, 4))
        nisa.tensor_tensor(larger, tile(x), tile(y), nl.abs_max)
        nisa.tensor_tensor(smaller, tile(x), tile(y), nl.abs_min)
        np.testing.assert_array_equal(larger.values, [[-5, -1, -4, -3]])  # the second of equals
        np.testing.assert_array_equal(smaller.values, [[3, -1, 2, 1]])
    with on("trn2"), pytest.raises(NkiValidationError, match=r"nl\.abs_max needs NeuronCore-v4"):
        nisa.tensor_scalar(new((1, 4)), tile(x), nl.abs_max, 1.0)


def test_sin_extrapolates_a_cubic_beyond_pi():
    x = np.array([[9.0, -9.0, 3.0, -np.pi / 2]], np.float32)
    with on():
        out = new((1, 4))
        nisa.activation(out, nl.sin, tile(x))
        np.testing.assert_allclose(out.values[0, :2], [27.65, -27.65], atol=5e-3)  # the figure of nki-act-func
        np.testing.assert_allclose(out.values[0, 2:], np.sin(x[0, 2:]), rtol=1e-6)
