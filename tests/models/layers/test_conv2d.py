"""Convolutions, compared with ONNX Runtime, and their output shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_layer import TOLERANCE, normal, run_onnx
from trninfer.models.errors import ModelError
from trninfer.models.layers.activation import activate
from trninfer.models.layers.conv2d import Conv2d, conv2d

SIZES = st.sampled_from([1, 2, 3, 5, 16, 127, 128, 129])
SIDES = st.sampled_from([1, 2, 3, 7, 13, 31])
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@settings(max_examples=60, deadline=None)
@given(
    groups=st.sampled_from([1, 1, 2, 3, 5]),
    widths=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    depthwise=st.booleans(),
    image=st.tuples(SIDES, SIDES),
    kernel=PAIRS,
    stride=PAIRS,
    dilation=PAIRS,
    padding=st.tuples(*[st.integers(0, 3)] * 4),
)
def test_conv2d_of_any_geometry(groups, widths, depthwise, image, kernel, stride, dilation, padding) -> None:
    inputs, outputs = (1, 1) if depthwise else widths
    layer = Conv2d(
        "c", groups * inputs, groups * outputs, kernel, padding, 1, "identity", stride, dilation, groups
    )  # a depthwise convolution has as many groups as channels
    x, bias = normal(1, 2, groups * inputs, *image), normal(2, groups * outputs)
    w = normal(3, groups * outputs, inputs, *kernel, scale=1 / math.sqrt(inputs * kernel[0] * kernel[1]))
    try:
        shape = layer.output_shape(x.shape[1:])
    except ModelError:
        return  # the filters do not fit in the image
    attributes = {"strides": stride, "dilations": dilation, "pads": padding, "group": groups}
    expected = run_onnx("Conv", x, w, bias, **attributes)
    result = layer.run({"weight": w, "bias": bias}, x)
    assert result.shape == expected.shape == (2, *shape)
    np.testing.assert_allclose(result, expected, **TOLERANCE)


@settings(max_examples=40, deadline=None)
@given(
    channels=st.tuples(SIZES, SIZES),
    image=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    batch=st.integers(1, 3),
    k=st.integers(1, 5),
    padding=st.integers(0, 3),
    pool_size=st.integers(1, 2),
    activation=st.sampled_from(["identity", "relu", "gelu", "sigmoid", "tanh"]),
    seed=st.integers(0, 99),
)
def test_conv2d(channels, image, batch, k, padding, pool_size, activation, seed) -> None:
    k = min(k, *(side + 2 * padding for side in image))
    if any((side + 2 * padding - k + 1) // pool_size < 1 for side in image):
        pool_size = 1
    x = normal(seed, batch, channels[0], *image)
    w = normal(seed, channels[1], channels[0], k, k, scale=1 / math.sqrt(channels[0] * k * k))
    bias = normal(seed, channels[1])
    expected = activate(run_onnx("Conv", x, w, bias, pads=[padding] * 4), activation)
    if pool_size > 1:
        expected = run_onnx("MaxPool", expected, kernel_shape=[2, 2], strides=[2, 2])
    result = conv2d(x, w, bias, padding, pool_size, activation)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, **TOLERANCE)


def test_conv2d_in_many_bands_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, bias = normal(1, 2, 3, 45, 31), normal(1, 7, 3, 3, 3), normal(1, 7)
    whole = conv2d(x, w, bias, 1, 2, "gelu")
    monkeypatch.setattr("trninfer.models.layers.conv2d.UNFOLD_BYTES", 20_000)
    np.testing.assert_allclose(conv2d(x, w, bias, 1, 2, "gelu"), whole, **TOLERANCE)


def test_pool_drops_rows_left_over() -> None:
    assert Conv2d("c", 3, 5, (3, 3), pool_size=2).output_shape((3, 9, 12)) == (5, 3, 5)
