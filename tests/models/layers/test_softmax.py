"""Softmax and its logarithm, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.layers.softmax import Softmax, softmax

SIZES = st.sampled_from([1, 2, 3, 5, 16, 127, 128, 129])


@settings(max_examples=25, deadline=None)
@given(shape=st.tuples(SIZES, SIZES), scale=st.sampled_from([0.1, 10.0, 1000.0]), seed=st.integers(0, 99))
def test_softmax(shape, scale, seed) -> None:
    x = normal(seed, *shape, scale=scale)
    expected = run_onnx("Softmax", x, axis=-1)
    np.testing.assert_allclose(softmax(x), expected, rtol=1e-4, atol=1e-6)


def test_log_softmax() -> None:
    x = normal(15, 4, 7, scale=5)
    np.testing.assert_allclose(Softmax("s", log=True).run({}, x), run_onnx("LogSoftmax", x, axis=-1), **TOLERANCE)
    np.testing.assert_allclose(Softmax("s").run({}, x), run_onnx("Softmax", x, axis=-1), **TOLERANCE)
