"""Dense layers, compared with ONNX Runtime."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.layers.activation import activate
from trninfer.models.layers.dense import dense

SIZES = st.sampled_from([1, 2, 3, 5, 16, 127, 128, 129])


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.tuples(SIZES, SIZES, SIZES),
    activation=st.sampled_from(["identity", "relu", "gelu", "sigmoid", "tanh"]),
    seed=st.integers(0, 99),
)
def test_dense(sizes, activation, seed) -> None:
    batch, inputs, outputs = sizes
    x, bias = normal(seed, batch, inputs), normal(seed, outputs)
    w = normal(seed, inputs, outputs, scale=1 / math.sqrt(inputs))
    expected = activate(run_onnx("Gemm", x, w, bias), activation)
    np.testing.assert_allclose(dense(x, w, bias, activation), expected, **TOLERANCE)
