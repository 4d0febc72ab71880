"""Which weights and values are stored in 8 bits, and with which scales."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lowered import decide
from random_networks import labels, model_of, picture
from trninfer import kernels, simulator
from trninfer.kernels.program import Convolution, DenseHead
from trninfer.lowering.decisions import Choice, Decisions, Kind
from trninfer.lowering.eight_bits import HEADROOM, LARGEST, EightBits, layers_with_weights, scaled, scales_of_weights
from trninfer.lowering.emission.schedule import Region
from trninfer.lowering.emission.weights import lay_out_weights
from trninfer.lowering.graph.graph import Graph, Node
from trninfer.lowering.launch_sequence import lower_layers
from trninfer.lowering.pipeline import Pipeline
from trninfer.models.golden import run_network
from trninfer.models.layers import Activation, Affine, Combine, Conv2d, Dense, Flatten, Layer, Pool, PRelu
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.simulator.machine.chip import find_target

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
LAYERS: tuple[Layer, ...] = (
    Conv2d("first", 3, 16, (3, 3), (1, 1, 1, 1), activation="relu"),
    Conv2d("a", 16, 24, (3, 3), (1, 1, 1, 1), activation="relu"),
    Conv2d("each", 24, 24, (3, 3), (1, 1, 1, 1), activation="relu", groups=24),
    Conv2d("b", 24, 24, (1, 1)),
    Conv2d("c", 24, 24, (1, 1), activation="gelu"),
    Conv2d("d", 24, 24, (1, 1)),
    Combine("sum", "add", "relu", inputs=("d", "b")),
    Conv2d("e", 24, 24, (1, 1), activation="relu"),
    Pool("pool", "max", (2, 2), (2, 2)),
    Conv2d("f", 24, 8, (1, 1), activation="relu"),
    Flatten("flat"),
    Dense("last", 8 * 16, 5),
)
SEEN = {"first": 6.0, "a": 1.0, "b": 3.0, "d": 2.0, "sum": 12.0, "e": 5.0}


def graph_of(values: bool = True, are_all: bool = False) -> Graph:
    network = Network("n", picture(3, 8, 8), LAYERS, labels(5))
    return lower_layers(model_of(network), BFLOAT16, EightBits(lambda name: SEEN.get(name, 1.0), values, are_all))


def node_of(graph: Graph, name: str) -> Node:
    return next(
        node for node in graph.nodes if node.name == name and isinstance(node.operation, (Convolution, DenseHead))
    )


def names(graph: Graph, *, of_values: bool) -> list[str]:
    found = [node.name for node in graph.nodes if (node.operation.is_fp8 if of_values else node.has_fp8_weights)]
    return list(dict.fromkeys(found))


def test_weights_but_of_the_first_the_last_and_groups_are() -> None:
    assert sorted(names(graph_of(), of_values=False)) == ["a", "b", "c", "d", "e", "f"]
    assert sorted(names(graph_of(are_all=True), of_values=False)) == ["a", "b", "c", "d", "e", "f", "first", "last"]


def test_layers_of_factors_have_no_weights() -> None:
    layers = (LAYERS[0], PRelu("slopes", 16), Affine("factors", (16,)), Flatten("flat"), Dense("last", 16 * 64, 5))
    assert layers_with_weights(Network("n", picture(3, 8, 8), layers, labels(5))) == ["first", "last"]


def test_values_that_only_such_layers_read_are() -> None:
    """The exceptions are values that a depthwise layer, a pool or a final dense layer reads, and the value of a
    gelu."""
    assert sorted(names(graph_of(), of_values=True)) == ["b", "d", "first"]
    assert sorted(names(graph_of(are_all=True), of_values=True)) == ["b", "d", "f", "first"]
    assert names(graph_of(values=False), of_values=True) == []


def test_the_largest_weight_of_a_channel_is_the_largest_number() -> None:
    filters = np.random.default_rng(0).standard_normal((5, 3, 2, 2)).astype(np.float32)
    filters[3] = 0
    scales = scales_of_weights(filters)
    largest = np.abs(filters / scales[:, None, None, None]).reshape(5, -1).max(axis=1)
    np.testing.assert_allclose(largest, [LARGEST, LARGEST, LARGEST, 0, LARGEST], rtol=1e-6)
    assert np.isfinite((filters / scales[:, None, None, None]).astype(ml_dtypes.float8_e4m3).astype(np.float32)).all()


def test_scales_take_the_operands_in_and_the_value_out() -> None:
    graph = graph_of()
    node = node_of(graph, "d")  # reads c in bfloat16 and adds b; its value is the sum
    assert node.filters is not None
    weights = scales_of_weights(node.filters.make())
    own, added = (np.float32(HEADROOM * SEEN[name] / LARGEST) for name in ("sum", "b"))
    bias, scale, before, after, inverse = scaled(graph, node)
    np.testing.assert_allclose(bias, node.numbers[0] / own, rtol=1e-6)
    np.testing.assert_allclose(scale, weights / own, rtol=1e-6)
    np.testing.assert_allclose(before, weights / added, rtol=1e-6)
    np.testing.assert_allclose(after, np.full(24, added / own), rtol=1e-6)
    np.testing.assert_allclose(inverse * before, np.ones(24), rtol=1e-6)


def test_a_layer_in_bfloat16_scales_its_value_alone() -> None:
    graph = graph_of()
    _bias, scale = scaled(graph, node_of(graph, "first"))
    np.testing.assert_allclose(scale, np.full(16, LARGEST / (HEADROOM * SEEN["first"])), rtol=1e-6)
    assert len(scaled(graph, node_of(graph, "each"))) == 1


def test_weights_are_in_two_arrays() -> None:
    layout = lay_out_weights(graph_of())
    operands = layout.operands(BFLOAT16)
    weights, constants, narrow = operands["weights"], operands["channel_constants"], operands["weights_fp8"]
    assert weights.dtype == BFLOAT16 and narrow.dtype == np.uint8 and constants.dtype == np.float32
    assert {n: (array.shape, array.dtype) for n, array in operands.items()} == layout.sizes.specs(BFLOAT16)
    assert np.abs(narrow.view(ml_dtypes.float8_e4m3).astype(np.float32)).max() == LARGEST
    plain = lay_out_weights(lower_layers(model_of(Network("n", picture(3, 8, 8), LAYERS, labels(5))), BFLOAT16))
    assert list(plain.sizes.specs(BFLOAT16)) == ["weights", "channel_constants"]


def test_an_activation_of_its_own_keeps_what_it_reads_out() -> None:
    layers = (
        *LAYERS[:2],
        Activation("swish", "silu"),
        Conv2d("b", 24, 8, (1, 1)),
        Flatten("flat"),
        Dense("last", 512, 5),
    )
    model = model_of(Network("n", picture(3, 8, 8), layers, labels(5)))
    graph = lower_layers(model, BFLOAT16, EightBits(lambda name: 1.0, values=True))
    assert names(graph, of_values=True) == ["first"] and names(graph, of_values=False) == ["a", "b"]


@pytest.mark.parametrize("largest", [0.0, 1e-3, 1e4])
def test_any_largest_magnitude_has_a_scale(largest: float) -> None:
    model = model_of(Network("n", picture(3, 8, 8), LAYERS, labels(5)))
    graph = lower_layers(model, BFLOAT16, EightBits(lambda name: largest, values=True))
    assert all(np.isfinite(column).all() for column in scaled(graph, node_of(graph, "d")))


def _error_by(layers: tuple[Layer, ...], decisions: Decisions) -> float:
    """Return the largest error of a launch with the given decisions, as a share of the largest score."""
    model = model_of(Network("n", picture(3, 16, 16), layers, (), Output("values")))
    x = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
    largest: dict[str, float] = {}
    golden = run_network(
        model.network, model.tensors, x, lambda name, value: largest.setdefault(name, np.abs(value).max())
    )
    graph = lower_layers(model, BFLOAT16, EightBits(largest.__getitem__, values=True))
    pipeline = Pipeline(graph, (), find_target("trn2").usable_sbuf_bytes)
    plan = pipeline.launch(decisions.having(Choice(Kind.STAGE, value=2)), 2)
    assert any(node.operation.is_fp8 for node in plan.graph.nodes)
    for node in plan.graph.nodes:
        if isinstance(node.operation, (Convolution, DenseHead)):
            assert {len(column) for column in scaled(plan.graph, node)} == {len(node.numbers[0])}
    packed = plan.arrange(x, (3, 16, 16), BFLOAT16)
    run = simulator.run(
        kernels.kernel("run_network"), packed, **plan.layout.operands(BFLOAT16), target="trn2", program=plan.program
    )
    ((values, _),) = plan.outputs(run.outputs)
    error = np.abs(np.asarray(values).reshape(2, -1).astype(np.float32) - golden.scores).max()
    return float(error / np.abs(golden.scores).max())


@pytest.mark.parametrize("packs_rows", [False, True])
@pytest.mark.parametrize(("wide", "pool"), [(64, 2), (64, 1), (160, 1)])
@pytest.mark.parametrize("pads", [False, True])
def test_packed_rows_have_the_scales_of_their_channels(packs_rows: bool, wide: int, pool: int, pads: bool) -> None:
    """Also if a pool has been split off its convolution, or if rows are packed only in the input."""
    channels = 40 if pads else 64
    layers = (
        Conv2d("first", 3, channels, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("a", channels, wide, (3, 3), (1, 1, 1, 1), pool, "relu"),
        Conv2d("b", wide, channels, (1, 1), activation="relu"),
        Conv2d("c", channels, 12, (3, 3), (1, 1, 1, 1)),
        Pool("mean", "average", (16 // pool, 16 // pool), (1, 1)),
        Flatten("flat"),
        Dense("last", 12, 5),
    )
    assert _error_by(layers, decide(packs_rows=packs_rows, pads_channels=packs_rows and pads)) < 0.1


@pytest.mark.parametrize(
    "decisions",
    [decide(in_hbm=(0,)), decide(in_hbm=(0, 1, 2)), decide(regions=(Region(0, 2, 2),)), Decisions()],
    ids=["one in HBM", "all in HBM", "bands", "SBUF"],
)
def test_values_in_hbm_and_in_bands_keep_their_scales(decisions: Decisions) -> None:
    layers = (
        Conv2d("first", 3, 40, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("a", 40, 160, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("b", 160, 48, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("c", 48, 12, (1, 1)),
        Pool("mean", "average", (16, 16), (1, 1)),
        Flatten("flat"),
        Dense("last", 12, 5),
    )
    assert _error_by(layers, decisions) < 0.1


@pytest.mark.parametrize("largest", [0.0, 1e-45, 1e-38, np.inf, np.nan])
def test_what_nothing_can_be_divided_by_is_no_scale(largest: float) -> None:
    """Zeros, tiny numbers, and numbers that are not finite."""
    model = model_of(Network("n", picture(3, 8, 8), LAYERS, labels(5)))
    graph = lower_layers(model, BFLOAT16, EightBits(lambda name: largest, values=True))
    for name in ("first", "d"):
        assert all(np.isfinite(column).all() and column.any() for column in scaled(graph, node_of(graph, name)))
    filters = np.full((2, 3, 1, 1), np.float32(largest))
    np.testing.assert_array_equal(scales_of_weights(filters), np.ones(2))


def _largest_of(activation: str, parameters: tuple[float, ...], seen: float) -> float | None:
    """Return the largest magnitude that the scale of a layer's value allows, or None if it has no scale."""
    layers = (
        Conv2d("first", 3, 16, (3, 3), (1, 1, 1, 1), activation="relu"),
        Conv2d("a", 16, 24, (1, 1), activation=activation, activation_parameters=parameters),
        Conv2d("b", 24, 8, (1, 1), activation="relu"),
        Flatten("flat"),
        Dense("last", 8 * 64, 5),
    )
    network = Network("n", picture(3, 8, 8), layers, labels(5))
    graph = lower_layers(model_of(network), BFLOAT16, EightBits(lambda name: seen, True))
    largest = node_of(graph, "a").largest
    return None if largest is None else float(largest.make())


def test_bounds_on_both_sides_limit_the_scale_of_a_clip() -> None:
    assert _largest_of("clip", (-16.0, 4.0), 9.0) == 16 / HEADROOM
    assert _largest_of("clip", (-4.0, 16.0), 9.0) == 16 / HEADROOM
    assert _largest_of("clip", (-16.0, 4.0), 1.0) == 1.0


def test_values_that_have_no_scale_are_neither_too_small_nor_too_large() -> None:
    assert _largest_of("gelu", (), 0.2) is None
    assert _largest_of("gelu", (), 1.0) == LARGEST / HEADROOM
    assert _largest_of("gelu", (), 1000.0) is None
