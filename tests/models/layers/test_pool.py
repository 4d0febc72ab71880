"""Pooling of any geometry, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_layer import TOLERANCE, normal, run_onnx
from onnx_runtime_faults import miscounts
from trninfer.models.errors import ModelError
from trninfer.models.layers.pool import Pool

SIDES = st.sampled_from([1, 2, 3, 7, 13, 31])
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=100, deadline=None)
@given(
    method=st.sampled_from(["max", "average"]),
    image=st.tuples(SIDES, SIDES),
    window=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    stride=PAIRS,
    padding=st.tuples(*[st.integers(0, 2)] * 4),
    ceil_mode=st.booleans(),
    count_include_pad=st.booleans(),
    dilation=PAIRS,
)
def test_pool_of_any_geometry(method, image, window, stride, padding, ceil_mode, count_include_pad, dilation) -> None:
    padding = tuple(min(pad, side - 1) for pad, side in zip(padding, window * 2))
    include = count_include_pad and method == "average" and not miscounts(True, padding, ceil_mode)
    layer = Pool("p", method, window, stride, padding, ceil_mode, include, dilation)
    x = normal(4, 2, 3, *image)
    try:
        shape = layer.output_shape(x.shape[1:])
    except ModelError:
        return
    attributes = {"kernel_shape": window, "strides": stride, "pads": padding, "ceil_mode": int(ceil_mode)}
    attributes["dilations"] = dilation
    if method == "average":
        attributes["count_include_pad"] = int(include)
    expected = run_onnx("MaxPool" if method == "max" else "AveragePool", x, **attributes)
    result = layer.run({}, x)
    assert result.shape == (2, *shape)
    np.testing.assert_allclose(result, expected, **TOLERANCE)
