"""8-bit values after clips and other activations, and 8-bit layers with groups: correctness and choice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from depthwise_networks import bounded
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import ALL, MAGNITUDE, answers, assert_right, decide, decided, pipeline_of
from random_networks import labels, model_of, picture
from trninfer.kernels.convolution.forms import DEPTHWISE
from trninfer.lowering.decisions import Decisions, Option, Question
from trninfer.lowering.eight_bits import HEADROOM, LARGEST, EightBits, scaled
from trninfer.lowering.emission import weights as laid_out
from trninfer.lowering.graph.graph import Graph, Node
from trninfer.lowering.launch_sequence import lower_layers
from trninfer.lowering.passes.store_as_fp8 import store_as_fp8
from trninfer.models.golden import run_network
from trninfer.models.layers import Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output
from trninfer.runtime.backend import EIGHT_BITS, NETWORK_DTYPES

BATCHES = (1, 2, 3, 4, 7, 16)
WHEREVER = decide(fp8=ALL)
ACTIVATIONS: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("clip", (0.0, 6.0)),
    ("clip", (-0.5, 0.75)),
    ("clip", (0.0, 1e6)),
    ("clip", (-3.4e38, 1.0)),
    ("relu", ()),
    ("identity", ()),
    ("leaky_relu", (0.1,)),
    ("silu", ()),
    ("gelu", ()),
    ("hardswish", ()),
    ("sigmoid", ()),
)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw an expansion, a layer with groups and a projection of any size, on images with odd and even sides."""
    size = st.integers(3, 13)
    image = picture(3, draw(size), draw(size))
    channels = draw(st.sampled_from([6, 24, 64, 128, 150, 260]))
    groups = draw(st.sampled_from([channels, channels, 2, channels // 2]))
    kernel = draw(st.sampled_from([(3, 3), (3, 3), (5, 5), (1, 1), (3, 1), (2, 2)]))
    stride = draw(st.sampled_from([(1, 1), (2, 2), (2, 1)]))
    padding = (kernel[0] // 2, kernel[1] // 2) * 2
    (first, own), (second, others) = (draw(st.sampled_from(ACTIVATIONS)) for _ in range(2))
    layers: list[Layer] = [
        Conv2d("stem", 3, 24, (1, 1), activation="relu"),
        Conv2d("expand", 24, channels, (1, 1), activation=first, activation_parameters=own),
        Conv2d(
            "each",
            channels,
            channels,
            kernel,
            padding,
            groups=groups,
            stride=stride,
            activation=second,
            activation_parameters=others,
        ),
        Conv2d("project", channels, 12, *draw(st.sampled_from([((1, 1), (0, 0, 0, 0)), ((3, 3), (1, 1, 1, 1))]))),
    ]
    shape = image.shape
    for layer in layers:
        shape = layer.output_shape(shape)  # type: ignore[assignment]
    layers += [Pool("mean", "average", shape[1:], (1, 1)), Flatten("flat"), Dense("last", 12, 4)]  # type: ignore[arg-type]
    return Network("n", image, tuple(layers), (), Output("values"))


@settings(max_examples=40, deadline=None)
@given(networks(), st.sampled_from(BATCHES), st.sampled_from(["trn2", "trn2", "trn3"]), st.booleans())
def test_whatever_is_in_eight_bits_is_right(network: Network, batch: int, target: str, packs_rows: bool) -> None:
    decisions = decide(fp8=ALL, packs_rows=packs_rows, pack_depthwise_expansions=packs_rows)
    plan = assert_right(network, decisions, batch, EIGHT_BITS, target=target, forms=DEPTHWISE)
    each, project = network.layers[2:4]
    assert isinstance(each, Conv2d) and isinstance(project, Conv2d)
    narrow = names(plan.graph, lambda node: node.operation.is_fp8)
    if each.kernel_size != (1, 1):  # two taps at a time
        assert "expand" in narrow and "each" in names(plan.graph, lambda node: node.has_fp8_weights)
    if project.kernel_size != (1, 1):
        assert "each" in narrow


def names(graph: Graph, is_so: Callable[[Node], bool]) -> set[str]:
    return {node.name for node in graph.nodes if is_so(node)}


def test_bounds_are_shares_of_the_scale_that_they_bound() -> None:
    plan = decided(bounded(), WHEREVER, dtype=EIGHT_BITS)
    parts = [node for node in plan.graph.nodes if node.name == "each0"]
    assert MAGNITUDE * HEADROOM > 6 and len(parts) == 1
    for node in parts:
        *_, low, high = scaled(plan.graph, node)
        np.testing.assert_allclose(high, np.full(node.operation.channels, LARGEST), rtol=1e-6)
        assert not low.any()


FAULTS: dict[str, Callable[[list[np.ndarray]], list[np.ndarray]]] = {
    "bounds that are not scaled": lambda columns: [*columns[:-1], columns[-1] * 0 + 6],
    "bounds of another channel's scale": lambda columns: [*columns[:-1], columns[-1] / 8],
    "sums that are not scaled": lambda columns: [columns[0], columns[1] * 0 + 1, *columns[2:]],
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_wrong_column_is_found(
    fault: Callable[[list[np.ndarray]], list[np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = bounded()
    assert_right(model, WHEREVER, 2, EIGHT_BITS)

    def wrong(graph: Graph, node: Node) -> list[np.ndarray]:
        columns = scaled(graph, node)
        return fault(columns) if len(columns) == 4 else columns

    monkeypatch.setattr(laid_out, "scaled", wrong)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_right(model, WHEREVER, 2, EIGHT_BITS)


def test_weights_with_groups_stay_where_what_they_read_does() -> None:
    plan = assert_right(bounded(), Decisions(), 2, EIGHT_BITS)
    assert not names(plan.graph, lambda node: node.name.startswith("each") and node.has_fp8_weights)
    assert names(plan.graph, lambda node: node.operation.is_fp8) == {"stem", "project0"}


def test_what_gains_nothing_stays() -> None:
    """A 1x1 convolution with one tile of channels can contract over neither two taps nor two tiles."""
    layers: tuple[Layer, ...] = (
        Conv2d("stem", 3, 24, (1, 1), activation="relu"),
        Conv2d("each", 24, 24, (3, 3), (1, 1, 1, 1), activation="relu", groups=24),
        Conv2d("project", 24, 24, (1, 1)),
        Flatten("flat"),
        Dense("last", 24 * 25, 4),
    )
    plan = decided(model_of(Network("n", picture(3, 5, 5), layers, labels(4))), WHEREVER, dtype=EIGHT_BITS)
    assert names(plan.graph, lambda node: node.operation.is_fp8) == {"stem"}


def test_one_value_at_a_time_is_chosen() -> None:
    pipeline = pipeline_of(bounded(), EIGHT_BITS)
    plain = dict(pipeline.run(Decisions()))["choose_forms"]
    asked: list[str] = []

    def answer(question: Question) -> Option:
        graph, number, (wide, narrow) = question.graph, question.number, question.options
        asked.append(graph.nodes[number].name)
        assert narrow.changed[number].operation.is_fp8 and not graph.nodes[number].operation.is_fp8
        assert {number, *(reader for reader, _ in graph.readers(number))} <= set(question.priced)
        return narrow if asked[-1] == "expand1" else wide

    chosen = store_as_fp8(plain, answer)
    assert list(dict.fromkeys(asked)) == ["expand0", "each0", "expand1", "each1"]
    assert asked.count("expand0") == asked.count("each0") == 1
    assert names(chosen, lambda node: node.operation.is_fp8) - names(plain, lambda node: node.operation.is_fp8) == {
        "expand1"
    }
    assert "each1" in names(chosen, lambda node: node.has_fp8_weights)


@pytest.mark.parametrize(("largest", "is_fp8"), [(0.1, False), (0.25, True), (30.0, True), (31.0, False)])
def test_values_without_a_scale_are_of_magnitudes_near_one(largest: float, is_fp8: bool) -> None:
    model = bounded(activation=("silu", ()))
    graph = lower_layers(model, NETWORK_DTYPES[EIGHT_BITS], EightBits(lambda name: largest, values=True))
    assert ("expand0" in names(graph, lambda node: node.may_be_fp8)) == is_fp8


def test_what_a_clip_bounds_does_not_overflow() -> None:
    """The inputs are a thousand times as large as those seen in calibration."""
    layers: tuple[Layer, ...] = (
        Conv2d("stem", 3, 24, (1, 1), activation="clip", activation_parameters=(0.0, 6.0)),
        Conv2d("expand", 24, 48, (1, 1), activation="clip", activation_parameters=(0.0, 6.0)),
        Conv2d("project", 48, 24, (3, 3), (1, 1, 1, 1), activation="clip", activation_parameters=(-6.0, 6.0)),
        Flatten("flat"),
        Dense("last", 24 * 25, 4),
    )
    model = model_of(Network("n", picture(3, 5, 5), layers, labels(4)))
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 5)).astype(np.float32) * 1000
    plan = decided(model, WHEREVER, 2, EIGHT_BITS)
    assert "expand" in names(plan.graph, lambda node: node.operation.is_fp8)
    expected = run_network(model.network, model.tensors, x).probabilities
    np.testing.assert_allclose(answers(model, plan, x, EIGHT_BITS), expected, atol=0.3)
