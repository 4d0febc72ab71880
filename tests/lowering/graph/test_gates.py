"""Gates that span all channels, and averages computed as sums."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, decided, graph_of
from random_networks import model_of, picture
from trninfer.kernels.program import AveragePool, Combine
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.emission.warmup import with_zeros
from trninfer.lowering.search.cost_model import CostModel
from trninfer.models.files import Model
from trninfer.models.layers import Combine as Combination
from trninfer.models.layers import Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network
from trninfer.models.outputs import Output


def gated(channels: int, squeezed: int, side: int, activation: str = "silu", gate: str = "sigmoid") -> Model:
    """Return a stem with a squeeze-and-excite gate, a convolution, global average pooling and a dense layer."""
    layers: list[Layer] = [
        Conv2d("stem", 3, channels, (3, 3), (1, 1, 1, 1), 1, activation),
        Pool("mean", "average", (side, side), (1, 1)),
        Conv2d("squeeze", channels, squeezed, (1, 1), activation="relu"),
        Conv2d("excite", squeezed, channels, (1, 1), activation=gate),
        Combination("gated", "multiply", inputs=("stem", "excite")),
        Conv2d("project", channels, 9, (1, 1)),
        Pool("end", "average", (side, side), (1, 1)),
        Flatten("flat"),
        Dense("dense", 9, 7),
    ]
    return model_of(Network("gated", picture(3, side, side), tuple(layers), (), Output("values")))


@settings(max_examples=25, deadline=None)
@given(
    channels=st.one_of(st.sampled_from((16, 32, 64)), st.integers(2, 600)),
    squeezed=st.sampled_from((1, 2, 5, 40, 127, 130)),
    side=st.integers(2, 13),
    activation=st.sampled_from(("silu", "relu")),
    dtype=st.sampled_from(("float32", "bfloat16", "float16")),
    batch=st.sampled_from((1, 2, 3, 4, 7, 16)),
    rows=st.booleans(),
    zeros=st.booleans(),
    target=st.sampled_from(("trn1", "trn2", "trn3")),
)
@example(480, 20, 7, "silu", "bfloat16", 1, False, True, "trn2")
@example(32, 5, 12, "relu", "bfloat16", 2, True, False, "trn2")
@example(513, 20, 12, "silu", "float32", 3, False, False, "trn2")
@example(129, 5, 4, "silu", "bfloat16", 16, False, False, "trn1")
def test_gates_of_any_channels(
    channels: int,
    squeezed: int,
    side: int,
    activation: str,
    dtype: str,
    batch: int,
    rows: bool,
    zeros: bool,
    target: str,
) -> None:
    model = gated(channels, squeezed, side, activation)
    decisions = applicable(model, decide(packs_rows=rows), batch)
    plan = decided(model, decisions, batch, dtype)
    (excite,) = [n for n, each in enumerate(plan.program.operations) if getattr(each, "is_gate", False)]
    if zeros and target != "trn1":
        decisions = with_zeros(decisions, [(excite, 3)], plan.emitted, plan.graph)
    assert_right(model, decisions, batch, dtype, target=target)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_means_are_sums_but_in_float16(dtype: str) -> None:
    graph = graph_of(gated(40, 4, 6), dtype)
    pools = [node.operation for node in graph.nodes if isinstance(node.operation, AveragePool)]
    assert len(pools) == 2 and all(pool.is_sum is (dtype != "float16") for pool in pools)


def test_a_mean_in_two_steps_is_a_sum_in_two_steps() -> None:
    assert_right(gated(40, 4, 11), decide(splits_means=True), 2)


def test_a_mean_that_others_read_stays_a_mean() -> None:
    layers: list[Layer] = [
        Conv2d("stem", 3, 12, (3, 3), (1, 1, 1, 1), 1, "relu"),
        Pool("mean", "average", (6, 6), (1, 1)),
        Combination("gated", "multiply", inputs=("stem", "mean")),
        Flatten("flat"),
        Dense("dense", 432, 7),
    ]
    model = model_of(Network("n", picture(3, 6, 6), tuple(layers), (), Output("values")))
    graph = graph_of(model)
    assert not any(getattr(node.operation, "is_sum", False) for node in graph.nodes)
    assert any(isinstance(node.operation, Combine) for node in graph.nodes)
    assert_right(model, Decisions(), 2)


def test_the_gates_of_many_channels_are_quicker_at_once() -> None:
    graph = decided(gated(1152, 48, 7), Decisions(), 1, "bfloat16").graph
    (number,) = [n for n, node in enumerate(graph.nodes) if getattr(node.operation, "is_gate", False)]
    nodes = list(graph.nodes)
    nodes[number] = nodes[number].changed(is_gate=False)
    cost_model = CostModel("trn2", 2)
    at_once, apart = (cost_model.cost(each, number, 1).nanoseconds for each in (graph, graph.with_nodes(nodes)))
    assert at_once < apart, (at_once, apart)
