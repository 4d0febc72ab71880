"""Channels padded with zeros so that two rows fit on the partitions."""

from pathlib import Path

import numpy as np
import pytest
from batched_networks import StagedNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import (
    answers,
    applicable,
    assert_right,
    convolution_of,
    decide,
    decided,
    graph_of,
    nanoseconds,
    nodes_of,
    operation_of,
    pipeline_of,
)
from onnx_chain import run_onnx
from random_networks import conv, ending_in_dense, labels, model_of, picture, stage_of_yolo
from trninfer.kernels.program import Activation, Convolution
from trninfer.lowering.decisions import Decisions, Kind
from trninfer.lowering.graph.graph import Graph, Node
from trninfer.lowering.graph.lazy import LazyArray
from trninfer.lowering.passes.pack_rows import pack_rows
from trninfer.lowering.passes.pad_channels import PadChannels, pad_channels
from trninfer.lowering.search import search as searching
from trninfer.lowering.search.candidates import Candidates
from trninfer.lowering.search.cost_model import CostModel
from trninfer.lowering.search.search import Search
from trninfer.models.files import Model
from trninfer.models.importing import ImportOptions, import_network
from trninfer.models.layers import Combine, Concat, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.runtime.tolerances import network_tolerance

ROOM = 2**17
WIDE = decide(pads_channels=True, packs_rows=True)


def blocks(channels: int, end: str, activation: str = "relu") -> Network:
    """Return a residual block and the layers after it."""
    layers: list[Layer] = [
        Conv2d("stem", 2, channels, (3, 3), (1, 1, 1, 1), activation=activation),
        Conv2d("a", channels, channels, (3, 3), (1, 1, 1, 1), activation=activation),
        Conv2d("b", channels, channels, (3, 3), (1, 1, 1, 1)),
        Combine("sum", "add", "relu", inputs=("b", "stem")),
    ]
    window = (12, 7)
    if end == "smaller":
        layers.append(Conv2d("next", channels, 20, (3, 3), (1, 1, 1, 1), activation="relu", stride=(2, 2)))
        channels, window = 20, (6, 4)
    elif end == "pool":
        layers.append(Pool("pool", "max", (2, 2), (2, 2)))
        window = (6, 3)
    elif end == "product":
        layers += [Conv2d("c", channels, channels, (1, 1)), Combine("product", "multiply", inputs=("c", "sum"))]
    layers += [Pool("mean", "average", window, (1, 1)), Flatten("flat"), Dense("dense", channels, 4)]
    return Network("n", picture(2, 12, 7), tuple(layers), labels(4))


@settings(max_examples=30)
@given(
    st.sampled_from([33, 40, 48, 63]),
    st.sampled_from(["", "smaller", "pool", "product"]),
    st.sampled_from(["relu", "sigmoid", "silu"]),
    st.sampled_from([1, 5, 40]),
    st.booleans(),
    st.sampled_from(["float32", "bfloat16"]),
)
def test_networks_of_such_channels_compute_what_the_golden_model_does(
    channels: int, end: str, activation: str, batch: int, rows: bool, dtype: str
) -> None:
    decisions = decide(pads_channels=True, packs_rows=rows)
    tolerance = 2e-5 if dtype == "float32" else 4e-2
    assert_right(blocks(channels, end, activation), decisions, batch, dtype, tolerance=tolerance)


@pytest.mark.parametrize(
    ("end", "wide"),
    [
        ("", ["stem", "a", "b", "mean"]),
        ("smaller", ["stem", "a", "b"]),
        ("pool", ["stem", "a", "b", "pool", "mean"]),
        ("product", ["a"]),  # a product of tensors has as many channels as both operands
    ],
)
def test_what_is_read_as_it_is_keeps_its_channels(end: str, wide: list[str]) -> None:
    graph = graph_of(blocks(40, end))
    with_zeros = pad_channels(graph)
    assert with_zeros is not None
    assert [node.name for node in with_zeros.nodes if node.operation.channels == 64] == wide
    for before, after in zip(graph.nodes, with_zeros.nodes, strict=True):
        if before.filters is not None and after.filters is not None:
            filters, own = after.filters.make(), before.filters.make()
            operation = after.operation
            assert filters.shape == after.filters.shape == (operation.channels, after.before[0], *own.shape[2:])
            np.testing.assert_array_equal(filters[: own.shape[0], : own.shape[1]], own)
            assert np.count_nonzero(filters) == np.count_nonzero(own)


def test_values_that_are_added_or_stacked_are_padded() -> None:
    """In a stage of YOLO, zeros follow the channels of each part."""
    layers = (*stage_of_yolo(16), Flatten("flat"), Dense("dense", 64 * 32 * 5, 4))
    network = Network("n", picture(3, 32), layers, labels(4))
    plain, padded = graph_of(network), pad_channels(graph_of(network))
    assert padded is not None
    assert [operation_of(padded, name).channels for name in ("a", "b", "c", "d")] == [32] * 4
    before, after = (convolution_filters(graph, "wide") for graph in (plain, padded))
    np.testing.assert_array_equal(after.reshape(64, 3, 32)[:, :, :16], before.reshape(64, 3, 16))
    assert np.count_nonzero(after) == np.count_nonzero(before)
    assert operation_of(pack_rows(padded), "d").channels == 128


