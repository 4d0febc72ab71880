"""The last layers of networks: scores, softmax, and additional outputs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from lowered import assert_right, decide, decided, graph_of, kinds_of, planned
from onnx_chain import Chain, run_onnx
from random_networks import conv, labels, model_of, picture
from trninfer.kernels.program import Buffer, ClassifierHead, Convolution, DenseHead, Ending, Store
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph.graph import Unsupported
from trninfer.lowering.launch_sequence import lower_layers
from trninfer.models.files import Model
from trninfer.models.golden import run_network
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.inputs import FeatureInput
from trninfer.models.layers import ChannelShuffle, Conv2d, Dense, Flatten, Layer, Pool, Softmax
from trninfer.models.network import Network
from trninfer.models.outputs import NamedOutput, Output
from trninfer.runtime.backend import DTYPES
from trninfer.runtime.session import Session
from trninfer.runtime.simulated import SimulatedBackend
from trninfer.runtime.tolerances import network_tolerance


def test_a_network_that_ends_in_a_shuffle() -> None:
    window = Pool("mean", "average", (6, 5), (1, 1))
    kinds_of([conv("a", 3, 12, 3), window, ChannelShuffle("turned", 3), Flatten("flat")], 3, ends=False)


@pytest.mark.parametrize(("log", "ending"), [(False, Ending.SOFTMAX), (True, Ending.LOG_SOFTMAX)])
def test_a_dense_layer_computes_its_softmax(log: bool, ending: Ending) -> None:
    network = Network("n", FeatureInput(20), (Dense("a", 20, 9), Softmax("s", log=log)), labels(9))
    (node,) = graph_of(network).nodes
    assert isinstance(node.operation, DenseHead) and node.operation.ending is ending and node.name == "a"
    assert_right(network, Decisions(), 3)


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_a_softmax_of_something_else_is_of_scores_of_its_own(activation: str) -> None:
    """It reads an activation, more numbers than a last layer supports, or a value that the network also returns."""
    layers = (Dense("a", 20, 9, activation), Softmax("s"))
    others = (NamedOutput("raw", "a", (9,), Output("values")),) if activation == "identity" else ()
    network = Network("n", FeatureInput(20), layers, labels(9), others=others)
    graph = graph_of(network)
    assert [type(node.operation) for node in graph.nodes] == [Convolution, DenseHead]
    assert [node.output for node in graph.nodes] == ([1, 0] if others else [None, 0])
    assert_right(network, Decisions(), 3)


def test_outputs_are_in_the_order_of_the_network() -> None:
    layers = (
        conv("a", 3, 8, 3),
        Flatten("fa"),
        Pool("mean", "average", (6, 5), (1, 1), inputs=("a",)),
        Flatten("fm"),
        Dense("b", 8, 7, "relu"),
        Dense("c", 7, 5),
    )
    others = tuple(
        NamedOutput(name, name, (size,), Output("values")) for name, size in (("b", 7), ("fa", 240), ("fm", 8))
    )
    network = Network("n", picture(3, 6), layers, labels(5), others=others)
    graph = graph_of(network)
    assert [graph.nodes[number].name for number in graph.outputs] == ["c", "b", "a", "mean"]
    for batch, packed in ((1, 1), (5, 4)):
        assert_right(network, decide(packed=packed), batch)


def test_an_input_and_a_value_may_be_returned_twice() -> None:
    layers = (Flatten("all"), Dense("a", 90, 7), Flatten("again"), Dense("c", 7, 5))
    others = tuple(
        NamedOutput(name, name, (size,), Output("values")) for name, size in (("all", 90), ("a", 7), ("again", 7))
    )
    assert_right(Network("n", picture(3, 6), layers, labels(5), others=others), Decisions(), 3)


def test_values_have_no_scores_where_they_are_no_dense_layer() -> None:
    layers = (conv("a", 3, 8, 3), Flatten("flat"))
    model = model_of(Network("n", picture(3, 6), layers, (), Output("values")))
    assert [type(node.operation) for node in lower_layers(model, DTYPES["float32"]).nodes] == [Convolution]
    assert_right(model, Decisions(), 3)


def test_too_many_classes_are_no_scores() -> None:
    network = Network("n", FeatureInput(4), (Dense("a", 4, 9000), Softmax("s")), labels(9000))
    with pytest.raises(Unsupported, match="layer 's' outputs 9000 numbers, but a last layer can have at most 8192"):
        graph_of(network)


@pytest.mark.parametrize("ending", ["none", "softmax", "log"])
@pytest.mark.parametrize(("channels", "side", "batch"), [(41, 50, 3), (73, 64, 1), (2049, 1, 130), (128, 64, 2)])
def test_many_classes_are_found_by_way_of_hbm(channels: int, side: int, batch: int, ending: str) -> None:
    """For each picture separately, the first of equal classes at any position: 2,050, 4,672, 2,049 and 8,192
    classes."""
    count = channels * side
    layers: list[Layer] = [Conv2d("a", 3, channels, (1, 1)), Flatten("flat")]
    if ending != "none":
        layers.append(Softmax("s", log=ending == "log"))
    scores = {"none": "raw", "softmax": "softmax", "log": "log_softmax"}[ending]
    model = model_of(Network("n", picture(3, side, 1), tuple(layers), labels(count), Output(scores=scores)))
    for dtype in ("float32", "bfloat16"):
        plan = planned(model, batch, dtype)
        assert type(plan.graph.nodes[-1].operation) is ClassifierHead
        x = np.random.default_rng(3).standard_normal((batch, 3, side, 1)).astype(np.float32)
        result = Session(model, SimulatedBackend("trn2"), dtype, batch).run(x)
        golden = run_network(model.network, model.tensors, x)
        tolerance = 2e-5 if dtype == "float32" else 2e-2
        np.testing.assert_allclose(result.probabilities, golden.probabilities, atol=tolerance, rtol=tolerance)
        if dtype == "float32":
            assert result.classes.tolist() == golden.probabilities.argmax(1).tolist()


def test_a_dense_layer_whose_weights_are_too_large_runs_as_the_others_do() -> None:
    layers = (Dense("a", 8, 2304, "relu"), Dense("b", 2304, 2048))  # 144 KiB per partition
    kinds = [node.kind for node in graph_of(Network("wide", FeatureInput(8), layers, labels(2048))).nodes]
    assert kinds == ["dense", "dense", "scores"]
    values = Network("wide", FeatureInput(8), layers, (), Output("values"))
    assert [node.kind for node in graph_of(values).nodes] == ["dense", "dense"]


def stacked_output(seed: int) -> Chain:
    """Draw a network whose output is a stack of up to three values, which may also be read, returned or stacked
    again."""
    random = np.random.default_rng(seed)
    channels, high, wide = random.integers((1, 1, 1), (5, 9, 9)).tolist()
    chain = Chain(channels, high, wide, seed=seed)
    parts = []
    for _ in range(int(random.integers(2, 4))):
        kernel, outputs = int(random.choice([1, 3])), int(random.choice([1, 2, 4, 5, 24, 80, 130]))
        weight = chain.weight(outputs, channels, kernel, kernel)
        chain.add("Conv", weight, chain.weight(outputs), first="x", pads=[kernel // 2] * 4)
        if random.random() < 0.5:
            chain.add(str(random.choice(["Relu", "Sigmoid"])))
        if random.random() < 0.2:
            chain.add("Mul", chain.weight(1, outputs, high, wide))
        parts.append(chain.value)
    if random.random() < 0.2:
        parts.append(parts[0])
    chain.add("Concat", *parts[1:], first=parts[0], axis=1)
    if random.random() < 0.5:
        chain.add("Reshape", chain.constant([0, -1, high * wide]))
    return chain


def assert_stack_is_right(seed: int, folder: Path, combinations: Sequence[tuple[str, str, int]], batch: int) -> None:
    chain = stacked_output(seed)
    path = chain.save(folder)
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    model = Model(imported.network, imported.tensors, {})
    x = np.random.default_rng(seed).standard_normal((batch, *imported.network.input.shape)).astype(np.float32)
    expected = run_onnx(path, x).reshape(batch, -1)
    for dtype, target, lnc in combinations:
        found = Session(model, SimulatedBackend(target, lnc=lnc), dtype, batch).run(x).probabilities
        share = 1e-4 if dtype == "float32" else network_tolerance(dtype)
        assert np.abs(found - expected).max() <= share * max(1.0, np.abs(expected).max()), (dtype, target, lnc)


@pytest.mark.parametrize(("seed", "batch"), list(enumerate([1, 2, 3, 4, 7, 16])))
def test_a_stack_is_returned_as_onnx_runtime_returns_it(seed: int, batch: int, tmp_path: Path) -> None:
    assert_stack_is_right(seed, tmp_path, [("float32", "trn2", 1 + seed % 2)], batch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 24))
def test_more_stacks_are_returned_as_onnx_runtime_returns_them(seed: int, tmp_path: Path) -> None:
    machines = [("float32", "trn1", 1), ("bfloat16", "trn2", 2), ("float8_e4m3", "trn3", 1)]
    assert_stack_is_right(seed, tmp_path, machines, (1, 2, 3, 4, 7, 16)[seed % 6])


def test_a_stack_is_stored_part_by_part(tmp_path: Path) -> None:
    chain = Chain(3, 6, 5)
    chain.conv((3, 4), (1, 1))
    first = chain.value
    chain.add("Conv", chain.weight(80, 3, 1, 1), first="x")
    chain.add("Concat", first, axis=1)
    imported = import_network(chain.save(tmp_path), options=ImportOptions(output_kind="values"))
    model = Model(imported.network, imported.tensors, {})
    assert isinstance(graph_of(model).nodes[-1].operation, Store)
    operations = decided(model, Decisions()).program.operations
    assert [type(operation) for operation in operations[-2:]] == [Buffer, Store]
