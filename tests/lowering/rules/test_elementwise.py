"""Sums, products, scales and activations."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lowered import assert_right, decide, graph_of, kinds_of, nodes_of, operation_of
from onnx_chain import Chain, assert_imports, run_onnx
from random_networks import conv, ending_in_dense, labels, model_of, picture, residual
from trninfer.kernels.program import Combine as CombineOperation
from trninfer.kernels.program import Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.models.files import Model
from trninfer.models.importing import import_network
from trninfer.models.layers import (
    Activation,
    Affine,
    ChannelShuffle,
    ChannelSlice,
    Combine,
    Concat,
    Conv2d,
    Dense,
    Flatten,
    Layer,
    PRelu,
)
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output
from trninfer.runtime.choose import choose_backend
from trninfer.runtime.session import Session


def test_the_sums_of_a_residual_network_are_in_its_convolutions() -> None:
    graph = graph_of(residual())
    assert [(node.name, node.kind, len(node.sources)) for node in graph.nodes[:3]] == [
        ("stem", "conv2d", 1),
        ("a0", "conv2d", 1),
        ("b0", "conv2d", 2),
    ]
    assert not any(isinstance(node.operation, CombineOperation) for node in graph.nodes)


def test_channels_that_lie_apart_are_laid_out_anew_for_sums_and_products() -> None:
    layers: list[Layer] = [
        conv("a", 3, 12, 3, inputs=("input",)),
        conv("b", 3, 20, 3, inputs=("input",)),
        Concat("ab", inputs=("a", "b")),
        Concat("ba", inputs=("b", "a")),
        Combine("product", "multiply", "relu", inputs=("ab", "ba")),
        ChannelShuffle("turned", 2),
        Conv2d("plain", 32, 32, (1, 1), inputs=("product",)),
        Combine("sum", "add", "gelu", inputs=("plain", "turned")),
        Combine("again", "divide", "sigmoid", inputs=("sum", "sum")),
    ]
    kinds = kinds_of(layers, 3)
    assert kinds[:7] == ["conv2d", "conv2d", "concat", "concat", "combine", "channel_shuffle", "conv2d"]


@pytest.mark.parametrize(
    "fields", [{"activation": "relu"}, {"pool_size": 2, "stride": (1, 1)}, {"inputs": ("stem",)}], ids=str
)
def test_a_convolution_that_does_more_is_summed_by_itself(fields: dict[str, object]) -> None:
    """It has an activation or a pool, or another reader."""
    layers: list[Layer] = [
        Conv2d("stem", 3, 8, (1, 1), pool_size=2 if "pool_size" in fields else 1),
        Conv2d("a", 8, 8, (1, 1)) if "inputs" in fields else Conv2d("a", 3, 8, (1, 1), inputs=("input",), **fields),
        Combine("sum", "add", inputs=("a", "stem")),
    ]
    if "inputs" in fields:
        layers.append(Combine("twice", "multiply", inputs=("sum", "a")))
    graph = graph_of(ending_in_dense((3, 6, 5), layers))
    (node,) = nodes_of(graph, "a")
    assert isinstance(node.operation, Convolution) and len(node.sources) == 1


def test_a_dense_layer_that_the_network_returns_is_not_its_sum() -> None:
    layers = (
        Flatten("flat"),
        Dense("a", 90, 9, inputs=("flat",)),
        Dense("b", 90, 9, inputs=("flat",)),
        Combine("sum", "add", "relu", inputs=("a", "b")),
        Dense("c", 9, 5),
    )
    others = tuple(NamedOutput(name, name, (9,), Output("values")) for name in "ba")
    network = Network("n", picture(3, 6), layers, labels(5), others=others)
    assert_right(network, Decisions(), 3)


@pytest.mark.parametrize("shape", [(8,), (8, 6, 5)])
def test_numbers_for_channels_or_elements(shape: tuple[int, ...]) -> None:
    layers: list[Layer] = [
        conv("stem", 3, 8, 3),
        Affine("affine", shape, "tanh"),  # type: ignore[arg-type]
        PRelu("slopes", 8),
        Activation("leaky", "leaky_relu", (0.1,)),
        ChannelShuffle("turned", 2),
        Affine("again", shape),  # type: ignore[arg-type]
    ]
    assert kinds_of(layers)[:5] == ["conv2d", "affine", "prelu", "activation", "affine"]
    assert_right(ending_in_dense((3, 6, 5), layers), decide(packed=8), 5)


def test_joined_channels_are_summed_where_they_are_in_the_same_tiles() -> None:
    layers: list[Layer] = [
        conv("a", 3, 12, 3, inputs=("input",)),
        conv("b", 3, 20, 3, inputs=("input",)),
        Concat("ab", inputs=("a", "b")),
        Activation("c", "tanh", inputs=("ab",)),
        Combine("product", "multiply", inputs=("ab", "c")),
    ]
    assert kinds_of(layers)[:4] == ["conv2d", "conv2d", "activation", "combine"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3"])
@pytest.mark.parametrize(
    ("activation", "bounds"), [("relu", ()), ("clip", (0.0, 0.5)), ("clip", (-0.25, 0.25)), ("tanh", ())]
)
@pytest.mark.parametrize("pool_size", [1, 2])
@pytest.mark.parametrize("signs", [[1, 1, 1], [1, -1, 0]])
def test_numbers_of_channels_behind_bounds(
    dtype: str, activation: str, bounds: tuple[float, ...], pool_size: int, signs: list[int]
) -> None:
    """In Keras's order, the convolution has bounds for each channel, unless a pool would decrease."""
    layers = (
        Conv2d("a", 3, 6, (3, 3), (1, 1, 1, 1), pool_size, activation, activation_parameters=bounds),
        Affine("scaled", (6,)),
        Conv2d("b", 6, 5, (3, 3), (1, 1, 1, 1), activation="relu"),
        Flatten("flat"),
        Dense("dense", 5 * (8 // pool_size) ** 2, 4),
    )
    model = model_of(Network("n", picture(3, 8, 8), layers, labels(4)))
    scale = np.abs(model.tensors["scaled.scale"]) * np.tile(signs, 2) * 3
    model = replace(model, tensors={**model.tensors, "scaled.scale": scale.astype(np.float32)})
    for batch in (1, 3):
        graph = assert_right(model, Decisions(), batch, dtype).graph
    is_folded = activation != "tanh" and (pool_size == 1 or min(signs) >= 0)
    assert any(node.kind == "affine" for node in graph.nodes) != is_folded


def test_an_activation_alone_neither_scales_nor_shifts() -> None:
    """Channels that are not read are an exception: their scale becomes 1."""
    layers: list[Layer] = [conv("stem", 3, 12, 3), Activation("all", "softplus"), Activation("root", "sqrt")]
    graph = graph_of(ending_in_dense((3, 5, 4), layers))
    assert [operation_of(graph, name).is_scaled for name in ("all", "root")] == [False, False]  # type: ignore[attr-defined]
    some: list[Layer] = [conv("stem", 3, 12, 3), ChannelSlice("some", 2, 9), Activation("all", "softplus")]
    for each in (layers, some):
        for batch in (1, 7):
            assert_right(ending_in_dense((3, 5, 4), each), Decisions(), batch, "bfloat16")


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("operation", ["Mul", "Div"])
def test_rows_and_columns_that_are_repeated(operation: str, batch: int, tmp_path: Path) -> None:
    """The second operand has one row, one column or one channel, as in linear attention and normalised weights."""
    random = np.random.default_rng(batch)
    channels, rows, columns = (int(random.choice(sizes)) for sizes in ((1, 3, 40, 130), (2, 5, 12), (3, 8, 13)))
    axis = int(random.choice([2, 3]))
    chain = Chain(2, rows, columns)
    chain.conv((2, channels), (1, 1))
    wide = chain.value
    chain.add("Exp", first=chain.add("Clip", chain.constant(-2.0), chain.constant(2.0)))
    if random.random() < 0.3:
        chain.add("ReduceMean", chain.constant([1]), keepdims=1)
    chain.add("ReduceSum", chain.constant([axis]), keepdims=1)
    chain.add(operation, chain.value, first=wide)
    chain.add("Relu" if random.random() < 0.5 else "Tanh")
    path = chain.save(tmp_path)
    imported = import_network(path)
    x = random.standard_normal((batch, 2, rows, columns), np.float32)
    model = Model(imported.network, imported.tensors, {})
    result = Session(model, choose_backend("sim", "trn2"), "float32", batch).run(x)
    expected = run_onnx(path, x).reshape(batch, -1)
    np.testing.assert_allclose(result.probabilities, expected, rtol=1e-4, atol=1e-4)
    repeats = [layer for layer in imported.network.layers if isinstance(layer, Conv2d) and max(layer.kernel_size) > 1]
    assert not repeats


@pytest.mark.parametrize(
    ("channels", "size", "activation"),
    [(1, (3, 4), "Relu"), (24, (7, 5), "Relu"), (130, (3, 3), "Sigmoid"), (9, (20, 30), "Relu")],
)
def test_a_residual_before_an_activation(channels: int, size: tuple[int, int], activation: str, tmp_path: Path) -> None:
    """In 16 bits, the Tensor Engine adds the addend of a few pixels."""
    chain = Chain(3, *size, seed=channels)
    chain.conv((3, channels), (3, 3), pads=[1] * 4)
    for _ in range(2):
        x = chain.value
        chain.conv((channels, channels), (3, 3), pads=[1] * 4)
        chain.add("Add", x)
        chain.add(activation)
    chain.add("GlobalAveragePool")
    chain.add("Flatten")
    chain.gemm(channels, 4)
    imported = assert_imports(chain, tmp_path)
    model = Model(imported.network, imported.tensors, {})
    for batch in (1, 2, 3, 4, 7, 16):
        dtype = ("bfloat16", "float16", "float32")[batch % 3]
        assert_right(model, Decisions(), batch, dtype)