def test_values_that_are_stacked_may_keep_their_channels() -> None:
    """Padding them is a separate choice if other values can be padded without them."""
    graph = graph_of(shuffled(40))
    padded = {which: pad_channels(graph, which=which) for which in ("all", "alone")}
    names = {
        which: sorted(node.name for node in made.nodes if node.operation.channels == 64) if made else []
        for which, made in padded.items()
    }
    assert names == {"all": ["each", "narrow", "stem", "wide"], "alone": ["each", "narrow"]}
    chosen = [choice.value for choice in PadChannels().offers(graph, Decisions(), 1)]
    assert chosen == ["all", "alone"]
    chain = [conv("stem", 3, 40, 3), conv("b", 40, 40, 3)]
    (only,) = PadChannels().offers(graph_of(ending_in_dense((3, 12, 12), chain)), Decisions(), 1)
    assert only.value == "all"


def shuffled(channels: int) -> Network:
    """Return a ShuffleNet unit."""
    layers = (
        Conv2d("stem", 3, channels, (3, 3), (1, 1, 1, 1), activation="relu", stride=(2, 2)),
        Conv2d("narrow", channels, channels, (1, 1), activation="relu"),
        Conv2d("each", channels, channels, (3, 3), (1, 1, 1, 1), groups=channels),
        Conv2d("wide", channels, channels, (1, 1)),
        Concat("all", inputs=("stem", "wide")),
        conv("next", 2 * channels, 72, 1),
        Pool("mean", "average", (8, 8), (1, 1)),
        Flatten("flat"),
        Dense("dense", 72, 4),
    )
    return Network("n", picture(3, 16, 16), layers, labels(4))


def test_each_padding_is_tried_and_the_fastest_of_each_with_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline, cost_model = pipeline_of(model_of(shuffled(24))), CostModel("trn2", 2)
    candidates = [each for each in Candidates(pipeline, cost_model, 1) if not each.value(Kind.PACK_IMAGES)]
    assert {each.value(Kind.PAD_CHANNELS) for each in candidates} == {0, "all", "alone"}
    warmed: list[object] = []
    monkeypatch.setattr(searching, "WALKED_INSTRUCTIONS", 300)  # spent by the candidates alone
    monkeypatch.setattr(Search, "_warm", lambda _, plan: warmed.append(plan.decisions.value(Kind.PAD_CHANNELS)) or [])
    search = Search(pipeline, cost_model, 1)
    best = search.find(candidates).nanoseconds
    assert search.is_over and best <= min(plan.nanoseconds for plan, _ in search._finalists)
    assert len(set(warmed)) == 2


def convolution_filters(graph: Graph, name: str) -> np.ndarray:
    (node,) = nodes_of(graph, name)
    assert node.filters is not None
    return node.filters.make()


def test_nothing_is_wider_where_zeros_would_not_stay_harmless() -> None:
    def of(activation: str) -> Graph:
        shapes = (3, 9, 9), (40, 9, 9)
        operation = Convolution(
            name="a", sources=((-1,),), channels=40, rows=9, columns=9, activation=Activation(activation)
        )
        node = Node(operation, "conv2d", shapes[0], shapes, LazyArray.of(np.ones((40, 3, 1, 1))), (np.ones(40),))
        return Graph((node,), shapes[0], 4)

    assert pad_channels(of("relu")) is not None
    assert pad_channels(of("log")) is None  # log(0) is not finite
    assert pad_channels(graph_of(blocks(32, ""))) is None  # four rows fit without padding


def test_pairs_of_rows_are_quicker_for_a_batch_of_40_channels() -> None:
    wide, plain = (decided(blocks(40, ""), decisions, 8) for decisions in (WIDE, Decisions()))
    assert (convolution_of(wide.graph, "a").kernel, convolution_of(wide.graph, "a").channels) == ((2, 3), 128)
    assert nanoseconds(wide) < nanoseconds(plain)


def assert_as_onnx_runtime(seed: int, folder: Path, dtype: str, target: str, batch: int) -> None:
    """Compare a row-packed network with several stages with ONNX Runtime."""
    network = StagedNetwork(seed, 5, 36)
    path = network.saved(folder)
    imported = import_network(path, options=ImportOptions(output_kind="values"))
    model = Model(imported.network, imported.tensors, {})
    x = np.random.default_rng(seed).standard_normal((batch, *network.shape)).astype(np.float32)
    expected = run_onnx(path, x)
    decisions = applicable(model, decide(pads_channels=True, packs_rows=True, splits_phases=seed % 2 == 1), batch)
    error = np.abs(answers(model, decided(model, decisions, batch, dtype), x, dtype, target) - expected).max()
    tolerance = 1e-4 if dtype == "float32" else network_tolerance(dtype)
    assert error <= tolerance * max(1.0, np.abs(expected).max()), (error, network.words)


@pytest.mark.parametrize(("seed", "batch"), list(enumerate([1, 2, 3, 4, 7, 16])))
def test_stages_are_answered_as_onnx_runtime_answers_them(seed: int, batch: int, tmp_path: Path) -> None:
    assert_as_onnx_runtime(seed, tmp_path, "float32", "trn2", batch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 22))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3"])
def test_more_stages_are_answered_as_onnx_runtime_answers_them(seed: int, dtype: str, tmp_path: Path) -> None:
    assert_as_onnx_runtime(seed, tmp_path, dtype, f"trn{1 + seed % 3}", (1, 2, 3, 4, 7, 16)[seed % 6])
