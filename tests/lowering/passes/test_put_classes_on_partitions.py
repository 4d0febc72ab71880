"""Scores of one picture with the classes on the partitions."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import applicable, assert_right, decide, decided, graph_of, nanoseconds, planned
from random_networks import chains, conv, few_channels, graphs, labels, picture
from trninfer.kernels.program import DenseHead
from trninfer.lowering.decisions import Kind
from trninfer.lowering.graph.graph import Graph
from trninfer.lowering.passes.put_classes_on_partitions import put_classes_on_partitions
from trninfer.models.layers import Dense, Flatten, Softmax
from trninfer.models.network import Network


def dense(classes: int, *more: Softmax, features: int = 512) -> Network:
    layers = (Flatten("flat"), Dense("dense", features, classes), *more)
    return Network("n", picture(features, 1, 1), layers, labels(classes))


def wider(network: Network, classes: int) -> Network:
    """Return a network that ends in a dense layer with a different number of classes, without softmax."""
    layers = network.layers if not isinstance(network.layers[-1], Softmax) else network.layers[:-1]
    last = layers[-1] if isinstance(layers[-1], Dense) else None
    wide = Dense("wide", len(network.labels), classes) if last is None else replace(last, out_features=classes)
    return replace(network, layers=(*(layers if last is None else layers[:-1]), wide), labels=labels(classes))


def has_classes_on_partitions(graph: Graph) -> bool:
    return any(getattr(node.operation, "by_columns", False) for node in graph.nodes)


def test_some_scores_can_be_turned() -> None:
    def turned(network: Network) -> bool:
        return has_classes_on_partitions(
            put_classes_on_partitions(graph_of(network), lambda question: question.options[-1])
        )

    assert turned(dense(129)) and turned(dense(1000)) and not turned(dense(128))
    assert not turned(dense(1000, Softmax("softmax")))
    assert not has_classes_on_partitions(
        put_classes_on_partitions(graph_of(dense(1000)), lambda question: question.options[0])
    )


@pytest.mark.parametrize("classes", [129, 200, 256, 1000])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_one_picture_is_answered_as_several_are(classes: int, dtype: str) -> None:
    plan = assert_right(dense(classes), decide(turns_scores=True), 1, dtype)
    assert has_classes_on_partitions(plan.graph)
    assert plan.layout.columns == -(-classes // 128) + 1


@settings(max_examples=30)
@given(
    st.one_of(chains(), graphs(), few_channels()),
    st.sampled_from([129, 150, 256, 257]),
    st.sampled_from(["float32", "bfloat16", "float16"]),
    st.booleans(),
)
def test_random_networks_of_many_classes(network: Network, classes: int, dtype: str, packs_rows: bool) -> None:
    network = wider(network, classes)
    decisions = applicable(network, decide(packs_rows=packs_rows, turns_scores=True))
    plan = assert_right(network, decisions, 1, dtype)
    ends = [each for each in plan.program.operations if isinstance(each, DenseHead)]
    assert all(each.by_columns == each.activation.is_identity for each in ends)


@pytest.mark.parametrize("batch", [2, 4])
def test_pictures_that_are_packed_in_one_image_are_several(batch: int) -> None:
    layers = (conv("a", 3, 16, 3), conv("b", 16, 128, 3), Flatten("flat"), Dense("dense", 128 * 6 * 5, 200))
    network = Network("n", picture(3, 6), layers, labels(200))
    plan = assert_right(network, decide(packed=batch, turns_scores=True), batch, "bfloat16")
    assert not has_classes_on_partitions(plan.graph)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 7, 16])
def test_they_are_turned_where_that_is_quicker(batch: int) -> None:
    plan = planned(dense(1000), batch, "bfloat16")
    assert bool(plan.decisions.of(Kind.CLASSES_ON_PARTITIONS)) == has_classes_on_partitions(plan.graph) == (batch == 1)
    if batch == 1:
        other = decided(dense(1000), plan.decisions.without(Kind.CLASSES_ON_PARTITIONS), 1, "bfloat16")
        assert plan.nanoseconds < nanoseconds(other, "bfloat16")
