"""Whole networks in the golden model, compared with ONNX Runtime."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from onnx import helper
from onnx_layer import TOLERANCE, normal, run_nodes, run_onnx
from trninfer.models import (
    Activation,
    Conv2d,
    Dense,
    FeatureInput,
    Flatten,
    ImageInput,
    Network,
    Output,
    Softmax,
    golden,
    load_model,
    run_network,
)

ONNX_ACTIVATION = {"relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


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
    """Return a whole network as ONNX nodes that read "x" and the network's tensors by name."""
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
    expected = run_nodes(network_nodes(network), {"x": x, **tensors})
    np.testing.assert_allclose(run.probabilities, expected, **TOLERANCE)
    np.testing.assert_array_equal(run.probabilities, run.scores)
    np.testing.assert_allclose(run_nodes(network_nodes(network)[:-1], {"x": x, **tensors}), run.logits, **TOLERANCE)


def test_a_network_without_softmax_has_logits_and_probabilities() -> None:
    network, tensors = example_network(ends_in_softmax=False)
    x = normal(5, 2, 3, 15, 16)
    run = run_network(network, tensors, x)
    np.testing.assert_allclose(run.logits, run_nodes(network_nodes(network), {"x": x, **tensors}), **TOLERANCE)
    np.testing.assert_array_equal(run.probabilities, golden.softmax(run.logits))


def test_an_input_of_another_shape_is_refused() -> None:
    network = Network("n", FeatureInput(3), (Dense("d", 3, 2),), ("a", "b"))
    tensors = {"d.weight": normal(0, 3, 2), "d.bias": normal(0, 2)}
    with pytest.raises(ValueError, match="expects 3 features, not 4 features"):
        run_network(network, tensors, normal(0, 5, 4))


@pytest.mark.parametrize("name", ["digits-ffnn", "digits-cnn"])
def test_the_bundled_networks(name: str) -> None:
    model = load_model(name)
    rng = np.random.default_rng(6)
    high = 16 if name == "digits-ffnn" else 1
    x = rng.uniform(0, high, (20, *model.network.input.shape)).astype(np.float32)
    run = run_network(model.network, model.tensors, x)
    expected = run_nodes(network_nodes(model.network), {"x": x, **model.tensors})
    np.testing.assert_allclose(run.probabilities, expected, **TOLERANCE)
    np.testing.assert_array_equal(golden.argmax(run.probabilities), expected.argmax(axis=1))


def test_meaning_of_outputs() -> None:
    scores = normal(15, 4, 7, scale=5)
    probabilities = run_onnx("Softmax", scores, axis=-1)
    logarithms = golden.run_layer(Softmax("s", log=True), {}, scores)
    for given, kind in ((scores, "raw"), (logarithms, "log_softmax")):
        found = golden.probabilities_of(given, Output("classes", kind))
        np.testing.assert_allclose(found, probabilities, **TOLERANCE)
    for output in (Output("classes", "softmax"), Output("sigmoid"), Output("values")):
        assert golden.probabilities_of(scores, output) is scores


def test_overflows_are_values_and_no_warnings() -> None:
    """NumPy's warnings would appear on standard error."""
    layers = (Activation("exp", "exp"), Dense("dense", 2, 1))
    network = Network("n", FeatureInput(2), layers, (), Output("values"))
    tensors = {"dense.weight": np.array([[1.0], [-1.0]], np.float32), "dense.bias": np.zeros(1, np.float32)}
    x = np.array([[1000, 0], [1000, 1000]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = run_network(network, tensors, x).scores
    np.testing.assert_array_equal(scores, [[np.inf], [np.nan]])
