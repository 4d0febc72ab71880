"""Channels that are padded with zeros, so that two rows fit the partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered import assert_right, convolution_of, decide, decided, graph_of, nanoseconds
from random_networks import labels, picture
from trninfer.kernels.program import Activation, Convolution
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.graph import Graph, Node
from trninfer.lowering.lazy import LazyArray
from trninfer.lowering.passes.pad_channels import pad_channels
from trninfer.models.layers import Combine, Conv2d, Dense, Flatten, Layer, Pool
from trninfer.models.network import Network

WIDE = decide(pads_channels=True, packs_rows=True)


def blocks(channels: int, end: str, activation: str = "relu") -> Network:
    """A residual block and what comes after it."""
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
        ("product", ["a"]),  # a product of tensors has as many channels as both
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


def test_nothing_is_wider_where_zeros_would_not_stay_harmless() -> None:
    def of(activation: str) -> Graph:
        shapes = (3, 9, 9), (40, 9, 9)
        operation = Convolution(
            name="a", sources=((-1,),), channels=40, rows=9, columns=9, activation=Activation(activation)
        )
        node = Node(operation, "conv2d", shapes[0], shapes, LazyArray.of(np.ones((40, 3, 1, 1))), (np.ones(40),))
        return Graph((node,), shapes[0], 4)

    assert pad_channels(of("relu")) is not None
    assert pad_channels(of("log")) is None  # of 0 it is not finite
    assert pad_channels(graph_of(blocks(32, ""))) is None  # four rows of it fit as they are


def test_pairs_of_rows_are_quicker_for_a_batch_of_40_channels() -> None:
    wide, plain = (decided(blocks(40, ""), decisions, 8) for decisions in (WIDE, Decisions()))
    assert (convolution_of(wide.graph, "a").kernel, convolution_of(wide.graph, "a").channels) == ((2, 3), 128)
    assert nanoseconds(wide) < nanoseconds(plain)
