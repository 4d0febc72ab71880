"""Every kind of layer in the golden model against ONNX Runtime, at odd sizes."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx_runtime_faults import miscounts
from trninfer.models.golden import activate, probabilities_of, run_layer
from trninfer.models.network import (
    ACTIVATION_PARAMETERS,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    GroupNorm,
    LayerNorm,
    LocalResponseNorm,
    ModelError,
    Output,
    Pad,
    Pool,
    PRelu,
    Softmax,
    Transpose,
)

SIDES = st.sampled_from([1, 2, 3, 7, 13, 31])
PAIRS = st.tuples(st.integers(1, 3), st.integers(1, 3))
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def run_onnx(op: str, *arrays: np.ndarray, opset: int = 22, **attributes: object) -> np.ndarray:
    names = [f"x{position}" for position in range(len(arrays))]
    types = {"f": TensorProto.FLOAT, "i": TensorProto.INT64}
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "layer",
        [helper.make_tensor_value_info(name, types[a.dtype.kind], a.shape) for name, a in zip(names, arrays)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, arrays)))[0]


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(scale=scale, size=shape).astype(np.float32)


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
    )  # a depthwise one has as many groups as channels
    x, bias = normal(1, 2, groups * inputs, *image), normal(2, groups * outputs)
    w = normal(3, groups * outputs, inputs, *kernel, scale=1 / math.sqrt(inputs * kernel[0] * kernel[1]))
    try:
        shape = layer.output_shape(x.shape[1:])
    except ModelError:
        return  # the filters do not fit into the image
    attributes = {"strides": stride, "dilations": dilation, "pads": padding, "group": groups}
    expected = run_onnx("Conv", x, w, bias, **attributes)
    result = run_layer(layer, {"weight": w, "bias": bias}, x)
    assert result.shape == expected.shape == (2, *shape)
    np.testing.assert_allclose(result, expected, **TOLERANCE)


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
    include = count_include_pad and method == "average"
    assume(not miscounts(include, padding, ceil_mode))
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
    result = run_layer(layer, {}, x)
    assert result.shape == (2, *shape)
    np.testing.assert_allclose(result, expected, **TOLERANCE)


# Our name -> ONNX's, with its attributes from our parameters.
ONNX_ACTIVATIONS = {
    "relu": ("Relu", {}),
    "gelu": ("Gelu", {}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "sigmoid": ("Sigmoid", {}),
    "tanh": ("Tanh", {}),
    "hardswish": ("HardSwish", {}),
    "hardsigmoid": ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
    "leaky_relu": ("LeakyRelu", {"alpha": 0.07}),
    "elu": ("Elu", {"alpha": 1.3}),
    "selu": ("Selu", {"alpha": 1.6, "gamma": 1.1}),
    "softplus": ("Softplus", {}),
    "softsign": ("Softsign", {}),
    "mish": ("Mish", {}),
    "exp": ("Exp", {}),
    "abs": ("Abs", {}),
    "sqrt": ("Sqrt", {}),
    "log": ("Log", {}),
    "reciprocal": ("Reciprocal", {}),
}


@pytest.mark.parametrize("activation", sorted(set(ACTIVATION_PARAMETERS) - {"identity", "silu", "clip", "power"}))
def test_activations(activation: str) -> None:
    low = {"sqrt": 0, "log": 1e-6, "reciprocal": 1e-6}.get(activation, -20)
    x = np.concatenate([np.linspace(low, 20, 1001), [max(low, 0.0), 1e-6, 80]]).astype(np.float32)
    op, attributes = ONNX_ACTIVATIONS[activation]
    parameters = tuple(attributes[name] for name in ACTIVATION_PARAMETERS[activation])
    result = activate(x, activation, parameters)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, run_onnx(op, x, **attributes), rtol=5e-6, atol=2e-6)


def test_silu_and_clip() -> None:
    x = np.linspace(-30, 30, 1001).astype(np.float32)
    expected = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))  # ONNX Runtime's sigmoid cuts small ones off
    np.testing.assert_allclose(activate(x, "silu"), expected, rtol=2e-6, atol=1e-12)
    limits = np.array(0, np.float32), np.array(6, np.float32)
    np.testing.assert_array_equal(activate(x, "clip", (0.0, 6.0)), run_onnx("Clip", x, *limits))


@pytest.mark.parametrize("exponent", [-1.5, 0.3, 3.0])
def test_power(exponent: float) -> None:
    x = np.linspace(0.01, 30, 1001).astype(np.float32)
    expected = run_onnx("Pow", x, np.array(exponent, np.float32))
    np.testing.assert_allclose(activate(x, "power", (exponent,)), expected, rtol=5e-6)


@pytest.mark.parametrize("operation", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("pooled", [False, True])
def test_combine(operation: str, pooled: bool) -> None:
    ours = {"Sub": "subtract", "Mul": "multiply", "Div": "divide", "Max": "maximum", "Min": "minimum"}
    a, b = normal(5, 3, 5, 7, 3), normal(6, 3, 5, *((1, 1) if pooled else (7, 3)))
    layer = Combine("c", ours.get(operation, "add"), "clip", (-1.0, 2.0))
    assert layer.output_shape(a.shape[1:], b.shape[1:]) == (5, 7, 3)
    result = run_layer(layer, {}, a, b)
    np.testing.assert_allclose(result, np.clip(run_onnx(operation, a, b), -1, 2), **TOLERANCE)


@pytest.mark.parametrize("shape", [(5,), (5, 7, 3)])
def test_affine_and_prelu(shape: tuple[int, ...]) -> None:
    x, scale, shift = normal(7, 2, 5, 7, 3), normal(8, *shape), normal(9, *shape)
    wide = shape + (1,) * (3 - len(shape))
    expected = np.maximum(x * scale.reshape(wide) + shift.reshape(wide), 0)
    result = run_layer(Affine("a", shape, "relu"), {"scale": scale, "shift": shift}, x)
    np.testing.assert_allclose(result, expected, **TOLERANCE)
    slope = normal(10, 5)
    expected = run_onnx("PRelu", x, slope.reshape(5, 1, 1))
    np.testing.assert_allclose(run_layer(PRelu("p", 5), {"slope": slope}, x), expected, **TOLERANCE)


@pytest.mark.parametrize("size", [1, 3, 5, 7])
def test_local_response_norm(size: int) -> None:
    x = normal(11, 2, 9, 5, 4, scale=3)
    layer = LocalResponseNorm("n", size, 0.02, 0.6, 2.0)
    expected = run_onnx("LRN", x, size=size, alpha=0.02, beta=0.6, bias=2.0)
    np.testing.assert_allclose(run_layer(layer, {}, x), expected, **TOLERANCE)


def test_layer_norm_over_channels_and_features() -> None:
    scale, shift = normal(12, 17), normal(13, 17)
    own = {"scale": scale, "shift": shift}
    x = normal(14, 2, 17, 3, 5, scale=4)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    expected = run_onnx("LayerNormalization", last, scale, shift, epsilon=1e-3).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(run_layer(LayerNorm("n", 17, 1e-3), own, x), expected, **TOLERANCE)
    row = x[:, :, 0, 0]
    expected = run_onnx("LayerNormalization", row, scale, shift, epsilon=1e-3)
    np.testing.assert_allclose(run_layer(LayerNorm("n", 17, 1e-3), own, row), expected, **TOLERANCE)


@pytest.mark.parametrize("groups", [1, 4, 12])
def test_group_norm(groups: int) -> None:
    scale, shift = normal(12, 12), normal(13, 12)
    x = normal(14, 2, 12, 3, 5, scale=4) + np.float32(2)
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    expected = run_onnx("InstanceNormalization", x.reshape(2, groups, -1), ones, zeros, epsilon=1e-3).reshape(x.shape)
    expected = expected * scale[:, None, None] + shift[:, None, None]
    result = run_layer(GroupNorm("n", 12, groups, 1e-3), {"scale": scale, "shift": shift}, x)
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE["rtol"], atol=5e-6)


def test_numbers_put_elsewhere() -> None:
    x = np.arange(2 * 6 * 3 * 4, dtype=np.float32).reshape(2, 6, 3, 4)
    expected = run_onnx("Reshape", run_onnx("Transpose", x, perm=[0, 2, 3, 1]), np.array([2, 72]))
    np.testing.assert_array_equal(run_layer(Transpose("t", (6, 3, 4), (1, 2, 0), (72,)), {}, x), expected)
    shuffled = run_layer(ChannelShuffle("s", 2), {}, x)
    assert shuffled[0, :, 0, 0].tolist() == x[0, [0, 3, 1, 4, 2, 5], 0, 0].tolist()
    np.testing.assert_array_equal(run_layer(ChannelSlice("c", 1, 4), {}, x), x[:, 1:4])
    np.testing.assert_array_equal(run_layer(Concat("c"), {}, x, x[:, :2]), run_onnx("Concat", x, x[:, :2], axis=1))
    padded = run_layer(Pad("p", (1, -1, 0, 2), 0.5), {}, x)
    pads, value = np.array([0, 0, 1, -1, 0, 0, 0, 2]), np.array(0.5, np.float32)
    np.testing.assert_array_equal(padded, run_onnx("Pad", x, pads, value))


def test_what_outputs_mean() -> None:
    scores = normal(15, 4, 7, scale=5)
    probabilities = run_onnx("Softmax", scores, axis=-1)
    logarithms = run_layer(Softmax("s", log=True), {}, scores)
    np.testing.assert_allclose(logarithms, run_onnx("LogSoftmax", scores, axis=-1), **TOLERANCE)
    np.testing.assert_allclose(probabilities_of(scores, Output("classes", "raw")), probabilities, **TOLERANCE)
    np.testing.assert_allclose(
        probabilities_of(logarithms, Output("classes", "log_softmax")), probabilities, **TOLERANCE
    )
    for output in (Output("classes", "softmax"), Output("sigmoid"), Output("values")):
        assert probabilities_of(scores, output) is scores
