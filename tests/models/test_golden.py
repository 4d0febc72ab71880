"""The golden model against ONNX Runtime, operation by operation."""

from __future__ import annotations

import math

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from trninfer.models import (
    Conv2d,
    Dense,
    FeatureInput,
    Flatten,
    ImageInput,
    Network,
    Softmax,
    golden,
    load_model,
    run_network,
)

ONNX_ACTIVATION = {"relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid", "tanh": "Tanh"}
SIZES = st.sampled_from([1, 2, 3, 5, 16, 127, 128, 129])
ACTIVATIONS = st.sampled_from(["identity", *ONNX_ACTIVATION])

# float32 sums of a few hundred terms in another order.
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def run_onnx(nodes: list, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The last node's output, computed by ONNX Runtime; every array is a float32 input of the graph."""
    graph = helper.make_graph(
        nodes,
        "golden",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def activation_nodes(activation: str, source: str) -> list:
    if activation == "identity":
        return []
    return [helper.make_node(ONNX_ACTIVATION[activation], [source], [f"{source}.{activation}"])]


def conv_nodes(layer: Conv2d, source: str) -> list:
    inputs = [source, f"{layer.name}.weight", f"{layer.name}.bias"]
    nodes = [helper.make_node("Conv", inputs, [layer.name], pads=layer.padding)]
    nodes += activation_nodes(layer.activation, layer.name)
    if layer.pool_size > 1:
        size = [layer.pool_size] * 2
        pooled = f"{layer.name}.pool"
        nodes.append(helper.make_node("MaxPool", [nodes[-1].output[0]], [pooled], kernel_shape=size, strides=size))
    return nodes


def dense_nodes(layer: Dense, source: str) -> list:
    inputs = [source, f"{layer.name}.weight", f"{layer.name}.bias"]
    return [helper.make_node("Gemm", inputs, [layer.name]), *activation_nodes(layer.activation, layer.name)]


def network_nodes(network: Network) -> list:
    """A whole network as ONNX nodes that read "x" and the network's tensors by name."""
    nodes: list = []
    source = "x"
    for layer in network.layers:
        if isinstance(layer, Conv2d):
            nodes += conv_nodes(layer, source)
        elif isinstance(layer, Dense):
            nodes += dense_nodes(layer, source)
        elif isinstance(layer, Flatten):
            nodes.append(helper.make_node("Flatten", [source], [layer.name]))
        else:
            nodes.append(helper.make_node("Softmax", [source], [layer.name], axis=-1))
        source = nodes[-1].output[0]
    return nodes


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(scale=scale, size=shape).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(
    channels=st.tuples(SIZES, SIZES),
    image=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    batch=st.integers(1, 3),
    k=st.integers(1, 5),
    padding=st.integers(0, 3),
    pool_size=st.integers(1, 2),
    activation=ACTIVATIONS,
    seed=st.integers(0, 99),
)
def test_conv2d(channels, image, batch, k, padding, pool_size, activation, seed) -> None:
    k = min(k, *(side + 2 * padding for side in image))
    if any((side + 2 * padding - k + 1) // pool_size < 1 for side in image):
        pool_size = 1
    layer = Conv2d("conv", *channels, (k, k), (padding,) * 4, pool_size, activation)
    x = normal(seed, batch, channels[0], *image)
    w = normal(seed, channels[1], channels[0], k, k, scale=1 / math.sqrt(channels[0] * k * k))
    bias = normal(seed, channels[1])
    expected = run_onnx(conv_nodes(layer, "x"), {"x": x, "conv.weight": w, "conv.bias": bias})
    result = golden.conv2d(x, w, bias, padding, pool_size, activation)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, **TOLERANCE)


def test_conv2d_in_many_bands_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, bias = normal(1, 2, 3, 45, 31), normal(1, 7, 3, 3, 3), normal(1, 7)
    whole = golden.conv2d(x, w, bias, 1, 2, "gelu")
    monkeypatch.setattr("trninfer.models.golden.convolution.UNFOLD_BYTES", 20_000)
    np.testing.assert_allclose(golden.conv2d(x, w, bias, 1, 2, "gelu"), whole, **TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(sizes=st.tuples(SIZES, SIZES, SIZES), activation=ACTIVATIONS, seed=st.integers(0, 99))
def test_dense(sizes, activation, seed) -> None:
    batch, inputs, outputs = sizes
    x, bias = normal(seed, batch, inputs), normal(seed, outputs)
    w = normal(seed, inputs, outputs, scale=1 / math.sqrt(inputs))
    layer = Dense("dense", inputs, outputs, activation)
    expected = run_onnx(dense_nodes(layer, "x"), {"x": x, "dense.weight": w, "dense.bias": bias})
    np.testing.assert_allclose(golden.dense(x, w, bias, activation), expected, **TOLERANCE)


@pytest.mark.parametrize("activation", list(ONNX_ACTIVATION))
def test_activations_over_their_whole_range(activation: str) -> None:
    x = np.concatenate([np.linspace(-20, 20, 4001), [-1e4, -100, -0.0, 100, 1e4]]).astype(np.float32)
    result = golden.activate(x, activation)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, run_onnx(activation_nodes(activation, "x"), {"x": x}), rtol=2e-6, atol=1e-6)


def test_gelu_keeps_its_precision_far_below_zero() -> None:
    # x/2 * erfc(-x / sqrt 2) at -8 by a table of erfc to 40 digits: erfc(5.6568542494923802) = 1.2441921148543569e-15
    result = golden.activate(np.array([-8.0], np.float32), "gelu")
    np.testing.assert_allclose(result, [-4 * 1.2441921148543569e-15], rtol=1e-6)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown activation 'swish'; known are identity"):
        golden.activate(np.zeros(1, np.float32), "swish")


@settings(max_examples=25, deadline=None)
@given(shape=st.tuples(SIZES, SIZES), scale=st.sampled_from([0.1, 10.0, 1000.0]), seed=st.integers(0, 99))
def test_softmax(shape, scale, seed) -> None:
    x = normal(seed, *shape, scale=scale)
    expected = run_onnx([helper.make_node("Softmax", ["x"], ["y"], axis=-1)], {"x": x})
    np.testing.assert_allclose(golden.softmax(x), expected, rtol=1e-4, atol=1e-6)


def test_argmax_takes_the_first_of_equals() -> None:
    result = golden.argmax(np.array([[0, 2, 2, 1], [3, 3, 3, 3], [-2, -1, -5, -1]], np.float32))
    assert result.dtype == np.int32
    assert result.tolist() == [1, 0, 1]


def example_network(activation: str = "gelu", ends_in_softmax: bool = True) -> tuple[Network, dict[str, np.ndarray]]:
    layers = (
        Conv2d("conv1", 3, 5, (3, 3), padding=(1, 1, 1, 1), pool_size=2, activation=activation),
        Conv2d("conv2", 5, 7, (5, 5), activation="tanh"),
        Flatten("flatten"),
        Dense("hidden", 7 * 3 * 4, 11, activation),
        Dense("output", 11, 4),
    )
    network = Network(
        "example",
        ImageInput(3, 15, 16, "digit", (0.0,) * 3, (1.0,) * 3),
        (*layers, Softmax("softmax")) if ends_in_softmax else layers,
        tuple("abcd"),
    )
    tensors = {name: normal(3, *shape, scale=0.3) for name, shape in network.tensor_shapes().items()}
    return network, tensors


@pytest.mark.parametrize("activation", ["identity", *ONNX_ACTIVATION])
def test_a_network(activation: str) -> None:
    network, tensors = example_network(activation)
    x = normal(4, 6, 3, 15, 16)
    run = run_network(network, tensors, x)
    expected = run_onnx(network_nodes(network), {"x": x, **tensors})
    np.testing.assert_allclose(run.probabilities, expected, **TOLERANCE)
    np.testing.assert_array_equal(run.probabilities, run.scores)
    np.testing.assert_allclose(run_onnx(network_nodes(network)[:-1], {"x": x, **tensors}), run.logits, **TOLERANCE)


def test_a_network_without_softmax_has_logits_and_probabilities() -> None:
    network, tensors = example_network(ends_in_softmax=False)
    x = normal(5, 2, 3, 15, 16)
    run = run_network(network, tensors, x)
    np.testing.assert_allclose(run.logits, run_onnx(network_nodes(network), {"x": x, **tensors}), **TOLERANCE)
    np.testing.assert_array_equal(run.probabilities, golden.softmax(run.logits))


def test_an_input_of_another_shape_is_refused() -> None:
    network = Network("n", FeatureInput(3), (Dense("d", 3, 2),), ("a", "b"))
    tensors = {"d.weight": normal(0, 3, 2), "d.bias": normal(0, 2)}
    with pytest.raises(ValueError, match="takes 3 features, not 4 features"):
        run_network(network, tensors, normal(0, 5, 4))


@pytest.mark.parametrize("name", ["digits-ffnn", "digits-cnn"])
def test_the_bundled_networks(name: str) -> None:
    model = load_model(name)
    rng = np.random.default_rng(6)
    high = 16 if name == "digits-ffnn" else 1
    x = rng.uniform(0, high, (20, *model.network.input.shape)).astype(np.float32)
    run = run_network(model.network, model.tensors, x)
    expected = run_onnx(network_nodes(model.network), {"x": x, **model.tensors})
    np.testing.assert_allclose(run.probabilities, expected, **TOLERANCE)
    np.testing.assert_array_equal(golden.argmax(run.probabilities), expected.argmax(axis=1))
