"""Inputs loaded in groups of rows."""

import pytest
from lowered import assert_right, convolution_of, graph_of
from random_networks import ending_in_dense
from trninfer.lowering.decisions import Decisions
from trninfer.lowering.passes.stream_input import GROUP_BYTES, stream_input
from trninfer.models.layers import Conv2d, Dense, Flatten
from trninfer.models.network import Network


def of_image(channels: int, side: int) -> Network:
    return ending_in_dense((channels, side, side), [Conv2d("a", channels, 4, (3, 3), (1, 1, 1, 1), stride=(4, 4))])


@pytest.mark.parametrize(
    ("channels", "side", "bytes_"),
    [
        (3, 43, 0),  # 45 x 45 numbers of 4 bytes per partition
        (3, 44, GROUP_BYTES),
        (130, 29, 0),  # in two tiles
        (130, 31, GROUP_BYTES),
    ],
)
def test_a_large_input_comes_in_groups(channels: int, side: int, bytes_: int) -> None:
    assert convolution_of(stream_input(graph_of(of_image(channels, side))), "a").group_bytes == bytes_


def test_half_as_many_bytes_a_number_are_whole_images_of_twice_the_size() -> None:
    assert convolution_of(stream_input(graph_of(of_image(3, 44), "bfloat16")), "a").group_bytes == 0


def test_features_come_as_a_whole() -> None:
    layers = (Flatten("flat"), Dense("a", 3 * 100 * 100, 4), Dense("b", 4, 4))
    graph = graph_of(Network("n", of_image(3, 100).input, layers, tuple("abcd")))
    assert [getattr(node.operation, "group_bytes", 0) for node in stream_input(graph).nodes] == [0] * len(graph.nodes)


@pytest.mark.parametrize("batch", [1, 3])
def test_groups_compute_what_the_golden_model_does(batch: int) -> None:
    plan = assert_right(of_image(3, 130), Decisions(), batch, at_once=1)
    assert convolution_of(plan.graph, "a").group_bytes == GROUP_BYTES
